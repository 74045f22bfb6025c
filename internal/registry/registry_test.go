package registry_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/registry"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "things"}

func openLog(t *testing.T) *reprise.Log {
	store := memstore.New(nil)
	log, err := reprise.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(log.Close(), store.Close()) })
	return log
}

func open(t *testing.T, log *reprise.Log) *registry.Registry[string] {
	t.Helper()
	r, err := registry.Open[string](t.Context(), log, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A change is known to all that follow and after a restart; without one there is no stream.
func TestChangesAreShared(t *testing.T) {
	log := openLog(t)
	one := open(t, log)
	if _, err := log.Stream(t.Context(), key); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("a stream before the first change: %v", err)
	}
	if err := one.Set(t.Context(), "a", 0, new("first")); err != nil {
		t.Fatal(err)
	}
	two := open(t, log)
	if e, err := two.Find("a"); err != nil || e.Value != "first" || e.Version != 1 {
		t.Errorf("found %+v, %v", e, err)
	}
	if err := two.Set(t.Context(), "a", 1, new("second")); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	for {
		all, changed := one.All()
		if all["a"].Value == "second" {
			break
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the other still knows %+v", all)
		}
	}
	st, err := log.Stream(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	// at a time
	for _, text := range []string{`{"id":"b","version":1,"value":"x"}`, `{"id":"b","version":1,"value":"y"}`} {
		if _, err := st.Append(t.Context(), reprise.Event{Type: "change", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := open(t, log).Find("b"); err != nil || e.Value != "x" {
		t.Errorf("the first is %+v, %v", e, err)
	}
	if err := one.Set(t.Context(), "a", 2, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, log).Find("a"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("removed and found: %v", err)
	}
}

// Of changes to the same version one counts, whoever makes them.
func TestOneOfTwoChangesCounts(t *testing.T) {
	log := openLog(t)
	both := []*registry.Registry[string]{open(t, log), open(t, log)}
	if err := both[0].Set(t.Context(), "a", 0, new("begin")); err != nil {
		t.Fatal(err)
	}
	if err := both[1].Set(t.Context(), "a", 7, new("x")); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("another version: %v", err)
	}
	for version := uint64(1); version <= 20; version++ {
		for _, r := range both { // each knows the version that both change
			for {
				all, changed := r.All()
				if all["a"].Version == version {
					break
				}
				<-changed
			}
		}
		errs := make([]error, len(both))
		var tasks sync.WaitGroup
		for i, r := range both {
			tasks.Go(func() { errs[i] = r.Set(t.Context(), "a", version, new(fmt.Sprint(i))) })
		}
		tasks.Wait()
		won := 0
		for i, err := range errs {
			switch {
			case err == nil:
				won++
				if e, err := both[i].Find("a"); err != nil || e.Version < version+1 || e.Value != fmt.Sprint(i) {
					t.Errorf("%d has won, and it is %+v, %v", i, e, err)
				}
			case !errors.Is(err, reprise.ErrConflict):
				t.Error(err)
			}
		}
		if won != 1 {
			t.Fatalf("version %d: %d have won: %v", version, won, errs)
		}
	}
}
