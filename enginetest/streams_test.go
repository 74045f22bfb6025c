package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

func configure(tb testing.TB, s *reprise.Stream, edit func(*reprise.StreamConfig)) reprise.StreamInfo {
	tb.Helper()
	state, err := s.Configure(tb.Context(), edit)
	check(tb, err)
	return state
}

// retain returns the change to a retention.
func retain(r reprise.Retention) func(*reprise.StreamConfig) {
	return func(c *reprise.StreamConfig) { c.Retention = r }
}

// TestLargerRetentionHoldsFromNextAppend: what the earlier bound has removed stays gone, and the next append removes
// nothing below the new one.
func TestLargerRetentionHoldsFromNextAppend(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := create(t, openLog(t, store, nil), "s", reprise.Retention{MaxEvents: 3, MaxBytes: 1 << 20})
		add(t, s, numbered(1, 5)...)
		state := configure(t, s, retain(reprise.Retention{MaxEvents: 10, MaxBytes: 1 << 20}))
		if state.Revision != 1 || state.Config.Retention.MaxEvents != 10 {
			t.Fatalf("revision %d, %+v", state.Revision, state.Config)
		}
		wantNumbered(t, kept(t, s), 3, 3)
		add(t, s, numbered(6, 7)...)
		wantNumbered(t, kept(t, s), 3, 10)
		add(t, s, numbered(13, 1)...)
		wantNumbered(t, kept(t, s), 4, 10)
	})
}

// TestSmallerRetentionTrimsAtOnce: in memory and of a stream that was read from the store, by events and by bytes.
func TestSmallerRetentionTrimsAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		for _, again := range []bool{false, true} {
			name := fmt.Sprint("again-", again)
			log := openLog(t, store, nil)
			s := create(t, log, name, reprise.Retention{})
			for i := range 40 {
				add(t, s, numbered(1+25*i, 25)...)
			}
			if again {
				check(t, log.Close())
				log = openLog(t, store, nil)
				var err error
				s, err = log.Stream(t.Context(), named(name))
				check(t, err)
			}
			configure(t, s, retain(reprise.Retention{MaxEvents: 400}))
			wantNumbered(t, kept(t, s), 601, 400)
			const bound = 10_000
			state := configure(t, s, retain(reprise.Retention{MaxBytes: bound}))
			counted := state.Bytes + eventOverhead*int64(state.Kept())
			if counted > bound || counted < bound/2 || state.Tail != 1000 {
				t.Errorf("%s: %d bytes are kept of events %d to %d, the bound is %d", name, counted, state.Earliest,
					state.Tail, bound)
			}
			wantBytes(t, s, 0)
			state = configure(t, s, retain(reprise.Retention{MaxBytes: 1}))
			if state.Kept() == 0 || state.Kept() > 25 {
				t.Errorf("%s: %d events are kept, want the newest batch or a part of it", name, state.Kept())
			}
			add(t, s, numbered(1001, 2)...)
			wantNumbered(t, kept(t, s), 1001, 2)
		}
	})
}

// TestSmallerRetentionIsToldToReaders (G1): one that has not received the removed events gets an error that names them.
func TestSmallerRetentionIsToldToReaders(t *testing.T) {
	for i, log := range replicas(t, 2, nil) {
		s := createOn(t, log, fmt.Sprint("s/", i))
		add(t, s, numbered(1, 20)...)
		r, err := s.Reader(t.Context(), reprise.After(s.Cursor(5)))
		check(t, err)
		defer r.Close()
		configure(t, s, retain(reprise.Retention{MaxEvents: 4}))
		_, err = r.Next(t.Context())
		window, ok := errors.AsType[*reprise.WindowError](err)
		if !ok || window.Earliest.Seq != 16 {
			t.Errorf("a reader at 5 of a stream whose first event is 17 gets %v", err)
		}
	}
}

