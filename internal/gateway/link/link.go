package link

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// Link carries messages to an upstream and back. Its methods are safe for concurrent use.
type Link interface {
	// Start makes the link pass messages of the upstream to r. It is called once, before all other methods.
	Start(r Receiver)
	// Send sends a message. It blocks while the upstream takes none, until ctx or the link ends. It returns ErrEnded
	// if the link had ended before and nothing was sent.
	Send(ctx context.Context, m Message) error
	// Agree sets the protocol version that later messages name.
	Agree(version string)
	// Drop stops waiting for the response to a request.
	Drop(id int64)
	// Close begins to end the link, in good order if possible, and does not wait.
	Close()
	// Ending reports whether the link has begun to end.
	Ending() bool
	// Done is closed when the link has ended and makes no more calls to Receiver.
	Done() <-chan struct{}
	// Err returns how the link ended. It is valid after Done.
	Err() error
	// Lost reports whether the link ended for another reason than Close. It is valid after Done.
	Lost() bool
}

// Receiver receives the messages of an upstream.
type Receiver interface {
	// Receive takes a message. during is the id of the request in whose answer it came, 0 where that is not known. It
	// is called by one goroutine at a time for each answer.
	Receive(m mcphttp.Message, during int64)
	// Fail tells that a request gets no response from the upstream. It does nothing if the response has come.
	Fail(id int64, why *wire.Failure)
	// Unsent tells that a request was not carried out because the upstream has forgotten the session. The link is
	// ending.
	Unsent(id int64)
	// Garbage is called for each line or answer that is not a message.
	Garbage()
}

// Message is a message to an upstream.
type Message struct {
	Raw    []byte
	ID     int64  // of a request, else 0
	Method string // of a request or notification, else ""
	Params json.RawMessage
	Header http.Header // is added to the headers of version 2026-07-28; may be nil
	// At, if not nil, is called after each message of the answer to a request with the place from which HTTP.Resume
	// can continue to read, if the upstream can resume. It is called by the goroutine that reads the answer.
	At func(Place)
}

// Place is a position in the answer of an Endpoint to a request. Another process can continue there.
type Place struct {
	ID          int64  `json:"id"` // of the request
	Session     string `json:"session,omitempty"`
	Version     string `json:"version"`
	LastEventID string `json:"last_event_id"`
	// Questions is the number of requests of the upstream before the place, since the answer was first read or resumed.
	Questions int `json:"-"`
}

// MaxMessage is the longest message that is read from an upstream, in bytes.
const MaxMessage = 16 << 20

// ErrEnded is returned by Send if the upstream has ended and nothing was sent.
var ErrEnded = wire.Internal(wire.ReasonUnavailable, "the upstream has ended; the request was not carried out")

// Interrupted returns the error for the client of a request whose upstream ended before it answered. why may be nil.
func Interrupted(why error) *wire.Failure {
	message := "the upstream ended before it had answered; whether the request was carried out is not known"
	if why != nil {
		message = fmt.Sprintf("%s (%v)", message, why)
	}
	return wire.Internal(wire.ReasonLost, message)
}

// receiveText calls receive for the message in text, or for each of a batch. It reports whether all were messages.
func receiveText(text []byte, receive func(mcphttp.Message)) bool {
	if text[0] != '[' {
		m, err := mcphttp.ParseMessage(text)
		if err == nil {
			receive(m)
		}
		return err == nil
	}
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) != nil {
		return false
	}
	for _, raw := range batch {
		m, err := mcphttp.ParseMessage(raw)
		if err != nil {
			return false
		}
		receive(m)
	}
	return true
}
