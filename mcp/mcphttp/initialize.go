package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"reprise"
)

const (
	// maxSubscriptions limits the subscriptions of a client in a session, and maxInitialize the bytes of its initialize
	// request. Both are kept in one event.
	maxSubscriptions = 1000
	maxInitialize    = 64 << 10
	// maxInstance limits the bytes of the header Mcp-Client-Instance-Id; a longer one is ignored.
	maxInstance = 128
)

func (state *sessionState) subscribe(uri string) {
	if !slices.Contains(state.Subscriptions, uri) && len(state.Subscriptions) < maxSubscriptions {
		state.Subscriptions = append(slices.Clone(state.Subscriptions), uri)
	}
}

func (state *sessionState) unsubscribe(uri string) {
	state.Subscriptions = slices.DeleteFunc(slices.Clone(state.Subscriptions), func(s string) bool { return s == uri })
}

// whole is the sink of an exchange whose responses are sent together, as JSON.
type whole struct {
	mu        sync.Mutex
	responses [][]byte
	done      chan struct{} // closed with the last
	ended     bool
}

func newWhole() *whole { return &whole{done: make(chan struct{})} }

func (a *whole) send(message []byte, last bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return reprise.ErrEnded
	}
	a.responses = append(a.responses, message)
	if last {
		a.ended = true
		close(a.done)
	}
	return nil
}

// initialize begins a session.
func (h *Handler) initialize(w http.ResponseWriter, r *http.Request, c caller, messages []Message) *refusal {
	m := &messages[0]
	version, instance := r.Header.Get(headerVersion), r.Header.Get(headerInstance)
	if len(instance) > maxInstance {
		instance = ""
	}
	switch {
	case version != "" && !h.serves(version):
		return h.unsupported(version, m.ID)
	case !slices.ContainsFunc(h.opts.Versions, hasSessions):
		return h.unsupported(requestedVersion(m), m.ID)
	case m.ID == "":
		return invalidRequest(http.StatusBadRequest, "initialize is a request and has an id")
	case r.Header.Get(headerSession) != "" && instance == "":
		return invalidRequest(http.StatusBadRequest, "a session begins without a header Mcp-Session-Id")
	case len(m.Params) > maxInitialize:
		return invalidRequest(http.StatusRequestEntityTooLarge, "the params of initialize are too long")
	}
	release, err := h.opts.Admit(c.tenant, c.principal, true)
	if err != nil {
		return refusalOf(err)
	}
	h.offer(m)
	s := h.newSession(c.tenant, c.principal, randomText(sessionName))
	s.release = release
	s.state.Initialize = m.Params
	x := s.exchange(r, messages)
	x.aside = true
	answer := newWhole()
	x.sink = answer
	x.waiting[m.ID] = m.Method
	if !h.run(s.life, x) {
		h.drop(s)
		return refusalOf(reprise.ErrClosed)
	}
	select {
	case <-answer.done:
	case <-r.Context().Done(): // the client cannot come back: it has no session
		h.drop(s)
		return nil
	}
	version = negotiated(answer.responses[0])
	if version == "" {
		h.drop(s)
		writeJSON(w, http.StatusOK, answer.responses[0])
		return nil
	}
	if before := h.rejoined(r, c, instance, version); before != nil {
		h.drop(s)
		s = before
	} else if err := h.keep(context.WithoutCancel(r.Context()), s, sessionState{
		Initialize: m.Params,
		Version:    version,
		Instance:   instance,
	}); err != nil {
		h.drop(s)
		return refusalOf(err)
	}
	w.Header().Set(headerSession, s.ID)
	writeJSON(w, http.StatusOK, answer.responses[0])
	return nil
}

// rejoined returns the session that an initialize request with the header Mcp-Client-Instance-Id names, or nil if
// there is none that the same principal has begun with the same header and version.
func (h *Handler) rejoined(r *http.Request, c caller, instance, version string) *Session {
	if instance == "" || r.Header.Get(headerSession) == "" {
		return nil
	}
	s, refused := h.findSession(r, c)
	if refused != nil || s.now().Instance != instance || s.Version() != version {
		return nil
	}
	return s
}

// offer replaces an unsupported version in an initialize request by the newest supported one, since the backend might
// agree to a version that this package does not implement.
func (h *Handler) offer(m *Message) {
	v := requestedVersion(m)
	if v == "" || h.serves(v) && hasSessions(v) {
		return
	}
	newest := ""
	for _, served := range h.opts.Versions {
		if hasSessions(served) {
			newest = max(newest, served)
		}
	}
	params := membersOf(m.Params)
	params["protocolVersion"] = compact(newest)
	m.Params = compact(params)
	m.Raw = m.withID(m.ID)
}

// requestedVersion is the version in an initialize request.
func requestedVersion(m *Message) string {
	var params struct {
		Version string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(m.Params, &params) // then it is ""
	return params.Version
}

// negotiated is the version in the response to initialize, "" if it is an error.
func negotiated(response []byte) string {
	m, err := ParseMessage(response)
	if err != nil || m.Err != nil {
		return ""
	}
	var result struct {
		Version string `json:"protocolVersion"`
	}
	if json.Unmarshal(m.Result, &result) != nil {
		return ""
	}
	return result.Version
}

// answerWhole answers an exchange with JSON, once all responses are there.
func (h *Handler) answerWhole(w http.ResponseWriter, r *http.Request, x *Exchange) *refusal {
	answer := newWhole()
	x.sink = answer
	calls := len(x.waiting)
	if !h.run(x.Session.life, x) {
		x.Session.dismiss(x)
		return refusalOf(errNoSession)
	}
	select {
	case <-answer.done:
	case <-r.Context().Done():
		return nil
	}
	writeAnswers(w, answer.responses, calls == 1 && len(x.Messages) == 1)
	return nil
}

// writeAnswers answers with responses: the only one by itself, or as a batch.
func writeAnswers(w http.ResponseWriter, responses [][]byte, alone bool) {
	if alone {
		writeJSON(w, http.StatusOK, responses[0])
		return
	}
	body := []byte{'['}
	for i, response := range responses {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, response...)
	}
	writeJSON(w, http.StatusOK, append(body, ']'))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(reprise.AppendJSONLine(nil, body)) // the client has gone if it fails
}