// TestOtherReplicaLearnsRetention: at its next append, although nothing was read through it meanwhile. If it went on
// with the bound that it knows, it would remove events that are to be kept.
func TestOtherReplicaLearnsRetention(t *testing.T) {
	logs := replicas(t, 2, nil)
	small := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 3}}
	first, _, err := logs[0].Create(t.Context(), named("s"), small)
	check(t, err)
	other, _, err := logs[1].Create(t.Context(), named("s"), small)
	check(t, err)
	add(t, other, numbered(1, 5)...)
	configure(t, first, retain(reprise.Retention{MaxEvents: 8}))
	add(t, other, numbered(6, 4)...)
	wantNumbered(t, kept(t, other), 3, 7)
	configure(t, other, retain(reprise.Retention{MaxEvents: 2}))
	add(t, first, numbered(10, 1)...)
	for _, s := range []*reprise.Stream{first, other} {
		wantNumbered(t, kept(t, s), 9, 2)
		if state := info(t, s); state.Revision != 2 {
			t.Errorf("revision %d, want 2", state.Revision)
		}
	}
}

// TestReplicasConfigureTogether: each change is made once, on top of the others.
func TestReplicasConfigureTogether(t *testing.T) {
	const changes = 20
	logs := replicas(t, 2, nil)
	var wg sync.WaitGroup
	for i, log := range logs {
		s := createOn(t, log, "s")
		wg.Go(func() {
			for n := range changes {
				_, err := s.Configure(t.Context(), func(c *reprise.StreamConfig) {
					if c.Labels == nil {
						c.Labels = map[string]string{}
					}
					c.Labels[fmt.Sprint(i, ".", n)] = ""
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := s.Append(t.Context(), text("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	state := info(t, createOnAgain(t, logs[0], "s"))
	if state.Revision != 2*changes || len(state.Config.Labels) != 2*changes || state.Tail != 2*changes {
		t.Errorf("revision %d with %d labels and %d events, want %d of each", state.Revision, len(state.Config.Labels),
			state.Tail, 2*changes)
	}
}

func createOnAgain(t *testing.T, log *reprise.Log, name string) *reprise.Stream {
	t.Helper()
	s, err := log.Stream(t.Context(), named(name))
	check(t, err)
	return s
}

// TestMaxAgeOfEndedStreamMovesItsExpiry: in both directions, and sweeps go by it.
func TestMaxAgeOfEndedStreamMovesItsExpiry(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		later := create(t, log, "later", reprise.Retention{MaxAge: time.Nanosecond})
		sooner := create(t, log, "sooner", reprise.Retention{MaxAge: time.Hour})
		for _, s := range []*reprise.Stream{later, sooner} {
			add(t, s, numbered(1, 3)...)
			_, err := s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Minute)})
			check(t, err)
		}
		state := configure(t, later, retain(reprise.Retention{MaxAge: 2 * time.Hour}))
		if got := state.End.Expires.Sub(state.End.Time); got != 2*time.Hour {
			t.Errorf("it expires %v after its end", got)
		}
		configure(t, sooner, retain(reprise.Retention{MaxAge: time.Nanosecond}))
		_, err := log.Sweep(t.Context())
		check(t, err)
		if got := info(t, later); got.Tail != 4 {
			t.Errorf("the tail is %d", got.Tail)
		}
		_, err = log.Stream(t.Context(), sooner.Key())
		wantError(t, err, reprise.ErrExpired)
		_, err = sooner.Configure(t.Context(), retain(reprise.Retention{}))
		wantError(t, err, reprise.ErrExpired)
	})
}

// TestConfigureRefuses: what Create refuses, and what belongs to the creator.
func TestConfigureRefuses(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{
		MaxTenantBytes: 8 << 10,
		Quota:          func(reprise.Tenant, string) reprise.Quota { return reprise.Quota{} },
	})
	s := create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	for name, edit := range map[string]func(*reprise.StreamConfig){
		"a negative bound": retain(reprise.Retention{MaxBytes: -1}),
		"Meta":             func(c *reprise.StreamConfig) { c.Meta = []byte("mine") },
		"the account": func(c *reprise.StreamConfig) {
			c.Labels = map[string]string{reprise.AccountLabel: "other"}
		},
		"a label without a name": func(c *reprise.StreamConfig) { c.Labels = map[string]string{"": "v"} },
	} {
		if _, err := s.Configure(t.Context(), edit); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	_, err := s.Configure(t.Context(), func(c *reprise.StreamConfig) {
		c.Labels = map[string]string{}
		for i := range 64 {
			c.Labels[fmt.Sprint("label", i)] = strings.Repeat("v", 256)
		}
	})
	wantError(t, err, reprise.ErrQuota)
	if state := info(t, s); state.Revision != 0 || state.Kept() != 3 {
		t.Errorf("revision %d with %d events after changes that were refused", state.Revision, state.Kept())
	}
	check(t, log.Remove(t.Context(), s.Key()))
	_, err = s.Configure(t.Context(), retain(reprise.Retention{}))
	wantError(t, err, reprise.ErrNotFound)
}

// TestConfigureCountsOverhead: labels that are added and removed are counted as those of a new stream are.
func TestConfigureCountsOverhead(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		usage := func() reprise.Size { return log.UsageOf(reprise.DefaultTenant, "") }
		before := usage()
		labels := map[string]string{"name": strings.Repeat("v", 200)}
		configure(t, s, func(c *reprise.StreamConfig) { c.Labels = maps.Clone(labels) })
		with := usage()
		if more := with.Overhead + with.Bytes - before.Overhead - before.Bytes; more != 204 {
			t.Errorf("a label of 204 bytes counts %d", more)
		}
		configure(t, s, func(c *reprise.StreamConfig) { c.Labels = nil })
		if after := usage(); after != before {
			t.Errorf("%+v after the label is gone, want %+v", after, before)
		}
	})
}

// untrimmed is a Store whose trims fail while failing is set.
type untrimmed struct {
	reprise.Store
	failing atomic.Bool
}

func (u *untrimmed) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if u.failing.Load() {
		return fmt.Errorf("%w: no trims now", reprise.ErrUnavailable)
	}
	return u.Store.Remove(ctx, key, spec)
}

