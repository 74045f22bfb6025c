// Package enginetest tests the engine through its public API, over memory, SQLite and the embedded log. Begin with
// guarantees_test.go, which has one test or more for each of G1 to G9. The other files are named after what they test:
// appends (appender, producers, commits, load), streams, readers, cursors, epochs, replicas, and what ends
// (retention, expiry, usage). model_test.go compares a Log with a slice at random, faults_test.go has stores that
// fail, and fixture_test.go is what all of them use.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/store/logstore"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backends are the stores that what holds for all of them is tested over.
var backends = []struct {
	name string
	open func(testing.TB) reprise.Store
}{
	{"memory", memory},
	{"sqlite", sqlite},
	{"log", embeddedLog},
}

// eachStore runs f over an empty Store of each backend.
func eachStore(t *testing.T, f func(*testing.T, reprise.Store)) {
	t.Helper()
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) { f(t, backend.open(t)) })
	}
}

func memory(tb testing.TB) reprise.Store {
	store := memstore.New(nil)
	tb.Cleanup(func() { _ = store.Close() })
	return store
}

func sqlite(tb testing.TB) reprise.Store {
	tb.Helper()
	store, err := sqlitestore.Open(tb.Context(), filepath.Join(tb.TempDir(), "events.db"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

func embeddedLog(tb testing.TB) reprise.Store {
	tb.Helper()
	store, err := logstore.Open(tb.Context(), filepath.Join(tb.TempDir(), "log"), &logstore.Options{SegmentBytes: 1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

// openLog opens a Log that is closed before its Store.
func openLog(tb testing.TB, store reprise.Store, opts *reprise.Options) *reprise.Log {
	tb.Helper()
	log, err := reprise.Open(tb.Context(), store, opts)
	check(tb, err)
	tb.Cleanup(func() { check(tb, log.Close()) })
	return log
}

func named(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

// create makes a stream of the default tenant that keeps what r says.
func create(tb testing.TB, log *reprise.Log, name string, r reprise.Retention) *reprise.Stream {
	tb.Helper()
	s, created, err := log.Create(tb.Context(), named(name), reprise.StreamConfig{Retention: r})
	check(tb, err)
	if !created {
		tb.Fatalf("stream %s is there already", name)
	}
	return s
}

func text(s string) reprise.Event { return reprise.Event{Type: "note", Data: []byte(s)} }

// numbered are count events with the texts "<from>" and so on.
func numbered(from, count int) []reprise.Event {
	events := make([]reprise.Event, count)
	for i := range events {
		events[i] = text(fmt.Sprint(from + i))
	}
	return events
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func wantError(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("the error is %v, want %v", err, want)
	}
}

func add(tb testing.TB, s *reprise.Stream, events ...reprise.Event) reprise.Appended {
	tb.Helper()
	appended, err := s.Append(tb.Context(), events...)
	check(tb, err)
	return appended
}

func end(tb testing.TB, s *reprise.Stream) {
	tb.Helper()
	_, err := s.End(tb.Context(), "completed", reprise.Event{})
	check(tb, err)
}

func info(tb testing.TB, s *reprise.Stream) reprise.StreamInfo {
	tb.Helper()
	i, err := s.Info(tb.Context())
	check(tb, err)
	return i
}

func openReader(tb testing.TB, s *reprise.Stream, at reprise.Position) *reprise.Reader {
	tb.Helper()
	r, err := s.Reader(tb.Context(), at)
	check(tb, err)
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

// drain takes all that is there now, and reports whether the stream has ended.
func drain(tb testing.TB, r *reprise.Reader) (events []reprise.Event, ended bool) {
	tb.Helper()
	for {
		run, err := r.Poll(tb.Context())
		if errors.Is(err, reprise.ErrEnded) {
			return events, true
		}
		check(tb, err)
		if run.Len() == 0 {
			return events, false
		}
		for e := range run.All() {
			events = append(events, e)
		}
	}
}

// kept reads the whole window of s.
func kept(tb testing.TB, s *reprise.Stream) []reprise.Event {
	tb.Helper()
	r := openReader(tb, s, reprise.Earliest())
	defer r.Close()
	events, _ := drain(tb, r)
	return events
}

// wantTexts compares the seqs and the data of events with from, from+1, ... and texts.
func wantTexts(tb testing.TB, events []reprise.Event, from uint64, texts ...string) {
	tb.Helper()
	if len(events) != len(texts) {
		tb.Fatalf("got %d events, want %d", len(events), len(texts))
	}
	for i, e := range events {
		if e.Seq != from+uint64(i) || string(e.Data) != texts[i] {
			tb.Fatalf("event %d of the run is %d %q, want %d %q", i, e.Seq, e.Data, from+uint64(i), texts[i])
		}
	}
}

// wantNumbered compares events with those that numbered makes, from seq on.
func wantNumbered(tb testing.TB, events []reprise.Event, from uint64, count int) {
	tb.Helper()
	texts := make([]string, count)
	for i := range texts {
		texts[i] = fmt.Sprint(from + uint64(i))
	}
	wantTexts(tb, events, from, texts...)
}

// windowError is the *reprise.WindowError that err must be.
func windowError(tb testing.TB, err error, reason reprise.WindowReason) *reprise.WindowError {
	tb.Helper()
	refused, ok := errors.AsType[*reprise.WindowError](err)
	if !ok || refused.Reason != reason {
		tb.Fatalf("the error is %v, want %s", err, reason)
	}
	return refused
}

// until waits for a condition that is about to hold.
func until(tb testing.TB, holds func() bool) {
	tb.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(2 * time.Minute)
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			tb.Fatal("condition not met within 2 minutes")
		}
	}
}

// aborted is a context that was cancelled with a cause of its own.
func aborted(tb testing.TB) (context.Context, error) {
	cause := errors.New("the caller has had enough")
	ctx, cancel := context.WithCancelCause(tb.Context())
	cancel(cause)
	return ctx, cause
}

// gate is a Store whose appends wait, while it is shut, between having stored and saying so.
type gate struct {
	reprise.Store
	// stored receives the size of each commit when it is in the store.
	stored chan int

	mu   sync.Mutex
	pass chan struct{} // closed while it is open
}

func newGate(store reprise.Store) *gate {
	pass := make(chan struct{})
	close(pass)
	return &gate{Store: store, stored: make(chan int, 1<<20), pass: pass}
}

// behindGate returns a gate before a Store in memory, and a Log on it that has the stream "s" and does not sweep.
func behindGate(t *testing.T) (*gate, *reprise.Log, *reprise.Stream) {
	t.Helper()
	store := newGate(memory(t))
	log := openLog(t, store, &reprise.Options{SweepEvery: -1})
	return store, log, create(t, log, "s", reprise.Retention{})
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.pass)
}

// openOne lets the commits go that wait now, and shuts behind them.
func (g *gate) openOne() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.pass)
	g.pass = make(chan struct{})
}

func (g *gate) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	g.mu.Lock()
	pass := g.pass
	g.mu.Unlock()
	errs := g.Store.Append(ctx, reqs)
	g.stored <- len(reqs)
	<-pass
	return errs
}

// faulty is a Store that can be made to fail.
type faulty struct {
	reprise.Store
	// before fails appends without storing them, after when they have been stored,
	// reading and creating fail what they say.
	before, after, reading, creating atomic.Bool
}

var errFault = fmt.Errorf("%w: a fault of the test", reprise.ErrUnavailable)

func (f *faulty) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	var errs []error
	if !f.before.Load() {
		errs = f.Store.Append(ctx, reqs)
	}
	if !f.before.Load() && !f.after.Load() {
		return errs
	}
	errs = make([]error, len(reqs))
	for i := range errs {
		errs[i] = errFault
	}
	return errs
}

func (f *faulty) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if f.reading.Load() {
		return reprise.Page{}, errFault
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

func (f *faulty) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if f.creating.Load() {
		return reprise.StreamInfo{}, errFault
	}
	return f.Store.Create(ctx, info)
}
