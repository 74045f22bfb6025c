package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
)

// Session is this process's view of a client's session. Its fields must not be changed. Its methods are
// safe for concurrent use; their arguments and results are as with Exchange.
type Session struct {
	// ID is unguessable, for example "4E7XKQ2M...".
	ID        string
	Tenant    reprise.Tenant
	Principal string
	Created   time.Time

	h      *Handler
	stream *reprise.Stream // of the state
	life   context.Context
	end    context.CancelCauseFunc
	// serving counts the calls of Backend.Serve and Attach.
	serving sync.WaitGroup
	// release undoes Options.Admit, and unwatch watch.
	release func()
	unwatch func() bool

	resumes atomic.Bool // the client has come back to a call

	changing sync.Mutex // held while the state is changed or read anew

	mu     sync.Mutex
	state  sessionState
	seen   uint64 // seq of the event that state was read from
	used   time.Time
	ended  bool
	calls  map[ID]*Exchange     // requests without an answer yet
	asks   map[ID]*ask          // requests to the client without an answer yet, by the id that it sees
	conns  map[string]*response // the newest connection of each stream
	whole  *outlet              // of the stream of the session as a whole; nil until it is used
	names  []string             // of the streams of its calls, the newest last
	opened sync.Mutex           // held while whole is made
}

// sessionState is the negotiated state of a session. Each event of its stream holds the complete state; the newest is
// valid.
type sessionState struct {
	Principal  string          `json:"principal,omitempty"`
	Initialize json.RawMessage `json:"initialize"`
	Version    string          `json:"version"`
	// Instance is the header Mcp-Client-Instance-Id with which the session began.
	Instance string `json:"instance,omitempty"`
	// Initialized is true once the client has sent notifications/initialized.
	Initialized bool `json:"initialized,omitempty"`
	// Listened is true once the client has opened the stream of the session as a whole.
	Listened      bool     `json:"listened,omitempty"`
	LogLevel      string   `json:"log_level,omitempty"`
	Subscriptions []string `json:"subscriptions,omitempty"`
	// Used is the time of the last use, to within a part of Options.SessionIdle.
	Used time.Time `json:"used"`
}

// ask is a request to the client.
type ask struct {
	id     ID // as it was asked
	answer func([]byte)
}

func (s *Session) now() sessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Initialize returns the params of the client's initialize request, unchanged.
func (s *Session) Initialize() json.RawMessage { return s.now().Initialize }

// Version returns the negotiated protocol version.
func (s *Session) Version() string { return s.now().Version }

// Initialized reports whether the client has sent notifications/initialized.
func (s *Session) Initialized() bool { return s.now().Initialized }

// LogLevel returns the level that the client has set last, on any replica, or "" if it has set none.
func (s *Session) LogLevel() string { return s.now().LogLevel }

// Subscriptions returns the URIs of the resources that the client has subscribed to, on any replica.
func (s *Session) Subscriptions() []string { return slices.Clone(s.now().Subscriptions) }

// Notify sends a notification on the stream of the session as a whole, for clients that listen to
// it or resume it.
func (s *Session) Notify(message []byte) error {
	message, err := checked(message)
	if err != nil {
		return err
	}
	return s.notify(message)
}

func (s *Session) notify(message []byte) error {
	o, err := s.wholeOutlet()
	if err != nil {
		return err
	}
	return o.send(message, false)
}

// Ask is like Exchange.Ask, on the stream of the session as a whole.
func (s *Session) Ask(id ID, message []byte, answer func(response []byte)) error {
	message, err := checked(message)
	if err != nil {
		return err
	}
	o, err := s.wholeOutlet()
	if err != nil {
		return err
	}
	_, err = s.ask(standalone, o, id, message, answer)
	return err
}

// wholeOutlet is the outlet to the stream of the session as a whole.
func (s *Session) wholeOutlet() (*outlet, error) {
	s.opened.Lock()
	defer s.opened.Unlock()
	s.mu.Lock()
	o, ended := s.whole, s.ended
	s.mu.Unlock()
	if ended {
		return nil, reprise.ErrEnded
	}
	if o != nil {
		return o, nil
	}
	stream, err := s.wholeStream(s.life)
	if err != nil {
		return nil, err
	}
	o = newOutlet(s.h.storing, stream, reprise.Owner{}, func(err error) {
		s.mu.Lock()
		s.whole = nil // the next message tries anew
		s.mu.Unlock()
		s.h.opts.Logger.Warn("messages of an MCP session are lost", "session", s.ID, "tenant", s.Tenant, "error", err)
	})
	s.mu.Lock()
	s.whole = o
	s.mu.Unlock()
	return o, nil
}

// wholeStream finds or makes the stream of the session as a whole.
func (s *Session) wholeStream(ctx context.Context) (*reprise.Stream, error) {
	stream, _, err := s.h.log.Create(ctx, s.h.streamKey(s.Tenant, s.ID, standalone),
		reprise.StreamConfig{Retention: s.h.opts.Retention})
	return stream, err
}

// update changes the state of the session in the store.
func (s *Session) update(ctx context.Context, change func(*sessionState)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.read(ctx); err != nil {
		return err
	}
	state := s.now()
	change(&state)
	state.Used = time.Now().UTC()
	appended, err := s.stream.Append(ctx,
		reprise.Event{Type: "state", Data: compact(state), Format: reprise.FormatJSON})
	if errors.Is(err, reprise.ErrEnded) {
		return errNoSession
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.state, s.seen = state, appended.Last
	s.mu.Unlock()
	return nil
}

// refresh learns what other replicas have changed. The error is errNoSession if the session has ended.
func (s *Session) refresh(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.read(ctx)
}

// read updates the state from the store. The caller holds changing.
func (s *Session) read(ctx context.Context) error {
	s.mu.Lock()
	seen, ended := s.seen, s.ended
	s.mu.Unlock()
	if ended {
		return errNoSession
	}
	if seen > 0 && !s.h.log.Shared() {
		return nil
	}
	info, err := s.stream.Info(ctx)
	switch {
	case errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) || err == nil && info.End != nil:
		return errNoSession
	case err != nil || info.Tail == seen:
		return err
	}
	state, last, err := readState(ctx, s.stream)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.state, s.seen = state, last
	s.mu.Unlock()
	return nil
}

// readState reads the newest state of a session.
func readState(ctx context.Context, stream *reprise.Stream) (state sessionState, seq uint64, err error) {
	reader, err := stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return sessionState{}, 0, err
	}
	defer reader.Close()
	var newest []byte
	for {
		events, err := reader.Poll(ctx)
		switch {
		case err != nil && !errors.Is(err, reprise.ErrEnded):
			return sessionState{}, 0, err
		case events.Len() == 0 && newest == nil:
			return sessionState{}, 0, errNoSession // its maker died before it said more
		case events.Len() == 0:
			return state, seq, json.Unmarshal(newest, &state)
		}
		for e := range events.All() {
			if e.Type == "state" {
				newest, seq = e.Data, e.Seq
			}
		}
	}
}