// TestConfigureThatCouldNotTrim: the configuration is changed. The next append trims, and so does the same change
// again, also of a stream that has ended. A crash between the two steps leaves the same.
func TestConfigureThatCouldNotTrim(t *testing.T) {
	store := &untrimmed{Store: memstore.New(nil)}
	t.Cleanup(func() { check(t, store.Close()) })
	log := openLog(t, store, nil)
	for _, ended := range []bool{false, true} {
		s := create(t, log, fmt.Sprint("ended-", ended), reprise.Retention{})
		add(t, s, numbered(1, 20)...)
		if ended {
			end(t, s)
		}
		store.failing.Store(true)
		smaller := retain(reprise.Retention{MaxEvents: 3})
		_, err := s.Configure(t.Context(), smaller)
		wantError(t, err, reprise.ErrUnavailable)
		store.failing.Store(false)
		if !ended {
			add(t, s, numbered(21, 1)...)
			wantNumbered(t, kept(t, s), 19, 3)
			continue
		}
		if state := configure(t, s, smaller); state.Kept() != 3 || state.Revision != 1 {
			t.Errorf("%d events are kept in revision %d, want 3 in revision 1", state.Kept(), state.Revision)
		}
	}
}

// TestAppendsGoOnWhileConfigured: no append fails or is lost, and the last bounds hold.
func TestAppendsGoOnWhileConfigured(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := create(t, openLog(t, store, nil), "s", reprise.Retention{MaxEvents: 50})
		const writers, each = 4, 60
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if _, err := s.Append(t.Context(), text("x")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for n := range 30 {
			configure(t, s, retain(reprise.Retention{MaxEvents: int64(10 + n%7*10)}))
		}
		wg.Wait()
		state := configure(t, s, retain(reprise.Retention{MaxEvents: 7}))
		if state.Tail != writers*each || state.Kept() != 7 {
			t.Errorf("%d events to %d are kept, want 7 to %d", state.Kept(), state.Tail, writers*each)
		}
	})
}

