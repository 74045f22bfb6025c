package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/mcpguard"
)

// isSyntaxError reports whether a body was not JSON.
func isSyntaxError(err error) bool {
	_, ok := errors.AsType[*json.SyntaxError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF)
}

// servePost takes messages, and answers those that are requests.
func (h *Handler) servePost(w http.ResponseWriter, r *http.Request) *refusal {
	c, refused := h.identify(r)
	if refused != nil {
		return refused
	}
	if !isJSON(r) {
		return invalidRequest(http.StatusUnsupportedMediaType, "the header Content-Type must be application/json")
	}
	if httpserver.IsEncoded(r) {
		return invalidRequest(http.StatusUnsupportedMediaType, "the body has a Content-Encoding, and none is read")
	}
	if json, stream := accepts(r); !json || !stream {
		return invalidRequest(http.StatusNotAcceptable, "the header Accept must list application/json and text/event-stream")
	}
	messages, batch, refused := h.readBody(w, r)
	if refused != nil {
		return refused
	}
	if refused := h.allow(r, messages, batch); refused != nil {
		return refused
	}
	if isModern(r, messages) {
		return h.serveModern(w, r, c, messages, batch)
	}
	if messages[0].Method == methodInitialize && !batch {
		refused := h.initialize(w, r, c, messages)
		if refused != nil {
			refused.id = messages[0].ID
		}
		return refused
	}
	s, refused := h.findSession(r, c)
	if refused == nil {
		refused = s.take(w, r, messages, batch)
	}
	if refused != nil && !batch {
		refused.id = messages[0].ID
	}
	return refused
}

// allow asks Options.Allow.
func (h *Handler) allow(r *http.Request, messages []Message, batch bool) *refusal {
	if h.opts.Allow == nil {
		return nil
	}
	err := h.opts.Allow(r, messages)
	if err == nil {
		return nil
	}
	refused := refusalOf(err)
	if !batch {
		refused.id = messages[0].ID
	}
	return refused
}

// The methods that the transport has something to do with.
const (
	methodInitialize  = "initialize"
	methodPing        = "ping"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodListen      = "subscriptions/listen"
	noteInitialized   = "notifications/initialized"
	noteCancelled     = "notifications/cancelled"
)

// take processes the messages of one POST of a session.
func (s *Session) take(w http.ResponseWriter, r *http.Request, messages []Message, batch bool) *refusal {
	if batch && s.Version() != version20250326 {
		return invalidRequest(http.StatusBadRequest, "version "+s.Version()+" has no batches")
	}
	var forBackend []Message
	calls := 0
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Method == methodInitialize:
			return invalidRequest(http.StatusBadRequest, "the session has begun already")
		case m.Method == "":
			if err := s.deliverAnswer(r.Context(), m); err != nil {
				return refusalOf(err)
			}
			continue
		case m.Method == noteCancelled:
			s.cancel(m)
			continue
		case m.Method == noteInitialized && m.ID == "":
			if err := s.update(r.Context(), func(state *sessionState) { state.Initialized = true }); err != nil {
				return refusalOf(err)
			}
		case m.isCall():
			calls++
		}
		forBackend = append(forBackend, *m)
	}
	if calls > 0 {
		return s.call(w, r, forBackend)
	}
	if len(forBackend) > 0 && !s.noteOnly(r, forBackend) {
		return refusalOf(errNoSession)
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// exchange is one POST of the session.
func (s *Session) exchange(r *http.Request, messages []Message) *Exchange {
	return &Exchange{
		Session:   s,
		Messages:  messages,
		Version:   s.Version(),
		Header:    r.Header,
		Tenant:    s.Tenant,
		Principal: s.Principal,
		Request:   r,
		h:         s.h,
		waiting:   map[ID]string{},
	}
}

// noteOnly hands over notifications, and reports false if the session has ended.
func (s *Session) noteOnly(r *http.Request, messages []Message) bool {
	x := s.exchange(r, messages)
	if !s.enter() {
		return false
	}
	begun := s.h.begin(func() {
		defer s.serving.Done()
		life, end := context.WithCancelCause(s.life)
		defer end(nil)
		defer context.AfterFunc(s.h.running, func() { end(context.Cause(s.h.running)) })()
		if err := s.h.serve(life, x); err != nil && life.Err() == nil {
			s.h.opts.Logger.Warn("a notification of an MCP client failed",
				"session", s.ID, "method", messages[0].Method, "error", err)
		}
	})
	if !begun {
		s.serving.Done()
	}
	return begun
}

// call answers the requests of one POST.
func (s *Session) call(w http.ResponseWriter, r *http.Request, messages []Message) *refusal {
	x := s.exchange(r, messages)
	if refused := s.admit(x); refused != nil {
		return refused
	}
	if s.h.opts.JSONResponse {
		x.aside = true
		return s.h.answerWhole(w, r, x)
	}
	x.name = randomText(exchangeName)
	return s.callEarly(w, r, x, s.h.quick(x.Messages))
}

// admit notes the requests of an exchange. It refuses an id that waits for its answer already.
func (s *Session) admit(x *Exchange) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range x.Messages {
		m := &x.Messages[i]
		if !m.isCall() {
			continue
		}
		if _, twice := x.waiting[m.ID]; twice || s.calls[m.ID] != nil {
			return invalidRequest(http.StatusBadRequest,
				"the id "+string(m.ID)+" is that of a request without an answer yet")
		}
		x.waiting[m.ID] = m.Method
	}
	for id := range x.waiting {
		s.calls[id] = x
	}
	return nil
}

