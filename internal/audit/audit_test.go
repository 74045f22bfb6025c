package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/audit"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a Log whose store fails as it is told to.
type fixture struct {
	*testing.T
	log  *reprise.Log
	keys *reprise.Keyset
	// down: 1 refuses appends, 2 keeps them and says that it did not.
	down *atomic.Int32
}

type faultyStore struct {
	reprise.Store
	down *atomic.Int32
}

func (f *faultyStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	down := f.down.Load()
	errs := make([]error, len(reqs))
	if down != 1 {
		errs = f.Store.Append(ctx, reqs)
	}
	for i := range errs {
		if down != 0 {
			errs[i] = reprise.ErrUnavailable
		}
	}
	return errs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, keys: reprise.NewKeyset(), down: new(atomic.Int32)}
	var err error
	f.log, err = reprise.Open(t.Context(), &faultyStore{memstore.New(nil), f.down}, &reprise.Options{SweepEvery: -1})
	ok(t, err)
	t.Cleanup(func() { ok(t, f.log.Close()) })
	return f
}

func (f *fixture) trail(opts *audit.Options) *audit.Trail {
	f.Helper()
	trail, err := audit.Open(f.Context(), f.log, f.keys, opts)
	ok(f.T, err)
	f.Cleanup(trail.Close)
	return trail
}

func (f *fixture) check() audit.Found {
	f.Helper()
	found, err := audit.Check(f.Context(), f.log, f.keys)
	ok(f.T, err)
	return found
}

// entries are the records that are kept.
func (f *fixture) entries() (list []audit.Entry) {
	f.Helper()
	for _, e := range f.events() {
		var entry audit.Entry
		ok(f.T, json.Unmarshal(e.Data, &entry))
		list = append(list, entry)
	}
	return list
}

func (f *fixture) events() (list []reprise.Event) {
	f.Helper()
	stream, err := f.log.Stream(f.Context(), audit.StreamKey)
	ok(f.T, err)
	reader, err := stream.Reader(f.Context(), reprise.Earliest())
	ok(f.T, err)
	defer reader.Close()
	for {
		run, err := reader.Poll(f.Context())
		ok(f.T, err)
		if run.Len() == 0 {
			return list
		}
		for e := range run.All() {
			e.Data = append([]byte(nil), e.Data...)
			list = append(list, e)
		}
	}
}