// TestCreateFindsConfiguredStream: by the configuration that the stream has now.
func TestCreateFindsConfiguredStream(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxEvents: 5})
		configure(t, s, retain(reprise.Retention{MaxEvents: 6}))
		for range 2 {
			_, created, err := log.Create(t.Context(), s.Key(),
				reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 6}})
			check(t, err)
			if created {
				t.Error("it is created again")
			}
			_, _, err = log.Create(t.Context(), s.Key(),
				reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 5}})
			wantError(t, err, reprise.ErrConflict)
			check(t, log.Close())
			log = openLog(t, store, nil)
		}
	})
}

// filling makes a stream with the events given, and ends it if there is an outcome.
func filling(events []reprise.Event, outcome string) reprise.CreateOptions {
	return reprise.CreateOptions{Events: events, Outcome: outcome}
}

// TestCreateWithEvents: a stream is made together with its first events, from memory and from the store, and goes on
// behind them (G3).
func TestCreateWithEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s, created, err := log.CreateWith(t.Context(), filling(numbered(1, 3), ""), named("s"), reprise.StreamConfig{})
		if check(t, err); !created {
			t.Fatal("it was there")
		}
		if got := add(t, s, text("4")); got.First != 4 {
			t.Errorf("the next event has the seq %d, want 4", got.First)
		}
		wantNumbered(t, kept(t, s), 1, 4)
		again, created, err := log.CreateWith(t.Context(), filling(numbered(9, 1), ""), named("s"),
			reprise.StreamConfig{})
		if check(t, err); created {
			t.Error("it was made again")
		}
		wantNumbered(t, kept(t, again), 1, 4)
		check(t, log.Close())
		log = openLog(t, store, nil)
		s, err = log.Stream(t.Context(), named("s"))
		check(t, err)
		wantNumbered(t, kept(t, s), 1, 4)
	})
}

// TestCreateWithTheEnd: a stream may be over when it is made, and has one end event, its last (G4).
func TestCreateWithTheEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s, _, err := log.CreateWith(t.Context(), filling(numbered(1, 2), "completed"), named("s"),
			reprise.StreamConfig{})
		check(t, err)
		if i := info(t, s); i.End == nil || i.End.Outcome != "completed" || string(i.End.Data) != "2" || i.Tail != 2 {
			t.Errorf("%+v, end %+v", i, i.End)
		}
		_, err = s.Append(t.Context(), text("3"))
		wantError(t, err, reprise.ErrEnded)
		events := kept(t, s)
		wantNumbered(t, events, 1, 2)
		if events[1].Type != reprise.TypeEnd {
			t.Errorf("the last event has the type %q", events[1].Type)
		}
	})
}

// TestCreateWithEventsIsCounted: bounds, usage and hooks see the events.
func TestCreateWithEventsIsCounted(t *testing.T) {
	store := memory(t)
	var commits []reprise.CommitInfo
	log := openLog(t, store, &reprise.Options{
		MaxTenantBytes: 2000, SweepEvery: -1,
		Hooks: &reprise.Hooks{Committed: func(c reprise.CommitInfo) { commits = append(commits, c) }},
	})
	config := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 2}}
	s, _, err := log.CreateWith(t.Context(), filling(numbered(1, 5), ""), named("s"), config)
	check(t, err)
	wantNumbered(t, kept(t, s), 4, 2) // the last 2
	if len(commits) != 1 || commits[0].Events != 5 || commits[0].Streams != 1 || commits[0].Failed != 0 {
		t.Errorf("commits %+v, want one of 5 events", commits)
	}
	sizes, err := log.Sizes(t.Context())
	check(t, err)
	size := sizes[reprise.DefaultTenant]
	if got := log.Usage(); got.Bytes != size.Bytes+size.Overhead || got.Tenants[reprise.DefaultTenant].Events != 2 {
		t.Errorf("counted %+v, the store has %+v", got, size)
	}
	large := []reprise.Event{text(string(make([]byte, 4000)))}
	_, _, err = log.CreateWith(t.Context(), filling(large, ""), named("large"), reprise.StreamConfig{})
	wantError(t, err, reprise.ErrQuota)
	_, err = log.Stream(t.Context(), named("large"))
	wantError(t, err, reprise.ErrNotFound)
	tail := log.Memory().TailBytes
	check(t, log.Remove(t.Context(), named("s")))
	if left := log.Memory().TailBytes; tail <= 0 || left != 0 {
		t.Errorf("%d bytes in memory, %d after the removal", tail, left)
	}
}

