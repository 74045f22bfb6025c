package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// Options are the settings of a Stream.
type Options struct {
	// Type is the type of the events that hold the records.
	Type string
	// Lazy makes the stream with the first record; otherwise Follow makes it.
	Lazy bool
	// LookEvery is how often a shared store is asked whether a Lazy stream exists yet. Default: 1 s.
	LookEvery time.Duration
	// Logger is told that the records are read again. Default: silent.
	Logger *slog.Logger
}

// unbounded keeps all records: to lose the oldest is to lose what they say.
var unbounded = reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}}

// takeTimeout limits how long a kept record takes to arrive at the follower.
const takeTimeout = 10 * time.Second

// Stream is the Journal that the replicas of a store share, in a stream of a Log.
type Stream struct {
	log  *reprise.Log
	key  reprise.StreamKey
	opts Options

	made     chan struct{} // closed when this process has made the stream
	makeOnce sync.Once

	mu    sync.Mutex
	taken reprise.Cursor // of the last record that was taken
	moved chan struct{}  // closed when taken changes
}

// In returns the Journal in a stream of log.
func In(log *reprise.Log, key reprise.StreamKey, opts Options) *Stream {
	if opts.LookEvery == 0 {
		opts.LookEvery = time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Stream{log: log, key: key, opts: opts, made: make(chan struct{}), moved: make(chan struct{})}
}

// Append implements Journal.
func (s *Stream) Append(ctx context.Context, record []byte) error {
	_, err := s.Keep(ctx, record)
	return err
}

// Keep is Append, and returns where the record is.
func (s *Stream) Keep(ctx context.Context, record []byte) (reprise.Appended, error) {
	st, err := s.Make(ctx)
	if err != nil {
		return reprise.Appended{}, err
	}
	kept, err := st.Append(ctx, reprise.Event{Type: s.opts.Type, Data: record, Format: reprise.FormatJSON})
	if err != nil {
		return kept, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, takeTimeout,
		fmt.Errorf("%w: the record was kept and has not come back", reprise.ErrUnavailable))
	defer cancel()
	for {
		s.mu.Lock()
		taken, moved := s.taken, s.moved
		s.mu.Unlock()
		if taken.Epoch == kept.Epoch && taken.Seq >= kept.Last {
			return kept, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return kept, context.Cause(ctx)
		}
	}
}

// Make makes the stream if there is none.
func (s *Stream) Make(ctx context.Context) (*reprise.Stream, error) {
	st, _, err := s.log.Create(ctx, s.key, unbounded)
	if err == nil {
		s.makeOnce.Do(func() { close(s.made) })
	}
	return st, err
}

// Follow implements Journal. A store that does not answer is asked again, unless no record was read yet.
func (s *Stream) Follow(ctx context.Context, sink Sink) error {
	wait := backoff.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	begun := false
	ready := sink.Ready
	sink.Ready = func() { ready(); begun = true; wait.Reset() }
	for {
		err := s.follow(ctx, &sink, &begun)
		if !begun || ctx.Err() != nil {
			return err
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
		s.opts.Logger.Debug("the records are read again", "stream", s.key.Name, "error", err)
	}
}

// follow reads the stream from its first event until something fails, such as a store that has lost events.
func (s *Stream) follow(ctx context.Context, sink *Sink, begun *bool) error {
	st, err := s.find(ctx, sink, begun)
	if err != nil {
		return err
	}
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	sink.Begin()
	for isReady := false; ; {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if err != nil {
			return err
		}
		for e := range events.All() {
			sink.Take(e.Data)
		}
		switch {
		case events.Len() > 0 && !isReady:
			continue
		case !isReady:
			isReady = true
			sink.Ready()
		}
		s.note(reader.Cursor())
		if events.Len() > 0 {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// find makes the stream, or waits until a Lazy one exists. Until then there are no records, which sink is told once:
// a stream that a store has lost may come back.
func (s *Stream) find(ctx context.Context, sink *Sink, begun *bool) (*reprise.Stream, error) {
	if !s.opts.Lazy {
		return s.Make(ctx)
	}
	for {
		st, err := s.log.Stream(ctx, s.key)
		if !errors.Is(err, reprise.ErrNotFound) {
			return st, err
		}
		if !*begun {
			sink.Begin()
			sink.Ready()
		}
		var look <-chan time.Time
		if s.log.Shared() {
			look = time.After(s.opts.LookEvery)
		}
		select {
		case <-look:
		case <-s.made:
			if err := backoff.Sleep(ctx, 10*time.Millisecond); err != nil { // it may have been removed
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Read calls each for the records that are kept, with their seqs, until it returns false.
func (s *Stream) Read(ctx context.Context, each func(record []byte, at uint64) bool) error {
	st, err := s.log.Stream(ctx, s.key)
	if err != nil {
		return err
	}
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		events, err := reader.Poll(ctx)
		if err != nil || events.Len() == 0 {
			return err
		}
		for e := range events.All() {
			if !each(e.Data, e.Seq) {
				return nil
			}
		}
	}
}

func (s *Stream) note(taken reprise.Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken != taken {
		s.taken = taken
		close(s.moved)
		s.moved = make(chan struct{})
	}
}
