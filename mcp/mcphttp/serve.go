package mcphttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/httpserver"
)

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r, done := httpserver.GuardBody(w, r, h.opts.BodyTimeout)
	defer done()
	if why := h.fromElsewhere(r); why != "" {
		invalidRequest(http.StatusForbidden, why).write(w)
		return
	}
	if h.allowPage(w, r) {
		return
	}
	if !h.enter() {
		refusalOf(reprise.ErrClosed).write(w)
		return
	}
	defer h.requests.Done()
	var refused *refusal
	switch r.Method {
	case http.MethodPost:
		refused = h.servePost(w, r)
	case http.MethodGet:
		refused = h.serveGet(w, r)
	case http.MethodDelete:
		refused = h.serveDelete(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refused = invalidRequest(http.StatusMethodNotAllowed, "the methods are POST, GET and DELETE")
	}
	if refused != nil {
		refused.write(w)
	}
}

// caller identifies the sender of a request.
type caller struct {
	tenant    reprise.Tenant
	principal string
}

func (h *Handler) identify(r *http.Request) (caller, *refusal) {
	tenant, principal, err := h.opts.Identify(r)
	if err != nil {
		return caller{}, refusalOf(err)
	}
	return caller{tenant, principal}, nil
}

// findSession finds the session that a request names, and refuses a version that is not served.
func (h *Handler) findSession(r *http.Request, c caller) (*Session, *refusal) {
	ids, version := r.Header.Values(headerSession), r.Header.Get(headerVersion)
	unserved := version != "" && !h.serves(version)
	switch {
	case len(ids) == 0 && unserved:
		return nil, h.unsupported(version, "")
	case len(ids) == 0:
		return nil, invalidRequest(http.StatusBadRequest, "the header Mcp-Session-Id is missing; a session begins with an initialize request")
	case len(ids) > 1:
		return nil, invalidRequest(http.StatusBadRequest, "there is more than one header Mcp-Session-Id")
	}
	var s *Session
	err := patiently(r.Context(), func(ctx context.Context) (err error) {
		s, err = h.session(ctx, c.tenant, c.principal, ids[0])
		return err
	})
	if err != nil {
		return nil, refusalOf(err)
	}
	if unserved && version != s.Version() { // a backend may have agreed on one that we do not know
		return nil, h.unsupported(version, "")
	}
	return s, nil
}

func (h *Handler) unsupported(requested string, id ID) *refusal {
	return &refusal{status: http.StatusBadRequest, id: id, rpc: rpcError{
		Code: codeUnsupportedVersion, Message: "Unsupported protocol version",
		Data: struct {
			Supported []string `json:"supported"`
			Requested string   `json:"requested"`
		}{slices.Clone(h.opts.Versions), requested},
	}}
}

// readBody reads the messages of a POST.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (messages []Message, batch bool, refused *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.opts.MaxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refused := refusalOf(tooLarge)
		refused.rpc.Message = fmt.Sprintf("the body is longer than %d bytes", tooLarge.Limit)
		return nil, false, refused
	}
	if err != nil {
		return nil, false, invalidRequest(http.StatusBadRequest, "the body did not arrive whole")
	}
	messages, batch, err = parseBody(body)
	if err == nil {
		return messages, batch, nil
	}
	refused = invalidRequest(http.StatusBadRequest, err.Error())
	if len(messages) > 0 {
		refused.id = messages[0].ID
	}
	if isSyntaxError(err) {
		refused.rpc.Code = codeParse
	}
	return nil, batch, refused
}

