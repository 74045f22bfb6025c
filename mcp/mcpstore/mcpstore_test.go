package mcpstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcpstore"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// backends are the stores that what holds for all of them is tested over.
var backends = []struct {
	name string
	open func(testing.TB) reprise.Store
}{
	{"memory", func(tb testing.TB) reprise.Store { return closed(tb, memstore.New(nil)) }},
	{"sqlite", func(tb testing.TB) reprise.Store {
		store, err := sqlitestore.Open(tb.Context(), filepath.Join(tb.TempDir(), "events.db"), nil)
		check(tb, err)
		return closed(tb, store)
	}},
	{"shared", func(tb testing.TB) reprise.Store { return closed(tb, shared.New(memstore.New(nil)).Store()) }},
}

func closed[S reprise.Store](tb testing.TB, store S) S {
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

func eachStore(t *testing.T, f func(*testing.T, reprise.Store)) {
	t.Helper()
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) { f(t, backend.open(t)) })
	}
}

func openLog(tb testing.TB, store reprise.Store, opts *reprise.Options) *reprise.Log {
	tb.Helper()
	if opts == nil {
		opts = &reprise.Options{SweepEvery: -1}
	}
	log, err := reprise.Open(context.Background(), store, opts)
	check(tb, err)
	tb.Cleanup(func() { check(tb, log.Close()) })
	return log
}

func newStore(tb testing.TB, store reprise.Store, opts *mcpstore.Options) *mcpstore.EventStore {
	tb.Helper()
	s := mcpstore.New(openLog(tb, store, nil), opts)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// after is what the store has after index.
func after(s *mcpstore.EventStore, session, stream string, index int) (got []string, err error) {
	for data, err := range s.After(context.Background(), session, stream, index) {
		if err != nil {
			return got, err
		}
		got = append(got, string(data))
	}
	return got, nil
}

func wantAfter(tb testing.TB, s *mcpstore.EventStore, session, stream string, index int, want ...string) {
	tb.Helper()
	got, err := after(s, session, stream, index)
	check(tb, err)
	if !slices.Equal(got, want) {
		tb.Fatalf("after %d: got %q, want %q", index, got, want)
	}
}

func wantRefused(tb testing.TB, s *mcpstore.EventStore, session, stream string, index int, want error) {
	tb.Helper()
	got, err := after(s, session, stream, index)
	if len(got) > 0 || !errors.Is(err, want) {
		tb.Fatalf("after %d: got %q and %v, want %v", index, got, err, want)
	}
}

// numbered are the messages first to last, as numbered makes them.
func numbered(first, last int) (messages []string) {
	for i := first; i <= last; i++ {
		messages = append(messages, fmt.Sprintf(`{"n":%d}`, i))
	}
	return messages
}

func appendAll(tb testing.TB, s *mcpstore.EventStore, session, stream string, messages ...string) {
	tb.Helper()
	for _, m := range messages {
		check(tb, s.Append(tb.Context(), session, stream, []byte(m)))
	}
}

func TestIndexIsOrdinal(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := newStore(t, store, nil)
		check(t, s.Open(t.Context(), "s1", "a"))
		wantAfter(t, s, "s1", "a", -1)
		check(t, s.Append(t.Context(), "s1", "a", nil)) // the priming event
		appendAll(t, s, "s1", "a", numbered(1, 300)...)
		for _, i := range []int{0, 1, 150, 299} {
			wantAfter(t, s, "s1", "a", i, numbered(i+1, 300)...)
		}
		wantAfter(t, s, "s1", "a", 300)
		got, err := after(s, "s1", "a", -1)
		check(t, err)
		if len(got) != 301 || got[0] != "" {
			t.Fatalf("got %d messages, the first %q", len(got), got[0])
		}
		_, err = after(s, "s1", "a", 301)
		if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Reason != reprise.CursorAhead {
			t.Fatalf("beyond the last message: %v", err)
		}
		wantRefused(t, s, "s1", "a", -2, reprise.ErrInvalid)
	})
}

func TestMessagesAreCopiedAndMayBeAnything(t *testing.T) {
	s := newStore(t, backends[0].open(t), nil)
	check(t, s.Open(t.Context(), "s1", ""))
	message := []byte("two\nlines")
	check(t, s.Append(t.Context(), "s1", "", message))
	message[0] = 'X'
	wantAfter(t, s, "s1", "", -1, "two\nlines")
}

