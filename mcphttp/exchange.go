package mcphttp

import (
	"net/http"
	"time"

	"reprise"
)

// Exchange is one POST: what the client sent, and where the answers go. Its fields must not
// be changed. Its methods are safe for concurrent use.
//
// What Notify, Respond and Ask take is one JSON-RPC message, which they copy. They return when it is on its
// way: appended in order, and shown to the client once it is kept. They block while more than a
// few MiB wait to be kept. The error is reprise.ErrInvalid for a message that is no JSON object or longer than
// MaxMessage, reprise.ErrEnded after the last response, or reprise.ErrClosed.
type Exchange struct {
	// Session is nil on version 2026-07-28.
	Session *Session
	// Messages are requests and notifications, at least one.
	Messages []Message
	// Version is that of the protocol, for example "2025-11-25".
	Version string
	// Header is that of the HTTP request.
	Header http.Header
	// Tenant and Principal say who it is; see Options.Identify.
	Tenant    reprise.Tenant
	Principal string
	// Request is the HTTP request. Its body was read, and its context is not that of Serve.
	Request *http.Request
}

// MaxMessage is the most bytes of a message from the server.
const MaxMessage = 7 << 20

// Notify sends a notification on the stream of this exchange, or on that of the session as a whole
// where the exchange has none: it brought notifications alone, or is answered as JSON.
func (x *Exchange) Notify(message []byte) error { panic("not yet") }

// Respond sends the response to the request with the given id, once for each. The error is reprise.ErrInvalid where
// no such request waits.
func (x *Exchange) Respond(id ID, message []byte) error { panic("not yet") }

// Ask sends a request with the given id. The client is shown it under another id, which is
// unique in the session; answer gets the response, with id put back, in a goroutine of
// its own and at most once. Where there is nobody to ask, on version 2026-07-28, the error is reprise.ErrInvalid.
func (x *Exchange) Ask(id ID, message []byte, answer func(response []byte)) error { panic("not yet") }

// CloseConnection ends the HTTP response and not the stream: the client comes back for the rest, not
// before retry, which is told if it is not 0. It does nothing where the client cannot do that:
// before version 2025-11-25, on 2026-07-28 and with JSON responses.
func (x *Exchange) CloseConnection(retry time.Duration) { panic("not yet") }
