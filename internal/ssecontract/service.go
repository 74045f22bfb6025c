package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"reprise/sse/sseclient"
)

// capabilities are the optional parts of the suite that sseclient has. "event-type-listeners" is for clients that must
// be told the types to come.
var capabilities = []string{
	"bom", "comments", "headers", "last-event-id", "post", "read-timeout", "report", "restart",
	"server-directed-shutdown-request",
}

// service runs the clients that the suite asks for.
type service struct {
	*http.ServeMux
	quit func()

	mu      sync.Mutex
	streams map[string]*stream
	made    int
	loops   sync.WaitGroup
}

func newService() *service {
	s := &service{ServeMux: http.NewServeMux(), quit: func() {}, streams: map[string]*stream{}}
	s.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "reprise/sse/sseclient", "capabilities": capabilities})
	})
	s.HandleFunc("DELETE /{$}", func(http.ResponseWriter, *http.Request) { s.quit() })
	s.HandleFunc("POST /{$}", s.start)
	s.HandleFunc("POST /streams/{id}", s.command)
	s.HandleFunc("DELETE /streams/{id}", s.end)
	return s
}

// params are what a client is started with.
type params struct {
	StreamURL      string            `json:"streamUrl"`
	CallbackURL    string            `json:"callbackUrl"`
	InitialDelayMS *int              `json:"initialDelayMs"`
	ReadTimeoutMS  *int              `json:"readTimeoutMs"`
	LastEventID    string            `json:"lastEventId"`
	Headers        map[string]string `json:"headers"`
	Method         string            `json:"method"`
	Body           string            `json:"body"`
}

// options are the options of the client that p asks for.
func (p *params) options() *sseclient.Options {
	// The contract is EventSource's, which repeats every request.
	opts := &sseclient.Options{LastEventID: p.LastEventID, Method: p.Method, Repeat: true, Header: http.Header{}}
	for name, value := range p.Headers {
		opts.Header.Set(name, value)
	}
	if p.Body != "" {
		opts.Body = []byte(p.Body)
	}
	if p.InitialDelayMS != nil {
		opts.MinWait = max(time.Duration(*p.InitialDelayMS)*time.Millisecond, 1) // 0 is the default of ours
	}
	if p.ReadTimeoutMS != nil {
		opts.IdleTimeout = time.Duration(*p.ReadTimeoutMS) * time.Millisecond
	}
	return opts
}

func (s *service) start(w http.ResponseWriter, r *http.Request) {
	var p params
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	st := &stream{callback: strings.TrimSuffix(p.CallbackURL, "/"), cancel: cancel}
	opts := p.options()
	opts.OnComment = func(text []byte) { st.tell(ctx, message{Kind: "comment", Comment: string(text)}) }
	opts.OnDrop = func(d sseclient.Drop) { st.tell(ctx, message{Kind: "error", Error: d.Err.Error()}) }
	client, err := sseclient.New(p.StreamURL, opts)
	if err != nil {
		cancel()
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	st.client = client
	s.mu.Lock()
	s.made++
	id := strconv.Itoa(s.made)
	s.streams[id] = st
	s.mu.Unlock()
	s.loops.Go(func() { st.run(ctx) })
	w.Header().Set("Location", "/streams/"+id)
	w.WriteHeader(http.StatusCreated)
}

func (s *service) command(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	st := s.streams[r.PathValue("id")]
	s.mu.Unlock()
	var c struct{ Command string }
	switch err := json.NewDecoder(r.Body).Decode(&c); {
	case st == nil:
		http.NotFound(w, r)
	case err != nil || c.Command != "restart":
		http.Error(w, "the command is restart", http.StatusBadRequest)
	default:
		st.client.Restart()
	}
}

func (s *service) end(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.mu.Lock()
	st := s.streams[id]
	delete(s.streams, id)
	s.mu.Unlock()
	if st == nil {
		http.NotFound(w, r)
		return
	}
	st.cancel()
}

// stream is one client.
type stream struct {
	client   *sseclient.Client
	callback string
	cancel   context.CancelFunc
	told     int
}

// message is what a callback is told.
type message struct {
	Kind    string `json:"kind"`
	Event   *event `json:"event,omitempty"`
	Comment string `json:"comment,omitempty"`
	Error   string `json:"error,omitempty"`
}

type event struct {
	Type string `json:"type"`
	Data string `json:"data"`
	ID   string `json:"id,omitempty"`
}

func (st *stream) run(ctx context.Context) {
	for e, err := range st.client.Events(ctx) {
		if err != nil {
			st.tell(ctx, message{Kind: "error", Error: err.Error()})
			return
		}
		st.tell(ctx, message{Kind: "event", Event: &event{e.Type, string(e.Data), e.LastEventID}})
	}
}

// tell sends a message. Whoever does not take it has ended the stream.
func (st *stream) tell(ctx context.Context, m message) {
	st.told++
	body, err := json.Marshal(m)
	if err != nil {
		return
	}
	url := fmt.Sprintf("%s/%d", st.callback, st.told)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
}
