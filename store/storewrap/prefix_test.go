package storewrap_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

func prefix(tb testing.TB, inner reprise.Store, prefix string) reprise.Store {
	tb.Helper()
	s, err := storewrap.Prefix(inner, prefix)
	check(tb, err)
	return s
}

func TestPrefixedStoreKeepsContract(t *testing.T) {
	conform(t, func(tb testing.TB, inner reprise.Store) reprise.Store {
		// Streams of others, with names that are alike, are to make no difference.
		for _, tenant := range []reprise.Tenant{"default", "a", "part", "part2.default", "other.part.default"} {
			req := reprise.StreamInfo{Key: reprise.StreamKey{Tenant: tenant, Name: "s"}, Epoch: epoch, Created: created}
			_, err := inner.Create(tb.Context(), req)
			check(tb, err)
		}
		return prefix(tb, inner, "part")
	})
}

// TestPrefixesShareNothing: two parts of one Store share nothing.
func TestPrefixesShareNothing(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	a, b := prefix(t, inner, "a"), prefix(t, inner, "b")
	for _, s := range []reprise.Store{a, b} {
		mustCreate(t, s, key("s"))
		mustAppend(t, s, request(key("s"), 1, "one"))
	}
	mustCreate(t, a, key("only-a"))
	mustAppend(t, a, ended(key("only-a"), 1))
	check(t, a.Remove(t.Context(), key("s"), reprise.RemoveSpec{}))
	if got := texts(t, b, key("s")); len(got) != 1 {
		t.Errorf("b has %q", got)
	}
	swept, err := b.(reprise.Sweeper).Sweep(t.Context(), time.Now(), time.Now(), 10)
	if err != nil || len(swept) != 0 {
		t.Errorf("b has swept %v of a, %v", swept, err)
	}
	sizes, err := a.(reprise.Sizer).Sizes(t.Context())
	if err != nil || len(sizes) != 1 || sizes[reprise.DefaultTenant].Streams != 1 {
		t.Errorf("a keeps %v, %v", sizes, err)
	}
	list, err := b.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(list.Streams) != 1 || list.Streams[0].Key != key("s") {
		t.Errorf("b lists %v, %v", list, err)
	}
	swept, err = a.(reprise.Sweeper).Sweep(t.Context(), time.Now(), time.Now().Add(time.Hour), 10)
	if err != nil || len(swept) != 1 || swept[0].Key != key("only-a") {
		t.Errorf("a has swept %v, %v", swept, err)
	}
}

func TestPrefixIsChecked(t *testing.T) {
	for _, bad := range []string{"", "a.b", ".", "a b", "a/b", "a:", strings.Repeat("a", 33)} {
		if _, err := storewrap.Prefix(memstore.New(nil), bad); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestSweepIsLocked by another replica, until that has crashed for a minute.
func TestSweepIsLocked(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	s := prefix(t, inner, "a")
	mustCreate(t, s, key("s"))
	mustAppend(t, s, ended(key("s"), 1))
	lock := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "a.", Name: "sweep"}, Epoch: epoch,
		Created: time.Now().Add(-50 * time.Second),
	}
	for _, want := range []int{0, 1} {
		_, err := inner.Create(t.Context(), lock)
		check(t, err)
		swept, err := s.(reprise.Sweeper).Sweep(t.Context(), time.Now(), time.Now(), 10)
		if err != nil || len(swept) != want {
			t.Errorf("with a lock from %v: %d were swept, want %d, %v", lock.Created, len(swept), want, err)
		}
		list, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
		if err != nil || len(list.Streams) != 1-want {
			t.Errorf("listed %v, %v", list, err)
		}
		check(t, inner.Remove(t.Context(), lock.Key, reprise.RemoveSpec{}))
		lock.Created = lock.Created.Add(-11 * time.Second)
	}
	sizes, err := inner.Sizes(t.Context())
	if err != nil || sizes["a."] != (reprise.Size{}) {
		t.Errorf("a lock is left: %v, %v", sizes, err)
	}
}
