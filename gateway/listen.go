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

// listen serves a subscriptions/listen for an upstream that does not know it. It is a call that only the end of the
// upstream answers.
func (p *peer) listen(c *call, params json.RawMessage) {
	var wanted struct {
		Notifications filter `json:"notifications"`
	}
	if err := json.Unmarshal(params, &wanted); err != nil {
		c.f.fail(c, Refused, &failure{codeInvalidParams, "params of " + methodListen + ": " + err.Error(), ""})
		return
	}
	if _, err := p.begin(c, nil); err != nil {
		c.f.fail(c, Refused, failureOf(err))
		return
	}
	acknowledged := compact(map[string]any{
		"notifications": wanted.Notifications, "_meta": map[string]json.RawMessage{metaSubscription: json.RawMessage(c.id)},
	})
	c.f.push(arrival{m: mcphttp.Message{Raw: request("", noteAcknowledged, acknowledged), Method: noteAcknowledged}})
	p.mu.Lock()
	c.listens = &wanted.Notifications
	p.mu.Unlock()
	for _, uri := range wanted.Notifications.URIs {
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