// TestCreateWithEventsIsBoundedInMemory: the hot tails of streams that are only made have the bound of all (G7).
func TestCreateWithEventsIsBoundedInMemory(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{TailTotalBytes: 20_000})
	event := text(string(make([]byte, 1000)))
	for i := range 200 {
		_, _, err := log.CreateWith(t.Context(), filling([]reprise.Event{event}, "completed"),
			named(fmt.Sprint("s/", i)), reprise.StreamConfig{})
		check(t, err)
	}
	if bytes := log.Memory().TailBytes; bytes > 40_000 {
		t.Errorf("%d bytes of hot tails in memory", bytes)
	}
}

// fillingStore is a Store whose CreateAppend does what it says.
type fillingStore struct {
	reprise.Store
	fill func(context.Context, reprise.StreamInfo, reprise.AppendRequest) (reprise.StreamInfo, error)
}

func (f *fillingStore) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return f.fill(ctx, info, first)
}

// TestCreateWithEventsThatFails: nothing is made where both cannot be one commit, and after a failure what the store
// has is found, whole (G6, G9).
func TestCreateWithEventsThatFails(t *testing.T) {
	inner := memory(t)
	good := inner.(reprise.CreateAppender).CreateAppend
	store := &fillingStore{Store: inner}
	log := openLog(t, store, nil)
	make := func(name string) (bool, error) {
		_, created, err := log.CreateWith(t.Context(), filling(numbered(1, 2), ""), named(name), reprise.StreamConfig{})
		return created, err
	}
	store.fill = func(context.Context, reprise.StreamInfo, reprise.AppendRequest) (reprise.StreamInfo, error) {
		return reprise.StreamInfo{}, errors.ErrUnsupported
	}
	_, err := make("unsupported")
	wantError(t, err, errors.ErrUnsupported)
	_, err = log.Stream(t.Context(), named("unsupported"))
	wantError(t, err, reprise.ErrNotFound)

	store.fill = func(context.Context, reprise.StreamInfo, reprise.AppendRequest) (reprise.StreamInfo, error) {
		return reprise.StreamInfo{}, errFault
	}
	_, err = make("s")
	wantError(t, err, reprise.ErrUnavailable)
	store.fill = func(ctx context.Context, info reprise.StreamInfo, first reprise.AppendRequest) (
		reprise.StreamInfo, error,
	) {
		_, err := good(ctx, info, first)
		check(t, err)
		return reprise.StreamInfo{}, errFault
	}
	_, err = make("s") // which the store has now
	wantError(t, err, reprise.ErrUnavailable)
	store.fill = good
	created, err := make("s")
	if check(t, err); created {
		t.Error("it was made twice")
	}
	s, err := log.Stream(t.Context(), named("s"))
	check(t, err)
	wantNumbered(t, kept(t, s), 1, 2)

	outside := openLog(t, struct{ reprise.Store }{memory(t)}, nil)
	_, _, err = outside.CreateWith(t.Context(), filling(numbered(1, 1), ""), named("s"), reprise.StreamConfig{})
	wantError(t, err, errors.ErrUnsupported)
}

