package link

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// maxRefusal limits the number of bytes read from an answer whose status is an error.
const maxRefusal = 64 << 10

// Send implements Link. For a JSON-RPC request it returns when the HTTP request has begun; for a notification or a
// response it returns when the HTTP request was answered.
func (l *HTTP) Send(ctx context.Context, m Message) error {
	if m.ID == 0 {
		return l.sendOneWay(ctx, m)
	}
	life, stop := context.WithCancel(l.life)
	r, err := l.newPost(life, m)
	if err != nil {
		stop()
		return err
	}
	l.mu.Lock()
	l.stops[m.ID] = stop
	l.mu.Unlock()
	if l.run(func() { l.roundTrip(r, m) }) {
		return nil
	}
	l.finish(m.ID)
	return ErrEnded
}

// finish ends the HTTP request of a JSON-RPC request.
func (l *HTTP) finish(id int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops[id]()
	delete(l.stops, id)
}

// sendOneWay sends a notification or a response.
func (l *HTTP) sendOneWay(ctx context.Context, m Message) error {
	r, err := l.newPost(ctx, m)
	if err != nil {
		return err
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound && l.hasSession():
		l.closeWith(errForgotten)
		return errForgotten
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("the upstream answers %s", resp.Status)
	case m.Method == wire.NoteInitialized:
		l.run(l.readSessionStream)
	}
	return nil
}

// newPost returns the HTTP request that carries a message.
func (l *HTTP) newPost(ctx context.Context, m Message) (*http.Request, error) {
	r, err := l.newRequest(ctx, http.MethodPost, m.Raw)
	if err != nil {
		return nil, err
	}
	if _, version := l.agreed(); version == wire.Version20260728 && m.Method != "" {
		r.Header.Set("Mcp-Method", m.Method)
		if name := nameInHeader(m.Method, m.Params); name != "" {
			r.Header.Set("Mcp-Name", encodeHeader(name))
		}
		maps.Copy(r.Header, m.Header)
	}
	return r, nil
}

// nameInHeader returns the value of the header Mcp-Name for a request, or "" if the request has none.
func nameInHeader(method string, params []byte) string {
	switch method {
	case wire.MethodCall, "prompts/get":
		return wire.Text(params, "name")
	case "resources/read":
		return wire.Text(params, "uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		return wire.Text(params, "taskId")
	}
	return ""
}

// encodeHeader encodes characters that a header cannot contain; see "Request Metadata" of version 2026-07-28.
func encodeHeader(value string) string {
	plain := !strings.HasPrefix(value, "=?base64?") && strings.TrimSpace(value) == value &&
		!slices.ContainsFunc([]byte(value), func(b byte) bool { return b < ' ' || b > '~' })
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// roundTrip sends a request and hands over the answer.
func (l *HTTP) roundTrip(r *http.Request, m Message) {
	defer l.finish(m.ID)
	resp, err := l.client.Do(r)
	if err != nil {
		l.to.Fail(m.ID, noAnswer(err))
		return
	}
	defer resp.Body.Close()
	if session := resp.Header.Get("Mcp-Session-Id"); m.Method == wire.MethodInitialize && session != "" {
		l.mu.Lock()
		l.session = session
		l.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusNotFound && l.hasSession():
		l.takeNotFound(resp, m.ID)
	case resp.StatusCode/100 != 2:
		l.takeRefusal(resp, m.ID)
	case kind == "text/event-stream":
		l.readAnswerStream(r.Context(), resp.Body, &m)
	default:
		l.takeJSON(resp.Body, m.ID)
	}
}

// noAnswer returns the error for the client of a request that got no answer over HTTP.
func noAnswer(err error) *wire.Failure {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return wire.Internal(wire.ReasonUnavailable, "the upstream cannot be reached; the request was not sent")
	}
	return Interrupted(err)
}

// takeNotFound handles status 404. Unless the body answers the request, the upstream no longer knows the session and
// has not executed the request.
func (l *HTTP) takeNotFound(resp *http.Response, id int64) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	m, err := mcphttp.ParseMessage(text)
	if err == nil && m.ID == wire.ID(id) && resp.Header.Get("Mcp-Session-Id") != "" {
		l.to.Receive(m, id) // it knows the session, but not the requested item
		return
	}
	l.closeWith(errForgotten)
	l.to.Unsent(id)
}

// takeRefusal handles an answer whose status is an error.
func (l *HTTP) takeRefusal(resp *http.Response, id int64) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if m, err := mcphttp.ParseMessage(text); err == nil && m.Err != nil {
		m.ID = wire.ID(id)
		l.to.Receive(m, id)
		return
	}
	l.to.Fail(id, wire.Internal(wire.ReasonUnavailable, "the upstream answers "+resp.Status))
}

// takeJSON handles an answer that is not a stream.
func (l *HTTP) takeJSON(body io.Reader, id int64) {
	text, err := io.ReadAll(io.LimitReader(body, MaxMessage+1))
	switch {
	case err != nil:
		l.to.Fail(id, Interrupted(err))
	case len(text) > MaxMessage || len(bytes.TrimSpace(text)) == 0:
		l.to.Fail(id, wire.Internal(wire.ReasonLost, "the upstream's answer is empty or too long"))
	case !receiveText(bytes.TrimSpace(text), func(m mcphttp.Message) { l.to.Receive(m, id) }):
		l.to.Garbage()
		l.to.Fail(id, wire.Internal(wire.ReasonLost, "the upstream's answer is no message"))
	default: // Fail does nothing if the response was among the messages
		l.to.Fail(id, wire.Internal(wire.ReasonLost, "the upstream's answer has no response"))
	}
}
