package reprise_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/store/memstore"
)

// TestOwnerKeepsOthersFromAppending: a stream with an owner is that one's, until one with a higher fence appends.
func TestOwnerKeepsOthersFromAppending(t *testing.T) {
	ctx := t.Context()
	log, err := reprise.Open(ctx, memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	first, second := reprise.Owner{Name: "first", Fence: 1}, reprise.Owner{Name: "second", Fence: 2}
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "owned"}
	s, _, err := log.CreateWith(ctx, reprise.CreateOptions{Owner: first}, key, reprise.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	appendAs := func(o reprise.Owner) error {
		_, err := s.AppendWith(ctx, reprise.AppendOptions{Owner: o}, text("x"))
		return err
	}
	for _, step := range []struct {
		name  string
		owner reprise.Owner
		want  error
	}{
		{"the owner", first, nil},
		{"nobody", reprise.Owner{}, reprise.ErrFenced},
		{"another with the same fence", reprise.Owner{Name: "other", Fence: 1}, reprise.ErrFenced},
		{"one with a higher fence", second, nil},
		{"the owner before", first, reprise.ErrFenced},
		{"one without a name", reprise.Owner{Fence: 3}, reprise.ErrInvalid},
		{"one without a fence", reprise.Owner{Name: "second"}, reprise.ErrInvalid},
		{"the owner now", second, nil},
	} {
		if err := appendAs(step.owner); !errors.Is(err, step.want) {
			t.Errorf("append by %s: %v, want %v", step.name, err, step.want)
		}
	}
	info, err := s.Info(ctx)
	if err != nil || info.Owner != second || info.Tail != 3 {
		t.Errorf("owner %+v, tail %d (%v), want %+v and 3", info.Owner, info.Tail, err, second)
	}
	if _, err := s.EndWith(ctx, reprise.AppendOptions{Owner: second}, "completed", reprise.Event{}); err != nil {
		t.Fatal(err)
	}
	if err := appendAs(first); !errors.Is(err, reprise.ErrFenced) {
		t.Errorf("append by the owner before, after the end: %v, want ErrFenced", err)
	}
	if err := appendAs(reprise.Owner{Name: "third", Fence: 3}); !errors.Is(err, reprise.ErrEnded) {
		t.Errorf("take-over after the end: %v, want ErrEnded", err)
	}
}

// TestTwoOwnersInOneGroup: of two owners whose appends share a commit the one with the lower fence is refused, as if
// the other had appended before.
func TestTwoOwnersInOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		first, second := reprise.Owner{Name: "first", Fence: 1}, reprise.Owner{Name: "second", Fence: 2}
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "owned"}
		s, _, err := log.CreateWith(t.Context(), reprise.CreateOptions{Owner: first}, key, reprise.StreamConfig{})
		check(t, err)
		store.shut()
		under := make(chan error, 1)
		later := map[reprise.Owner]chan error{second: make(chan error, 1), first: make(chan error, 1)}
		appendAs := func(o reprise.Owner, data string, done chan error) {
			go func() {
				_, err := s.AppendWith(t.Context(), reprise.AppendOptions{Owner: o}, text(data))
				done <- err
			}()
			synctest.Wait()
		}
		appendAs(first, "before", under)
		appendAs(second, "taken over", later[second])
		appendAs(first, "too late", later[first])
		store.open()
		check(t, <-under)
		check(t, <-later[second])
		wantError(t, <-later[first], reprise.ErrFenced)
		wantTexts(t, kept(t, s), 1, "before", "taken over")
	})
}