// dismiss undoes admit.
func (s *Session) dismiss(x *Exchange) {
	for _, id := range x.unanswered() {
		s.answered(id)
	}
}

// keepCall creates the stream of an exchange with the messages so far, and makes e pass on later ones.
func (s *Session) keepCall(ctx context.Context, x *Exchange, e *early) (*reprise.Reader, error) {
	meta := callsMeta{}
	for i := range x.Messages {
		if m := &x.Messages[i]; m.isCall() {
			meta.add(m)
		}
	}
	owner, err := s.h.owner()
	if err != nil {
		return nil, err
	}
	events, n, end := e.first()
	config := reprise.StreamConfig{Retention: s.h.opts.Retention, Meta: compact(meta)}
	if int64(len(events)) > s.h.log.Retention(config).MaxEvents { // the reader is to see that the oldest are gone
		events, n, end = nil, 0, false
	}
	opts := reprise.CreateOptions{Owner: owner, Events: events}
	if end {
		opts.Outcome = outcomeCompleted
	}
	key := s.h.streamKey(s.Tenant, s.ID, x.name)
	stream, _, err := s.h.log.CreateWith(ctx, opts, key, config)
	if errors.Is(err, errors.ErrUnsupported) {
		n, end = 0, false
		stream, _, err = s.h.log.CreateWith(ctx, reprise.CreateOptions{Owner: owner}, key, config)
	}
	if err != nil {
		return nil, err
	}
	out := newOutlet(s.h.storing, stream, owner, func(err error) {
		x.end(err) // there is no client left to work for
		s.h.opts.Logger.Error("the answer to an MCP request is lost",
			"session", s.ID, "tenant", s.Tenant, "stream", x.name, "error", err)
	})
	out.ended = end
	s.kept(x.name)
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return nil, err
	}
	return reader, e.promote(out, n)
}

// run has the backend serve an exchange, in a goroutine that Close waits for. It reports false if the session or the
// Handler has ended.
func (h *Handler) run(life context.Context, x *Exchange) bool {
	if x.Session != nil && !x.Session.enter() {
		return false
	}
	x.life, x.end = context.WithCancelCause(life)
	stopped := context.AfterFunc(h.running, func() { x.end(context.Cause(h.running)) })
	begun := h.begin(func() {
		if x.Session != nil {
			defer x.Session.serving.Done()
		}
		defer x.end(nil)
		defer stopped()
		err := h.serve(x.life, x)
		x.close(unansweredError(x.life, err))
		if f, ok := x.sink.(interface{ flush() }); ok {
			f.flush()
		}
	})
	if !begun {
		x.end(reprise.ErrClosed)
		stopped()
		if x.Session != nil {
			x.Session.serving.Done()
		}
	}
	return begun
}

// serve has the backend serve an exchange. A panic of the backend is an error of the exchange alone.
func (h *Handler) serve(ctx context.Context, x *Exchange) (err error) {
	defer func() {
		if p := recover(); p != nil {
			mcpguard.Report(h.opts.Logger, x.Messages[0].Method, p)
			err = errors.New(mcpguard.Message(x.Messages[0].Method))
		}
	}()
	return h.backend.Serve(ctx, x)
}

// unansweredError returns the error for requests that the backend has left unanswered.
func unansweredError(life context.Context, err error) rpcError {
	e := rpcError{Code: codeInternal, Message: "the request was not answered"}
	switch {
	case errors.Is(context.Cause(life), reprise.ErrClosed):
		e.Message, e.Data = "the server was stopped before it had answered", map[string]string{"code": "server_lost"}
	case life.Err() != nil:
		e.Message = context.Cause(life).Error()
	case err != nil:
		e.Message = err.Error()
	}
	return e
}

// note records the changes of the session that the answer to a request implies.
func (x *Exchange) note(id ID, method string, response []byte) {
	switch method {
	case methodSetLevel, methodSubscribe, methodUnsubscribe:
	default:
		return
	}
	m, err := ParseMessage(response)
	if err != nil || m.Err != nil || x.Session == nil {
		return
	}
	params := x.params(id)
	err = x.Session.update(x.h.storing, func(state *sessionState) {
		switch method {
		case methodSetLevel:
			state.LogLevel = params.Level
		case methodSubscribe:
			state.subscribe(params.URI)
		case methodUnsubscribe:
			state.unsubscribe(params.URI)
		}
	})
	if err != nil && !errors.Is(err, errNoSession) {
		x.h.opts.Logger.Warn("a change of an MCP session is not kept",
			"session", x.Session.ID, "method", method, "error", err)
	}
}

// notedParams are the params of requests that change a session.
type notedParams struct {
	Level string `json:"level"`
	URI   string `json:"uri"`
}

func (x *Exchange) params(id ID) (params notedParams) {
	for i := range x.Messages {
		if x.Messages[i].ID == id {
			_ = json.Unmarshal(x.Messages[i].Params, &params) // the backend has accepted them
		}
	}
	return params
}
