package journal_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/journal"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openLog(t *testing.T) *reprise.Log {
	t.Helper()
	store := memstore.New(nil)
	log, err := reprise.Open(t.Context(), store, &reprise.Options{TailBytes: 1}) // records are read in several pages
	check(t, err)
	t.Cleanup(func() { check(t, errors.Join(log.Close(), store.Close())) })
	return log
}

// counter is a Sink that counts.
type counter struct{ begun, taken, atReady atomic.Int64 }

func (c *counter) sink() journal.Sink {
	return journal.Sink{
		Begin: func() { c.begun.Add(1) },
		Take:  func([]byte) { c.taken.Add(1) },
		Ready: func() { c.atReady.Store(c.taken.Load()) },
	}
}

var key = reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "records"}

// TestRecordsAreTakenBeforeReady: Open returns when all records were taken, however many pages they are; Append returns
// when its own was.
func TestRecordsAreTakenBeforeReady(t *testing.T) {
	const records = 300
	log := openLog(t)
	in := journal.In(log, key, journal.Options{Type: "x"})
	stream, err := in.Make(t.Context())
	check(t, err)
	for range records {
		_, err := stream.Append(t.Context(), reprise.Event{Type: "x", Data: bytes.Repeat([]byte("x"), 10_000)})
		check(t, err)
	}
	var c counter
	follower, err := journal.Open(t.Context(), in, c.sink())
	check(t, err)
	defer follower.Close()
	if n := c.atReady.Load(); n != records || c.begun.Load() != 1 {
		t.Errorf("%d of %d records were taken when it was ready, which began %d times", n, records, c.begun.Load())
	}
	for i := range 100 {
		check(t, in.Append(t.Context(), []byte("{}")))
		if n := c.taken.Load(); n != int64(records+i+1) {
			t.Fatalf("%d records were taken when append %d returned", n, i)
		}
	}
}

// TestLazyJournalMakesNoStream: following a Lazy journal makes no stream, and the first record does.
func TestLazyJournalMakesNoStream(t *testing.T) {
	log := openLog(t)
	in := journal.In(log, key, journal.Options{Type: "x", Lazy: true})
	var c counter
	follower, err := journal.Open(t.Context(), in, c.sink())
	check(t, err)
	defer follower.Close()
	if _, err := log.Stream(t.Context(), key); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("a stream before the first record: %v", err)
	}
	check(t, in.Append(t.Context(), []byte("{}")))
	if c.taken.Load() != 1 {
		t.Errorf("%d records were taken", c.taken.Load())
	}
}