// serveDelete ends a session.
func (h *Handler) serveDelete(w http.ResponseWriter, r *http.Request) *refusal {
	c, refused := h.identify(r)
	if refused != nil {
		return refused
	}
	if r.Header.Get(headerSession) == "" && r.Header.Get(headerVersion) >= version20260728 {
		return h.sessionless(w)
	}
	s, refused := h.findSession(r, c)
	if refused != nil {
		return refused
	}
	if err := h.terminate(r.Context(), s, Terminated); err != nil {
		return refusalOf(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionless rejects methods that a version without sessions does not have.
func (h *Handler) sessionless(w http.ResponseWriter) *refusal {
	w.Header().Set("Allow", "POST")
	return invalidRequest(http.StatusMethodNotAllowed, "version "+version20260728+" has POST alone")
}

// serveGet answers with the stream of the session as a whole, or with the stream that Last-Event-ID names.
func (h *Handler) serveGet(w http.ResponseWriter, r *http.Request) *refusal {
	c, refused := h.identify(r)
	if refused != nil {
		return refused
	}
	if r.Header.Get(headerSession) == "" && r.Header.Get(headerVersion) >= version20260728 {
		return h.sessionless(w)
	}
	if _, stream := accepts(r); !stream {
		return invalidRequest(http.StatusNotAcceptable, "the header Accept must list text/event-stream")
	}
	s, refused := h.findSession(r, c)
	if refused != nil {
		return refused
	}
	if id := cmp.Or(r.Header.Get(headerEventID), r.Header.Get(headerResume)); id != "" {
		return s.resume(w, r, id)
	}
	stream, err := s.wholeStream(r.Context())
	if err != nil {
		return refusalOf(err)
	}
	at := reprise.Tail()
	if !s.now().Listened { // what was said before is kept for the first who listens
		at = reprise.Earliest()
	}
	return s.listen(w, r, stream, at)
}

// listen answers with the stream of the session as a whole.
func (s *Session) listen(w http.ResponseWriter, r *http.Request, stream *reprise.Stream, at reprise.Position) *refusal {
	reader, err := stream.Reader(r.Context(), at)
	if err == nil {
		err = s.attach(r)
	}
	if err != nil {
		if reader != nil {
			reader.Close()
		}
		return refusalOf(err)
	}
	s.toldOthers(standalone)
	s.follow(w, r, standalone, reader, s.listened)
	return nil
}

// listened records that the client has opened the stream of the session as a whole. If recording fails, the next
// listener gets the earlier messages again.
func (s *Session) listened() {
	if s.now().Listened {
		return
	}
	err := s.update(s.h.storing, func(state *sessionState) { state.Listened = true })
	if err != nil && !errors.Is(err, errNoSession) {
		s.h.opts.Logger.Warn("it is not noted that a client listens to its MCP session", "session", s.ID, "error", err)
	}
}

// attach calls Attach of the backend.
func (s *Session) attach(r *http.Request) error {
	if !s.enter() {
		return errNoSession
	}
	defer s.serving.Done()
	return s.h.backend.Attach(s.life, s, r)
}

// enter begins something that Backend.Detach waits for.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.serving.Add(1)
	return true
}

// toldOthers notifies the other replicas that this one serves a stream now.
func (s *Session) toldOthers(exchange string) {
	s.h.tellOthers(callTakeover, routed{Tenant: s.Tenant, Session: s.ID, Stream: exchange})
}

// resume answers with the events after an event id.
func (s *Session) resume(w http.ResponseWriter, r *http.Request, id string) *refusal {
	exchange, at, err := parseEventID(id)
	f := form{exchange}
	var reader *reprise.Reader
	if err == nil {
		reader, err = s.openAfter(r, exchange, at)
	}
	if err != nil {
		refused, result := refusalOfID(f, err)
		s.resumed(result, 0)
		return refused
	}
	info := reader.Info()
	if info.Tail > at.Seq && !isBareEnd(&info, at.Seq) {
		s.resumed(Replayed, info.Tail-at.Seq)
	} else {
		s.resumed(Nothing, 0)
	}
	if exchange != standalone {
		s.resumes.Store(true)
	} else if err := s.attach(r); err != nil {
		reader.Close()
		return refusalOf(err)
	}
	s.toldOthers(exchange)
	s.follow(w, r, exchange, reader, nil)
	return nil
}

// isBareEnd reports whether only an end event without a message follows seq.
func isBareEnd(info *reprise.StreamInfo, seq uint64) bool {
	return info.End != nil && len(info.End.Data) == 0 && info.Tail == seq+1
}

// openAfter opens a stream of the session after a position. A call whose server has died is ended first.
func (s *Session) openAfter(r *http.Request, exchange string, at reprise.Cursor) (*reprise.Reader, error) {
	key := s.h.streamKey(s.Tenant, s.ID, exchange)
	var reader *reprise.Reader
	err := patiently(r.Context(), func(ctx context.Context) error {
		stream, err := s.h.log.Stream(ctx, key)
		if err == nil {
			reader, err = stream.Reader(ctx, reprise.After(at))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if info := reader.Info(); exchange != standalone {
		if err := s.h.settle(r.Context(), &info); err != nil {
			s.h.opts.Logger.Warn("an MCP call of a dead process has no end yet", "stream", info.Key, "error", err)
		}
	}
	return reader, nil
}

// patience is how long a request waits for a store that fails temporarily. For some clients, a refusal ends the
// session.
const patience = 3 * time.Second

// storePause and storePauseMax are the spans of the first and of the longest pause between two tries.
const storePause, storePauseMax = 20 * time.Millisecond, 200 * time.Millisecond

// errPatience is the error for a store that does not answer while there is patience.
var errPatience = fmt.Errorf("%w: it has not answered for %v", reprise.ErrUnavailable, patience)

// patiently retries do while the store fails, until patience is over. The context of an attempt ends then as well.
func patiently(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	pause := backoff.Backoff{First: storePause, Most: storePauseMax}
	for {
		err := do(bounded)
		switch {
		case err != nil && bounded.Err() != nil:
			return context.Cause(bounded)
		case !errors.Is(err, reprise.ErrUnavailable) || pause.Wait(bounded) != nil:
			return err
		}
	}
}

func (s *Session) resumed(result Resumption, events uint64) {
	if hook := s.h.opts.Hooks.Resumed; hook != nil && result != "" {
		hook(s.Tenant, result, events)
	}
}