// TestCreateWithEventsThatAreNotAllowed: what an append would be refused for makes no stream either.
func TestCreateWithEventsThatAreNotAllowed(t *testing.T) {
	log := openLog(t, memory(t), nil)
	large := text(string(make([]byte, 1<<20)))
	for what, opts := range map[string]reprise.CreateOptions{
		"an outcome without an event": filling(nil, "completed"),
		"an end before the last":      filling([]reprise.Event{{Type: reprise.TypeEnd}, text("2")}, ""),
		"a long outcome":              filling(numbered(1, 1), string(make([]byte, 65))),
		"a large event":               filling([]reprise.Event{text(string(make([]byte, 2<<20)))}, ""),
		"more than a commit":          filling(slices.Repeat([]reprise.Event{large}, 9), ""),
	} {
		_, _, err := log.CreateWith(t.Context(), opts, named("s"), reprise.StreamConfig{})
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	_, err := log.Stream(t.Context(), named("s"))
	wantError(t, err, reprise.ErrNotFound)
}

// heldLookUp is a Store whose answer to one look-up of a stream comes late.
type heldLookUp struct {
	*memstore.Store
	held chan struct{} // receives when the answer is there
	pass chan struct{}
}

func (s *heldLookUp) Read(
	ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int,
) (reprise.Page, error) {
	page, err := s.Store.Read(ctx, key, after, maxBytes)
	if maxBytes == 0 && s.held != nil {
		s.held <- struct{}{}
		<-s.pass
	}
	return page, err
}

// TestSweepDuringALookUp: a stream that goes while it is being looked up does not stay in memory as
// a ghost, which Create would take for the stream that is to be made.
func TestSweepDuringALookUp(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	first, err := reprise.Open(t.Context(), inner, nil)
	check(t, err)
	s := create(t, first, "s", reprise.Retention{MaxAge: 1})
	_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Hour)})
	check(t, err)
	check(t, first.Close())

	store := &heldLookUp{Store: inner, held: make(chan struct{}), pass: make(chan struct{})}
	log := openLog(t, store, nil)
	found := make(chan error)
	go func() {
		_, err := log.Stream(t.Context(), named("s"))
		found <- err
	}()
	<-store.held
	swept := make(chan error)
	go func() {
		_, err := log.Sweep(t.Context())
		swept <- err
	}()
	until(t, func() bool { // the sweep has come to the store
		_, err := inner.Read(t.Context(), named("s"), 0, 0)
		return err != nil
	})
	close(store.pass)
	check(t, <-found) // it was there when it was asked for
	check(t, <-swept)
	store.held = nil
	_, err = log.Stream(t.Context(), named("s"))
	wantError(t, err, reprise.ErrExpired)
	if state := info(t, create(t, log, "s", reprise.Retention{MaxAge: 1})); state.Tail != 0 || state.End != nil {
		t.Errorf("the new stream is %+v", state)
	}
}

// TestClosedLogLeavesItsStoreAlone: another Log may have it by then.
func TestClosedLogLeavesItsStoreAlone(t *testing.T) {
	store := memory(t)
	log, err := reprise.Open(t.Context(), store, nil)
	check(t, err)
	s := create(t, log, "s", reprise.Retention{MaxAge: 1})
	_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Hour)})
	check(t, err)
	r := openReader(t, s, reprise.Earliest())
	check(t, log.Close())
	check(t, log.Close())
	for what, call := range map[string]func() error{
		"Create": func() error {
			_, _, err := log.Create(t.Context(), named("new"), reprise.StreamConfig{})
			return err
		},
		"Stream": func() error { _, err := log.Stream(t.Context(), named("s")); return err },
		"List":   func() error { _, err := log.List(t.Context(), reprise.ListQuery{Limit: 1}); return err },
		"Remove": func() error { return log.Remove(t.Context(), named("s")) },
		"Sweep":  func() error { _, err := log.Sweep(t.Context()); return err },
		"Append": func() error { _, err := s.Append(t.Context(), text("late")); return err },
		"Trim":   func() error { return s.Trim(t.Context(), 2) },
		"Info":   func() error { _, err := s.Info(t.Context()); return err },
		"Reader": func() error { _, err := s.Reader(t.Context(), reprise.Earliest()); return err },
		"Poll":   func() error { _, err := r.Poll(t.Context()); return err },
		"Seek":   func() error { return r.Seek(reprise.Tail()) },
	} {
		t.Run(what, func(t *testing.T) { wantError(t, call(), reprise.ErrClosed) })
	}
	page, err := store.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(page.Streams) != 1 || page.Streams[0].Kept() != 1 {
		t.Errorf("the store has changed: %+v, %v", page.Streams, err)
	}
}

