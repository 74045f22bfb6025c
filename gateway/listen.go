package gateway

import (
	"encoding/json"

	"reprise/mcphttp"
)

// filter is what a client has subscribed to; see SubscriptionFilter of version 2026-07-28.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// wants reports whether a notification is among what was subscribed to.
func (f *filter) wants(m *mcphttp.Message) bool {
	switch m.Method {
	case "notifications/tools/list_changed":
		return f.Tools
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	case noteUpdated:
		return hasString(f.URIs, stringMember(m.Params, "uri"))
	}
	return false
}

// canListen reports whether we serve a subscriptions/listen: we know all that it names, or the upstream does not know it.
func (p *peer) canListen(params json.RawMessage) bool {
	if !p.stateless.Load() {
		return true
	}
	for name := range members(members(params)["notifications"]) {
		switch name {
		case "toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions":
		default:
			return false
		}
	}
	return true
}

// tellable is what of a filter the upstream can tell.
func (p *peer) tellable(f filter) filter {
	can := func(name, what string) bool {
		var yes bool
		_ = json.Unmarshal(members(members(members(p.greeting)["capabilities"])[name])[what], &yes) // of another type it is no
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

// listen serves a subscriptions/listen. It is a call that only the end of the upstream answers.
func (p *peer) listen(c *call, params json.RawMessage) {
	var wanted struct {
		Notifications filter `json:"notifications"`
	}
	if err := json.Unmarshal(params, &wanted); err != nil {
		c.f.fail(c, Refused, &failure{codeInvalidParams, "params of " + methodListen + ": " + err.Error(), ""})
		return
	}
	heard := p.tellable(wanted.Notifications)
	if _, err := p.begin(c, nil); err != nil {
		c.f.fail(c, Refused, failureOf(err))
		return
	}
	acknowledged := compact(map[string]any{
		"notifications": heard, "_meta": map[string]json.RawMessage{metaSubscription: json.RawMessage(c.id)},
	})
	c.f.push(arrival{m: mcphttp.Message{Raw: request("", noteAcknowledged, acknowledged), Method: noteAcknowledged}})
	p.mu.Lock()
	c.listens = &heard
	p.mu.Unlock()
	if p.stateless.Load() {
		p.hear(heard)
		return
	}
	for _, uri := range heard.URIs {
		p.tellTopic(methodSubscribe, uri)
	}
}

// tellListeners sends a notification to the clients without sessions that have subscribed to it, or during whose only
// request it came.
func (p *peer) tellListeners(m mcphttp.Message) {
	if !concernsAll(m.Method) {
		if f, several := p.flightOf(nil); f != nil && !several && (m.Method != noteLog || f.logs) {
			f.push(arrival{m: m})
		}
		return
	}
	p.mu.Lock()
	var listeners []*call
	for _, c := range p.calls {
		if c.listens != nil && c.listens.wants(&m) {
			listeners = append(listeners, c)
		}
	}
	p.mu.Unlock()
	for _, c := range listeners {
		params := editMeta(m.Params, func(meta map[string]json.RawMessage) { meta[metaSubscription] = json.RawMessage(c.id) })
		c.f.push(arrival{m: mcphttp.Message{Raw: request("", m.Method, params), Method: m.Method}})
	}
}
