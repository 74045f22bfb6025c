package gateway

import (
	"encoding/json"
	"strings"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// Receive implements link.Receiver.
func (c *connection) Receive(m mcphttp.Message, during int64) {
	switch {
	case m.Method == "":
		c.takeResponse(m)
	case m.ID != "":
		c.takeQuestion(m, c.calls.find(during))
	default:
		c.takeNotification(m, c.calls.find(during))
	}
}

// Fail implements link.Receiver.
func (c *connection) Fail(id int64, why *wire.Failure) {
	if k := c.calls.take(id); k != nil {
		k.respond(mcphttp.Message{}, why)
	}
}

// Unsent implements link.Receiver.
func (c *connection) Unsent(id int64) {
	k := c.calls.take(id)
	if k == nil {
		return
	}
	message := "the upstream has forgotten the session; the request was not carried out"
	why := wire.Internal(wire.ReasonUnavailable, message)
	if k.request == nil {
		k.respond(mcphttp.Message{}, why)
		return
	}
	k.request.in.push(arrival{request: k.request, resend: true, m: mcphttp.Message{Err: why.JSON()}, result: Lost})
}

// Garbage implements link.Receiver.
func (c *connection) Garbage() {
	if hook := c.g.opts.Hooks.Garbage; hook != nil {
		hook(c.g.up.Name)
	}
}

// takeResponse hands a response to its call, unless that was abandoned.
func (c *connection) takeResponse(m mcphttp.Message) {
	if k := c.calls.take(wire.ParseID([]byte(m.ID))); k != nil {
		k.respond(m, nil)
	}
}

// takeQuestion hands a request of the upstream to the client that it is for.
func (c *connection) takeQuestion(m mcphttp.Message, during *call) {
	switch {
	case m.Method == wire.MethodPing:
		c.sendAside(wire.Response(m.ID, json.RawMessage("{}"), nil), "")
		return
	case c.g.up.Shared:
		c.refuseNoClient(m.ID, "this connection has several clients, which cannot be asked")
		return
	}
	s := c.key.session
	r, several := c.requestOf(during)
	switch {
	case r != nil && (!several || s == nil || !c.attached.Load()):
		if r.in.push(arrival{m: m, from: c}) {
			return
		}
	case s != nil:
		if s.Ask(m.ID, m.Raw, c.reply) == nil {
			return
		}
	}
	c.refuseNoClient(m.ID, "there is no client to be asked")
}

// requestOf returns the client's request that a message of the upstream belongs to: the client of the call during which
// it arrived or, if that is unknown, the newest. several reports that it may belong to other exchanges as well.
func (c *connection) requestOf(during *call) (r *clientRequest, several bool) {
	if during != nil && during.request != nil {
		return during.request, false
	}
	return c.calls.newest()
}

// takeNotification hands a notification of the upstream to its receivers.
func (c *connection) takeNotification(m mcphttp.Message, during *call) {
	switch {
	case m.Method == wire.NoteProgress:
		c.takeProgress(m)
	case m.Method == wire.NoteCancelled:
		// It names a question, which the client knows under another id. The end of the call ends the question.
	case c.stateless():
		c.takeSubscribed(m, during)
	case concernsAll(m.Method):
		c.tellAll(m)
	default:
		c.tellCaller(m, during)
	}
}

// concernsAll reports whether a notification is about the server and not about a call.
func concernsAll(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == wire.NoteUpdated
}

// takeProgress hands a notification about a call to its client, with the client's own token.
func (c *connection) takeProgress(m mcphttp.Message) {
	params := wire.Members(m.Params)
	k := c.calls.find(wire.ParseID(params["progressToken"]))
	if k == nil || k.request == nil || k.token == nil {
		return // it comes too late
	}
	params["progressToken"] = k.token
	k.request.in.push(notification(m.Method, wire.Compact(params)))
}

// takeSubscribed hands a notification of an upstream without sessions to the subscription that it names, or else to the
// request during which it came.
func (c *connection) takeSubscribed(m mcphttp.Message, during *call) {
	id := wire.Meta(m.Params)[wire.MetaSubscription]
	if id == nil {
		if r, several := c.requestOf(during); r != nil && !several {
			r.in.push(arrival{m: m})
		}
		return
	}
	k := c.calls.find(wire.ParseID(id))
	switch {
	case k == nil: // it comes too late
	case k.request != nil:
		k.request.tellSubscribed(m)
	case concernsAll(m.Method):
		params := wire.EditMeta(m.Params, func(meta map[string]json.RawMessage) { delete(meta, wire.MetaSubscription) })
		c.tellAll(wire.Notification(m.Method, params))
	}
}
