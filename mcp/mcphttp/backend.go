package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
)

// Backend answers the messages of clients. Its methods are called from many goroutines
// concurrently.
type Backend interface {
	// Serve handles the messages of one POST, x.Messages. These are either requests or only notifications. There is one
	// request, or several in a batch of version 2025-03-26. Serve answers each request with
	// x.Respond and returns. Requests that are not answered by then are answered with
	// an internal error, which contains err if it is not nil.
	//
	// Responses to requests of Ask, and notifications/cancelled, are not passed to Serve.
	//
	// A disconnect of the client ends ctx only on version 2026-07-28. Otherwise ctx ends with
	// the session and with the Handler. Messages that are sent after Serve has returned are refused.
	Serve(ctx context.Context, x *Exchange) error
	// Cancel passes on a notifications/cancelled for a request of x that has no answer
	// yet. It must not block.
	Cancel(x *Exchange, notification Message)
	// Attach is called when a client opens the stream of the session as a whole, to which Session.Notify and
	// Session.Ask send. It is called before the first byte of each GET stream, on the replica that serves the stream,
	// and again when a client reconnects. ctx ends with the session and with the Handler; r is the GET. An error
	// refuses the request.
	Attach(ctx context.Context, s *Session, r *http.Request) error
	// Detach is called when this process no longer uses s: the session has ended, the session was idle (it may return,
	// as another *Session), or the Handler is closed. No Serve of s is running, and none follows.
	Detach(s *Session)
	// InputSchema returns the JSON schema of a tool's input, or nil if it is not known. In version 2026-07-28 the
	// headers Mcp-Param-* repeat arguments if the schema says so; without a schema they are not checked.
	InputSchema(ctx context.Context, x *Exchange, tool string) (json.RawMessage, error)
}
