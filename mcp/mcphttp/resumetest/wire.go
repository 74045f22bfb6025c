package resumetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"
)

// session is one of the target's.
type session struct {
	run *run
	url string
	id  string
	// header is the principal's.
	header http.Header
	calls  int
}

// at is the same session at another replica.
func (s *session) at(url string) *session {
	other := *s
	other.url = url
	return &other
}

// open initializes a session.
func (r *run) open() (*session, error) { return r.openAs(r.target.Header) }

func (r *run) openAs(header http.Header) (*session, error) {
	s := &session{run: r, url: r.target.URL, header: header}
	st, err := s.post(r.initialize())
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	defer st.drop()
	s.id = st.header.Get("Mcp-Session-Id")
	if st.status != http.StatusOK || s.id == "" {
		return nil, fmt.Errorf("initialize: status %d, session %q", st.status, s.id)
	}
	var answer struct {
		Result struct{ ProtocolVersion string }
	}
	for answer.Result.ProtocolVersion == "" {
		e, err := st.next(r.target.Patience)
		if err != nil {
			return nil, fmt.Errorf("initialize: %w", err)
		}
		_ = json.Unmarshal(e.data, &answer)
	}
	if answer.Result.ProtocolVersion != r.version {
		return nil, notApplicable("the server does not speak this version")
	}
	st, err = s.post(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	if err != nil {
		return nil, fmt.Errorf("initialized: %w", err)
	}
	st.drop()
	if st.status >= 300 {
		return nil, fmt.Errorf("initialized: status %d", st.status)
	}
	return s, nil
}

func (r *run) initialize() map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": map[string]any{
		"protocolVersion": r.version,
		"capabilities":    map[string]any{},
		"clientInfo":      map[string]any{"name": "resumetest", "version": "1"},
	}}
}

func (s *session) post(body any) (*stream, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return s.send(http.MethodPost, "", text)
}

// get opens a stream by GET, after the event lastID where that is not "".
func (s *session) get(lastID string) (*stream, error) { return s.send(http.MethodGet, lastID, nil) }

// send sends a request and returns when the header of the response has arrived.
func (s *session) send(method, lastID string, body []byte) (*stream, error) {
	ctx, cancel := context.WithCancel(s.run.ctx)
	req, err := http.NewRequestWithContext(ctx, method, s.url, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	maps.Copy(req.Header, s.header)
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
	}
	if s.id != "" {
		req.Header.Set("Mcp-Session-Id", s.id)
		if s.run.version >= "2025-06-18" {
			req.Header.Set("Mcp-Protocol-Version", s.run.version)
		}
	}
	if lastID != "" {
		req.Header.Set("Last-Event-Id", lastID)
	}
	timeout := time.AfterFunc(s.run.target.Patience, cancel)
	resp, err := s.run.target.Client.Do(req)
	if !timeout.Stop() || err != nil {
		cancel()
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, fmt.Errorf("%s: no answer: %w", method, err)
	}
	st := &stream{status: resp.StatusCode, header: resp.Header, body: resp.Body, cancel: cancel, ctx: ctx}
	st.isSSE = mediaType(resp) == "text/event-stream"
	s.run.streams = append(s.run.streams, st)
	return st, nil
}

func mediaType(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// stream is a response that is read event by event.
type stream struct {
	status int
	header http.Header
	isSSE  bool
	body   io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
	events chan event // made with the first event that is asked for
	err    error      // once events is closed
}

// event is a block of an event stream, with or without data, or the complete body of another response.
type event struct {
	id   string // "" if it has none
	data []byte
}

var errNothing = errors.New("nothing came in time")

// next is the next event. The error is io.EOF when the response has ended and errNothing when nothing has come for so
// long.
func (st *stream) next(patience time.Duration) (event, error) {
	if st.events == nil {
		st.events = make(chan event)
		go st.read(st.events)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case e, ok := <-st.events:
		if !ok {
			return event{}, st.err
		}
		return e, nil
	case <-timer.C:
		return event{}, fmt.Errorf("%w (%v)", errNothing, patience)
	}
}

// drop breaks the connection.
func (st *stream) drop() {
	st.cancel()
	_ = st.body.Close()
}

func (st *stream) read(events chan<- event) {
	defer close(events)
	give := func(e event) bool {
		select {
		case events <- e:
			return true
		case <-st.ctx.Done():
			return false
		}
	}
	if !st.isSSE {
		data, err := io.ReadAll(st.body)
		if st.err = err; err == nil {
			give(event{data: data})
			st.err = io.EOF
		}
		return
	}
	lines := bufio.NewReaderSize(st.body, 64<<10)
	var e event
	fields := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			st.err = err
			return
		}
		line = strings.TrimRight(line, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && fields:
			if !give(e) {
				st.err = context.Canceled
				return
			}
			e, fields = event{}, false
		case name == "id":
			e.id, fields = value, true
		case name == "data":
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data, fields = append(e.data, value...), true
		}
	}
}
