package reprise_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"reprise"
)

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