// TestLookUpWaitsForNoOtherStream (G7): a look-up that the store does not answer keeps others only from the stream
// that it is about, and those only for as long as their context allows.
func TestLookUpWaitsForNoOtherStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldLookUp{Store: memstore.New(nil), held: make(chan struct{}), pass: make(chan struct{})}
		defer store.Close()
		log, err := reprise.Open(t.Context(), store, &reprise.Options{SweepEvery: -1})
		check(t, err)
		done := make(chan error, 2)
		look := func(ctx context.Context) {
			_, err := log.Stream(ctx, named("slow"))
			done <- err
		}
		go look(t.Context())
		<-store.held
		store.held = nil
		for i := range 1000 {
			_, err := log.Stream(t.Context(), named(fmt.Sprint(i)))
			wantError(t, err, reprise.ErrNotFound)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		go look(ctx)
		synctest.Wait()
		gone := errors.New("the caller has gone")
		cancel(gone)
		wantError(t, <-done, gone)
		close(store.pass)
		wantError(t, <-done, reprise.ErrNotFound)
		check(t, log.Close())
	})
}

// TestStreamRemoveKeepsNewerEpoch: Remove of a Stream removes the epoch that the Stream was opened with and no newer
// one, whichever replica created that one and whether or not it is in memory.
func TestStreamRemoveKeepsNewerEpoch(t *testing.T) {
	for _, again := range []int{0, 1} { // the replica that uses the name again
		t.Run(fmt.Sprint("again=", again), func(t *testing.T) {
			hub := shared.New(memstore.New(nil))
			logs := []*reprise.Log{openLog(t, hub.Store(), nil), openLog(t, hub.Store(), nil)}
			old := createOn(t, logs[0], "s")
			add(t, old, text("old"))
			check(t, logs[1-again].Remove(t.Context(), old.Key()))
			later := createOn(t, logs[again], "s")
			add(t, later, text("later"))
			check(t, old.Remove(t.Context()))
			check(t, old.Remove(t.Context()))
			for _, log := range logs {
				s, err := log.Stream(t.Context(), old.Key())
				check(t, err)
				info, err := s.Info(t.Context())
				if err != nil || info.Tail != 1 {
					t.Errorf("the later life has %d events, %v", info.Tail, err)
				}
			}
			check(t, later.Remove(t.Context()))
			_, err := later.Info(t.Context())
			wantError(t, err, reprise.ErrNotFound)
			_, err = logs[0].Stream(t.Context(), old.Key())
			if err == nil { // a shared Log finds out when the handle is used
				s, _ := logs[0].Stream(t.Context(), old.Key())
				_, err = s.Info(t.Context())
			}
			wantError(t, err, reprise.ErrNotFound)
			sizes, err := logs[again].Sizes(t.Context())
			if err != nil || sizes[reprise.DefaultTenant].Bytes != 0 {
				t.Errorf("sizes %v, %v", sizes, err)
			}
		})
	}
}

// TestRefusedNameQuotesTheCharacter: the error shows the character that is not allowed, also one of several bytes.
func TestRefusedNameQuotesTheCharacter(t *testing.T) {
	for name, quoted := range map[string]string{
		"a b": "' '", "für": "'ü'", "a/\u2028": `'\u2028'`, "a\xffb": "'\ufffd'", "ü:x": "'ü'",
	} {
		want := fmt.Sprintf("invalid: stream name %q holds %s", name, quoted)
		if got := fmt.Sprint(reprise.StreamKey{Tenant: "default", Name: name}.Validate()); got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
	want := `invalid: tenant "für" holds 'ü'`
	if got := fmt.Sprint(reprise.StreamKey{Tenant: "für", Name: "x"}.Validate()); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
