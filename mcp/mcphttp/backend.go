package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
)

// Backend answers what clients send. Its methods are called from many goroutines at
// a time.
type Backend interface {
	// Serve handles what one POST has brought: x.Messages, which are requests, of which there is
	// one, or several in a batch of version 2025-03-26, or notifications alone. It answers each request with
	// x.Respond and returns; requests that are not answered by then are answered with
	// an internal error, which says err if it is not nil.
	//
	// Responses to what was asked with Ask, and notifications/cancelled, do not come this way.
	//
	// A client that goes away does not end ctx, but on version 2026-07-28 it does. Otherwise ctx ends with
	// the session and with the Handler. What is sent after Serve has returned is refused.
	Serve(ctx context.Context, x *Exchange) error
	// Cancel hands over a notifications/cancelled that names a request of x which has no answer
	// yet. It must not block.
	Cancel(x *Exchange, notification Message)
	// Attach tells that a client listens to what concerns the session as a whole, which is sent with
	// Session.Notify and Session.Ask. It is called before the first byte of each GET stream,
	// on the replica that has it, and again when a client comes back. ctx ends with the session and
	// with the Handler; r is the GET. An error refuses it.
	Attach(ctx context.Context, s *Session, r *http.Request) error
	// Detach tells that this process has nothing more to do with s: the session has ended, was not used for a while
	// (it may come back, as another *Session), or the Handler is closed. No Serve of s is running, and none follows.
	Detach(s *Session)
	// InputSchema is the JSON schema of what a tool takes, nil where that is not known. Version 2026-07-28 has
	// arguments in the headers Mcp-Param-* where a schema says so; without one they are not checked.
	InputSchema(ctx context.Context, x *Exchange, tool string) (json.RawMessage, error)
}