func TestRecordsOfManyWritersAreWhole(t *testing.T) {
	f := newFixture(t)
	var group sync.WaitGroup
	for i := range 4 {
		trail := f.trail(nil)
		for j := range 50 {
			group.Go(func() {
				hostile := "\xff<&>" + strings.Repeat("é", 300)
				e := audit.Entry{Act: "test", Object: fmt.Sprint(i, " ", j), Request: hostile}
				if err := trail.Record(context.Background(), e); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	seen := map[string]bool{}
	for _, e := range f.entries() {
		seen[e.Object] = true
	}
	if found := f.check(); found.Records != 200 || found.Writers != 4 || len(found.Wrong) > 0 || len(seen) != 200 {
		t.Errorf("%+v, and %d different ones", found, len(seen))
	}
}

// Whatever is done to the records without the key shows.
func TestChangesShow(t *testing.T) {
	f := newFixture(t)
	for i := range 3 { // chains one after the other
		trail := f.trail(nil)
		for j := range 4 {
			ok(t, trail.Record(t.Context(), audit.Entry{Act: "test", Object: fmt.Sprint(i, j)}))
		}
		trail.Close()
	}
	events := f.events()
	swap := func(list []reprise.Event) []reprise.Event { list[5], list[6] = list[6], list[5]; return list }
	for what, change := range map[string]func([]reprise.Event) []reprise.Event{
		"one is changed": func(l []reprise.Event) []reprise.Event {
			l[5].Data = []byte(strings.Replace(string(l[5].Data), "test", "tost", 1))
			return l
		},
		"one is removed":           func(l []reprise.Event) []reprise.Event { return append(l[:5], l[6:]...) },
		"the first is removed":     func(l []reprise.Event) []reprise.Event { return l[1:] },
		"the end of a chain":       func(l []reprise.Event) []reprise.Event { return append(l[:7], l[8:]...) },
		"a whole chain is removed": func(l []reprise.Event) []reprise.Event { return append(l[:4], l[8:]...) },
		"one is repeated":          func(l []reprise.Event) []reprise.Event { return append(l, l[11]) },
		"two are swapped":          swap,
		"nothing":                  func(l []reprise.Event) []reprise.Event { return l },
	} {
		t.Run(what, func(t *testing.T) {
			other := newFixture(t)
			other.keys = f.keys
			stream, _, err := other.log.Create(t.Context(), audit.StreamKey, reprise.StreamConfig{})
			ok(t, err)
			copied := make([]reprise.Event, len(events))
			for i, e := range events {
				copied[i] = reprise.Event{Type: e.Type, Data: e.Data, Format: e.Format}
			}
			_, err = stream.Append(t.Context(), change(copied)...)
			ok(t, err)
			if found := other.check(); (len(found.Wrong) > 0) != (what != "nothing") {
				t.Errorf("%+v", found)
			}
			other.keys = reprise.NewKeyset()
			if found := other.check(); len(found.Wrong) != found.Records {
				t.Errorf("with another key: %+v", found)
			}
		})
	}
}

// What retention has removed is not missed.
func TestOldRecordsAreSweptAway(t *testing.T) {
	f := newFixture(t)
	trail := f.trail(&audit.Options{Retention: reprise.Retention{MaxEvents: 10}})
	for range 40 {
		ok(t, trail.Record(t.Context(), audit.Entry{Act: "test"}))
	}
	if found := f.check(); found.Records > 20 || found.First == 1 || len(found.Wrong) > 0 {
		t.Errorf("%+v", found)
	}
}

// A record that may or may not have been kept is there once, and the chain goes on.
func TestRecordsWithAStoreThatFails(t *testing.T) {
	for _, down := range []int32{1, 2} {
		f := newFixture(t)
		trail := f.trail(nil)
		ok(t, trail.Record(t.Context(), audit.Entry{Act: "before"}))
		f.down.Store(down)
		for range 2 {
			// The Log finds out by itself that an append was kept.
			err := trail.Record(t.Context(), audit.Entry{Act: "during"})
			if down == 1 && !errors.Is(err, reprise.ErrUnavailable) || down == 2 && err != nil {
				t.Errorf("%v", err)
			}
		}
		f.down.Store(0)
		ok(t, trail.Record(t.Context(), audit.Entry{Act: "after"}))
		counts := map[string]int{}
		for _, e := range f.entries() {
			counts[e.Act]++
		}
		once := counts["before"] == 1 && counts["after"] == 1 && counts["during"] <= 2
		if found := f.check(); len(found.Wrong) > 0 || !once {
			t.Errorf("%+v, %v", found, counts)
		}
		trail.Close()
		if err := trail.Record(t.Context(), audit.Entry{}); !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestNotesAndRefusalsAreSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := reprise.Open(t.Context(), memstore.New(nil), &reprise.Options{SweepEvery: -1})
		ok(t, err)
		f := &fixture{T: t, log: log, keys: reprise.NewKeyset()}
		trail, err := audit.Open(t.Context(), log, f.keys, nil)
		ok(t, err)
		trail.Note(audit.Entry{Act: "read"})
		for i := range 100_000 {
			trail.Refuse(audit.Entry{
				Act: "GET /x", Result: "unauthenticated", Remote: fmt.Sprint("10.0.0.", i%2), Request: fmt.Sprint(i),
			})
			trail.Refuse(audit.Entry{Act: fmt.Sprint("flood ", i), Result: "forbidden"})
		}
		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
		if list := f.entries(); len(list) != 1 || list[0].Act != "read" {
			t.Errorf("after a second: %+v", list)
		}
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		refused, dropped := map[string]int{}, 0
		list := f.entries()
		for _, e := range list {
			if e.Act == "GET /x" {
				refused[e.Remote] += e.Count
			}
			if e.Result == "dropped" {
				dropped = e.Count
			}
		}
		if len(list) != 1+1000+1 || refused["10.0.0.0"] != 50_000 || refused["10.0.0.1"] != 50_000 ||
			dropped != 100_000-998 {
			t.Errorf("%d records, %v, %d dropped", len(list), refused, dropped)
		}
		trail.Note(audit.Entry{Act: "last"})
		trail.Refuse(audit.Entry{Act: "GET /y", Result: "forbidden"})
		trail.Close() // which keeps them
		if found := f.check(); len(found.Wrong) > 0 || found.Records != len(list)+2 {
			t.Errorf("%+v", found)
		}
		ok(t, log.Close())
	})
}
