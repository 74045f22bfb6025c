package gateway

import (
	"encoding/json"
	"slices"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// filter is the set of notifications that a client has subscribed to; see SubscriptionFilter of version 2026-07-28.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// everyList selects the notifications that a client with a session gets without a subscription.
var everyList = filter{Tools: true, Prompts: true, Resources: true}

// wants reports whether a notification is among what f subscribes to.
func (f *filter) wants(m *mcphttp.Message) bool {
	switch m.Method {
	case "notifications/tools/list_changed":
		return f.Tools
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	case wire.NoteUpdated:
		return slices.Contains(f.URIs, wire.Text(m.Params, "uri"))
	}
	return false
}

// merge adds what other subscribes to, and reports whether that changes f.
func (f *filter) merge(other filter) (changed bool) {
	for _, list := range []struct{ has, wants *bool }{
		{&f.Tools, &other.Tools}, {&f.Prompts, &other.Prompts}, {&f.Resources, &other.Resources},
	} {
		changed = changed || *list.wants && !*list.has
		*list.has = *list.has || *list.wants
	}
	for _, uri := range other.URIs {
		if !slices.Contains(f.URIs, uri) {
			f.URIs = append(slices.Clone(f.URIs), uri)
			changed = true
		}
	}
	return changed
}

// isFilter reports whether the params of a subscriptions/listen contain only members of a filter.
func isFilter(params json.RawMessage) bool {
	for name := range wire.Members(wire.Members(params)["notifications"]) {
		switch name {
		case "toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions":
		default:
			return false
		}
	}
	return true
}

// offered returns what of f the upstream can tell.
func (c *connection) offered(f filter) filter {
	can := func(name, what string) bool {
		var yes bool
		_ = json.Unmarshal(wire.Members(c.capability(name))[what], &yes) // of another type it is no
		return yes
	}
	f.Tools = f.Tools && can("tools", "listChanged")
	f.Prompts = f.Prompts && can("prompts", "listChanged")
	f.Resources = f.Resources && can("resources", "listChanged")
	if !can("resources", "subscribe") {
		f.URIs = nil
	}
	return f
}

// listen serves a subscriptions/listen: a call that is not sent to the upstream, and that ends only with it.
func (c *connection) listen(r *clientRequest) {
	var params struct {
		Notifications filter `json:"notifications"`
	}
	if err := json.Unmarshal(r.params, &params); err != nil {
		message := "params of " + wire.MethodListen + ": " + err.Error()
		r.fail(Refused, &wire.Failure{Code: wire.CodeInvalidParams, Message: message})
		return
	}
	offered := c.offered(params.Notifications)
	k := &call{method: r.method, conn: c, request: r}
	if err := c.calls.add(k, c.g.up.MaxCalls); err != nil {
		r.fail(Refused, failureOf(err))
		return
	}
	r.call = k
	acknowledged := wire.WithSubscription(wire.Compact(map[string]any{"notifications": offered}), r.id)
	r.in.push(notification(wire.NoteAcknowledged, acknowledged))
	c.calls.listen(k, &offered)
	if c.stateless() {
		c.subscription.add(offered)
		return
	}
	for _, uri := range offered.URIs {
		c.askAside(wire.MethodSubscribe, uri)
	}
}
