package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"reprise"
)

// Exchange is one POST: the messages of the client and the way back for answers. Its fields must not
// be changed. Its methods are safe for concurrent use.
//
// Notify, Respond and Ask take one JSON-RPC message, which they copy. They return when the message is queued in order;
// it is sent to the client once it is kept. They block while more than a
// few MiB are waiting. The error is reprise.ErrInvalid for a message that is not a JSON object or is longer than
// MaxMessage, reprise.ErrEnded after the last response, or the reason why the stream can no longer be appended to.
type Exchange struct {
	// Session is nil on version 2026-07-28. For an initialize request it has no version yet.
	Session *Session
	// Messages are requests and notifications, at least one.
	Messages []Message
	// Version is the protocol version, for example "2025-11-25"; "" for an initialize request.
	Version string
	// Header is the header of the HTTP request.
	Header http.Header
	// Tenant and Principal identify the caller; see Options.Identify.
	Tenant    reprise.Tenant
	Principal string
	// Request is the HTTP request. Its body has been read, and its context is not the one that Serve has.
	Request *http.Request

	h    *Handler
	name string // of its stream
	sink sink   // nil where there is nothing to respond to
	// aside is true if messages other than responses go to the stream of the session as a whole.
	aside bool
	life  context.Context // of Serve
	end   context.CancelCauseFunc

	responding sync.Mutex // held while a response is sent, so that the last one comes last
	mu         sync.Mutex
	waiting    map[ID]string // the methods of the requests that have no answer yet
	asked      []ID          // our requests to the client in this exchange
}

// sink takes the messages of an exchange, which it keeps.
type sink interface {
	send(message []byte, last bool) error
}

// MaxMessage is the maximum size of a message from the server, in bytes.
const MaxMessage = 7 << 20

// Stateless reports whether the protocol version of the exchange has no sessions.
func (x *Exchange) Stateless() bool { return x.Session == nil }

// Notify sends a notification on the stream of this exchange. If the exchange has none, because it has only
// notifications or is answered as JSON, the stream of the session as a whole is used; without a session the
// notification is dropped.
func (x *Exchange) Notify(message []byte) error {
	message, err := checked(message)
	if err != nil {
		return err
	}
	return x.notify(message)
}

func (x *Exchange) notify(message []byte) error {
	switch {
	case x.sink != nil && !x.aside:
		return x.sink.send(message, false)
	case x.Session != nil:
		return x.Session.notify(message)
	}
	return nil
}

// Respond sends the response to the request with the given id, once per request. The error is reprise.ErrInvalid if
// no such request is waiting.
func (x *Exchange) Respond(id ID, message []byte) error {
	message, err := checked(message)
	if err != nil {
		return err
	}
	return x.respond(id, message)
}

func (x *Exchange) respond(id ID, message []byte) error {
	if len(message) > MaxMessage {
		message = errorResponse(id, rpcError{
			Code:    codeInternal,
			Message: fmt.Sprintf("the response has %d bytes, at most %d are sent", len(message), MaxMessage),
		})
	}
	x.responding.Lock()
	defer x.responding.Unlock()
	x.mu.Lock()
	method, ok := x.waiting[id]
	delete(x.waiting, id)
	last := len(x.waiting) == 0
	x.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: no request %s waits", reprise.ErrInvalid, id)
	}
	x.note(id, method, message)
	if x.Session != nil {
		x.Session.answered(id) // before the client can have it, and use the id again
	}
	return x.sink.send(message, last)
}

// Ask sends a request with the given id. The client sees it under another id, which is unique in the session. answer is
// called with the response under the original id, in a separate goroutine, at most once, and not after the exchange has
// been answered. On version 2026-07-28, which has no requests to clients, the error is reprise.ErrInvalid.
func (x *Exchange) Ask(id ID, message []byte, answer func(response []byte)) error {
	message, err := checked(message)
	if err != nil {
		return err
	}
	s := x.Session
	switch {
	case s == nil:
		return fmt.Errorf("%w: the client takes no requests on version %s", reprise.ErrInvalid, x.Version)
	case x.sink == nil || x.aside:
		o, err := s.wholeOutlet()
		if err != nil {
			return err
		}
		_, err = s.ask(standalone, o, id, message, answer)
		return err
	}
	seen, err := s.ask(x.name, x.sink, id, message, answer)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.asked = append(x.asked, seen)
	x.mu.Unlock()
	return nil
}

// CloseConnection ends the HTTP response but not the stream: the client reconnects for the rest, not
// before retry, or Options.Retry if it is 0. It does nothing if the client cannot do that:
// before version 2025-11-25, on 2026-07-28 and with JSON responses.
func (x *Exchange) CloseConnection(retry time.Duration) {
	if x.Session == nil || x.sink == nil || x.aside || x.Version < version20251125 {
		return
	}
	if e, ok := x.sink.(*early); ok && e.close(retry) {
		return
	}
	x.Session.closeConnection(x.name, retry)
}

// unanswered are the requests that have no answer yet.
func (x *Exchange) unanswered() []ID {
	x.mu.Lock()
	defer x.mu.Unlock()
	ids := make([]ID, 0, len(x.waiting))
	for _, m := range x.Messages { // in their order
		if _, ok := x.waiting[m.ID]; ok && m.isCall() {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// close answers the requests that the backend has not answered, and drops its pending requests to the client.
func (x *Exchange) close(e rpcError) {
	for _, id := range x.unanswered() {
		response := errorResponse(id, e)
		if x.Messages[0].Method == methodListen {
			response = listenResult(id) // it ends in good order
		}
		_ = x.respond(id, response) // if it cannot be kept, whoever serves next says so
	}
	x.mu.Lock()
	asked := x.asked
	x.asked = nil
	x.mu.Unlock()
	if x.Session != nil {
		x.Session.forget(asked)
	}
}

// listenResult ends a subscriptions/listen.
func listenResult(id ID) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"resultType":"complete","_meta":{"` +
		metaSubscription + `":` + string(id) + `}}}`)
}

// checked copies a message and makes one line of it.
func checked(message []byte) ([]byte, error) {
	line := onOneLine(message)
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return nil, fmt.Errorf("%w: the message is not a JSON object", reprise.ErrInvalid)
	}
	return bytes.Clone(line), nil
}