func TestSessionsAndStreamsAreApart(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := newStore(t, store, nil)
		long := strings.Repeat("x", 300)
		names := [][2]string{
			{"a", "b"},
			{"a:b", ""},
			{"a", "b/c"},
			{"a/b", "c"},
			{"a_2f", "b"},
			{"a", ":b"},
			{"", "b"},
			{"_", "b"},
			{"a", ""},
			{"a", "_"},
			{"A", "b"},
			{"a", "B"},
			{long, "b"},
			{long + "y", "b"},
			{"a", long},
			{"a", "../../x"},
			{"\x00\xff\n", "☃"},
			{"..", "."},
		}
		for i, name := range names {
			check(t, s.Open(t.Context(), name[0], name[1]))
			appendAll(t, s, name[0], name[1], numbered(i, i)...)
		}
		for i, name := range names {
			wantAfter(t, s, name[0], name[1], -1, numbered(i, i)...)
		}
		wantRefused(t, s, "other", "b", -1, reprise.ErrNotFound)
		wantRefused(t, s, "a", "other", -1, reprise.ErrNotFound)
		check(t, s.SessionClosed(t.Context(), "a"))
		wantRefused(t, s, "a", "b", -1, reprise.ErrNotFound)
		wantRefused(t, s, "a", "", 0, reprise.ErrNotFound)
		wantAfter(t, s, "a/b", "c", -1, numbered(3, 3)...)
		wantAfter(t, s, "A", "b", -1, numbered(10, 10)...)
	})
}

func TestAppendNeedsOpenStream(t *testing.T) {
	s := newStore(t, backends[0].open(t), nil)
	if err := s.Append(t.Context(), "s1", "a", nil); !errors.Is(err, reprise.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	check(t, s.Open(t.Context(), "s1", "a"))
	check(t, s.SessionClosed(t.Context(), "s1"))
	if err := s.Append(t.Context(), "s1", "a", nil); !errors.Is(err, reprise.ErrNotFound) {
		t.Fatalf("after SessionClosed: got %v", err)
	}
}

func TestPurgedHistoryIsRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := newStore(t, store, &mcpstore.Options{Retention: reprise.Retention{MaxEvents: 10}})
		check(t, s.Open(t.Context(), "s1", "a"))
		appendAll(t, s, "s1", "a", numbered(0, 99)...)
		wantRefused(t, s, "s1", "a", -1, mcp.ErrEventsPurged)
		wantRefused(t, s, "s1", "a", 88, mcp.ErrEventsPurged)
		wantAfter(t, s, "s1", "a", 89, numbered(90, 99)...)
	})
}

func TestAppendOutlivesItsRequest(t *testing.T) {
	s := newStore(t, backends[0].open(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check(t, s.Open(t.Context(), "s1", "a"))
	check(t, s.Append(ctx, "s1", "a", []byte("{}")))
	wantAfter(t, s, "s1", "a", -1, "{}")
}

func TestAnotherReplicaAndARestartReplay(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	one, other := newStore(t, closed(t, hub.Store()), nil), newStore(t, closed(t, hub.Store()), nil)
	check(t, one.Open(t.Context(), "s1", "a"))
	for i := range 20 {
		appendAll(t, one, "s1", "a", numbered(i, i)...)
		wantAfter(t, other, "s1", "a", i-1, numbered(i, i)...)
	}
	check(t, one.Close())
	appendAll(t, other, "s1", "a", numbered(20, 20)...)
	wantAfter(t, other, "s1", "a", 18, numbered(19, 20)...)
	check(t, other.SessionClosed(t.Context(), "s1"))
	wantRefused(t, other, "s1", "a", 0, reprise.ErrNotFound)
}

// TestTwoWritersOfOneStreamConflict: two SDKs that number the messages of one stream cannot both be right, so both
// receive ErrConflict.
func TestTwoWritersOfOneStreamConflict(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	one, other := newStore(t, closed(t, hub.Store()), nil), newStore(t, closed(t, hub.Store()), nil)
	check(t, one.Open(t.Context(), "s1", "a"))
	check(t, other.Open(t.Context(), "s1", "a"))
	appendAll(t, one, "s1", "a", "{}")
	for range 2 {
		if err := other.Append(t.Context(), "s1", "a", []byte("{}")); !errors.Is(err, reprise.ErrConflict) {
			t.Fatalf("got %v", err)
		}
	}
	wantRefused(t, other, "s1", "a", -1, reprise.ErrConflict)
}

func TestConcurrentStreams(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := newStore(t, store, nil)
		var tasks sync.WaitGroup
		for i := range 20 {
			tasks.Go(func() {
				stream := fmt.Sprint(i)
				if err := s.Open(t.Context(), "s1", stream); err != nil {
					t.Error(err)
					return
				}
				for n := range 50 {
					if err := s.Append(t.Context(), "s1", stream, fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
						t.Error(err)
					}
					if got, err := after(s, "s1", stream, n-1); err != nil || len(got) != 1 {
						t.Errorf("got %q and %v", got, err)
					}
				}
			})
		}
		tasks.Wait()
		check(t, s.SessionClosed(t.Context(), "s1"))
		if removed, err := s.Sweep(t.Context()); err != nil || removed != 0 {
			t.Fatalf("%d left, %v", removed, err)
		}
	})
}

func TestClose(t *testing.T) {
	s := newStore(t, backends[0].open(t), nil)
	check(t, s.Open(t.Context(), "s1", "a"))
	check(t, s.Close())
	check(t, s.Close())
	if err := s.Open(t.Context(), "s1", "b"); !errors.Is(err, reprise.ErrClosed) {
		t.Fatalf("got %v", err)
	}
}
