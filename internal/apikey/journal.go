package apikey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// Journal keeps records in an order that is the same for all followers. Implementations are safe for concurrent use.
type Journal interface {
	// Append keeps a record, and returns once the Sink of Follow has taken it.
	Append(ctx context.Context, record []byte) error
	// Follow hands the records to sink until ctx is done: those that are kept, and then those that come. It calls the
	// functions of sink from one goroutine at a time. It is called once.
	Follow(ctx context.Context, sink Sink) error
}

// Sink receives the records of a Journal.
type Sink struct {
	// Begin is called before the first record. It is called again where a store has lost records: then all follow anew.
	Begin func()
	// Take is given a record, which it must not change.
	Take func(record []byte)
	// Ready is called after Begin when all records that were kept by then were taken.
	Ready func()
}

// maxFileBytes limits how much of a file is read: some 500,000 changes.
const maxFileBytes = 256 << 20

// File is a Journal of one process in the file at path: a line a record, for its owner alone. There may be no such file
// yet.
func File(path string) Journal { return &file{path: path} }

type file struct {
	path string

	mu   sync.Mutex
	take func([]byte) // nil unless it is followed
}

// Follow implements Journal.
func (f *file) Follow(ctx context.Context, sink Sink) error {
	if err := f.load(sink); err != nil {
		return err
	}
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.take = nil
	return context.Cause(ctx)
}

func (f *file) load(sink Sink) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines, err := readPrivate(f.path)
	if err != nil {
		return err
	}
	sink.Begin()
	for line := range bytes.Lines(lines) {
		sink.Take(bytes.TrimSuffix(line, []byte("\n")))
	}
	sink.Ready()
	f.take = sink.Take
	return nil
}

// Append implements Journal.
func (f *file) Append(_ context.Context, record []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.take == nil {
		return errClosed
	}
	if err := appendLine(f.path, record); err != nil {
		return err
	}
	f.take(record)
	return nil
}

// readPrivate reads the complete lines of a file that only its owner may access, or returns nil if the file does not
// exist. It removes an incomplete line after a crash, which was never acknowledged.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s may be used by others (%v): chmod 600 it, and review what it grants",
			path, info.Mode())
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("%w: %s has %d bytes", reprise.ErrInvalid, path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole < len(text) {
		if err := os.Truncate(path, int64(whole)); err != nil {
			return nil, err
		}
	}
	return text[:whole], nil
}

// appendLine appends a line to a file, which it makes if need be, and returns when it is on the disk. Where that fails
// the file is as before.
func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, 2)
	if err == nil {
		if _, err = f.Write(append(bytes.Clone(line), '\n')); err == nil {
			err = f.Sync()
		}
		if err != nil {
			err = errors.Join(err, f.Truncate(size))
		}
	}
	err = errors.Join(err, f.Close())
	if err == nil && size == 0 {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// journalKey is the stream of the API keys of all replicas.
var journalKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "identity:keys"}

// unbounded keeps all records: to lose the oldest is to lose keys.
var unbounded = reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1 << 40, MaxBytes: 1 << 40}}

// Stream is the Journal that the replicas of a store share, in a stream of log.
func Stream(log *reprise.Log) Journal { return newStream(log, journalKey) }

// loginsKey is the stream of the logins that have ended on all replicas.
var loginsKey = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "identity:logins"}

// LoginStream is Stream for logins that have ended.
func LoginStream(log *reprise.Log) Journal { return newStream(log, loginsKey) }

func newStream(log *reprise.Log, key reprise.StreamKey) *stream {
	return &stream{log: log, key: key, moved: make(chan struct{})}
}

// takeTimeout limits how long a kept record takes to arrive at the follower.
const takeTimeout = 10 * time.Second

type stream struct {
	log *reprise.Log
	key reprise.StreamKey

	mu    sync.Mutex
	taken reprise.Cursor // of the last record that was taken
	moved chan struct{}  // closed when taken changes
}

// Append implements Journal.
func (s *stream) Append(ctx context.Context, record []byte) error {
	st, _, err := s.log.Create(ctx, s.key, unbounded)
	if err != nil {
		return err
	}
	kept, err := st.Append(ctx, reprise.Event{Type: "key", Data: record, Format: reprise.FormatJSON})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, takeTimeout,
		fmt.Errorf("%w: the record was kept and has not come back", reprise.ErrUnavailable))
	defer cancel()
	for {
		s.mu.Lock()
		taken, moved := s.taken, s.moved
		s.mu.Unlock()
		if taken.Epoch == kept.Epoch && taken.Seq >= kept.Last {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Follow implements Journal. A store that does not answer is asked again.
func (s *stream) Follow(ctx context.Context, sink Sink) error {
	wait := backoff.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	first := true
	for {
		err := s.follow(ctx, sink, func() { first = false; wait.Reset() })
		if first || ctx.Err() != nil {
			return err
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// follow reads the stream from its first event until something fails, such as a store that has lost events.
func (s *stream) follow(ctx context.Context, sink Sink, ready func()) error {
	st, _, err := s.log.Create(ctx, s.key, unbounded)
	if err != nil {
		return err
	}
	reader, err := st.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	sink.Begin()
	isReady := false
	for {
		changed := reader.Changed()
		events, err := reader.Poll(ctx)
		if err != nil {
			return err
		}
		for e := range events.All() {
			sink.Take(e.Data)
		}
		s.note(reader.Cursor())
		switch {
		case events.Len() > 0:
			continue
		case !isReady:
			isReady = true
			sink.Ready()
			ready()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *stream) note(taken reprise.Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken != taken {
		s.taken = taken
		close(s.moved)
		s.moved = make(chan struct{})
	}
}
