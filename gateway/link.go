package gateway

import (
	"context"
	"net/http"

	"reprise/mcphttp"
)

// link carries messages to an upstream and back.
type link interface {
	// send sends a message. It blocks while the upstream takes none, until ctx ends or the link does. The error is errEnded if
	// the link had ended before and nothing was sent.
	send(ctx context.Context, m outgoing) error
	// agreed tells the version that initialize has negotiated, or the one without sessions.
	agreed(version string)
	// drop lets go of a call whose answer nobody waits for.
	drop(c *call)
	// close ends the link, in good order if it can, and does not wait.
	close()
	// ending reports whether the link has begun to end.
	ending() bool
	// done is closed when the link has ended and nothing more comes from it; why then says how.
	done() <-chan struct{}
	why() error
	// lost reports, then, whether it was not ended by close.
	lost() bool
}

// outgoing is a message to an upstream.
type outgoing struct {
	raw    []byte
	call   *call  // of a request, else nil
	method string // of a request or notification, else ""
	params []byte
	header http.Header // for an upstream at a URL, may be nil
}

// receiver takes what an upstream says. during is the request in whose answer it came, nil where that is
// not known. It is called by one goroutine at a time for each answer.
type receiver func(m mcphttp.Message, during *call)

// maxLine bounds a message of an upstream, in bytes.
const maxLine = 16 << 20
