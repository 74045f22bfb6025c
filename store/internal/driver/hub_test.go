package driver

import (
	"errors"
	"slices"
	"testing"
)

// TestHubTurnsWithFirstAndLastWatcher: a key is subscribed to while it has watchers, however many there are.
func TestHubTurnsWithFirstAndLastWatcher(t *testing.T) {
	var turns []string
	refused := errors.New("refused")
	var h Hub[string, int]
	h.Turn = func(key string, watched bool) error {
		if key == "no" {
			return refused
		}
		turns = append(turns, map[bool]string{true: "+", false: "-"}[watched]+key)
		return nil
	}
	want := func(list ...string) {
		t.Helper()
		if !slices.Equal(turns, list) {
			t.Errorf("turns %q, want %q", turns, list)
		}
		turns = nil
	}
	add := func(key string, one *int) func() {
		t.Helper()
		stop, err := h.Add(key, one)
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	first, second, other := new(int), new(int), new(int)
	stopFirst, stopSecond, stopOther := add("a", first), add("a", second), add("b", other)
	want("+a", "+b")
	if len(h.Of("a")) != 2 || len(h.All()) != 3 || len(h.Of("c")) != 0 {
		t.Errorf("%d of a, %d in all, %d of c", len(h.Of("a")), len(h.All()), len(h.Of("c")))
	}
	stopFirst()
	stopFirst()
	want()
	if of := h.Of("a"); len(of) != 1 || of[0] != second {
		t.Errorf("%v watch a, want the second", of)
	}
	stopOther()
	h.Again()
	want("-b", "+a")
	stopSecond()
	want("-a")
	if _, err := h.Add("no", first); !errors.Is(err, refused) || len(h.All()) != 0 {
		t.Errorf("%v, %d watchers", err, len(h.All()))
	}
}
