package mcpstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcpstore"
	"reprise/store/memstore"
)

// faulty is a Store that can be made to fail.
type faulty struct {
	reprise.Store
	mu sync.Mutex
	// before fails appends without storing them, after when they have been stored.
	before, after, reading bool
	appends                int
}

var errFault = fmt.Errorf("%w: a fault of the test", reprise.ErrUnavailable)

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faulty) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.appends++
	if !f.before {
		if errs := f.Store.Append(ctx, reqs); errs != nil || !f.after {
			return errs
		}
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = errFault
	}
	return errs
}

func (f *faulty) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reading {
		return reprise.Page{}, errFault
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

// newFaulty makes an event store over a faulty memory, for a synctest bubble. Call the returned function at the end.
func newFaulty(t *testing.T, logOpts reprise.Options, opts *mcpstore.Options) (*mcpstore.EventStore, *faulty, func()) {
	t.Helper()
	f := &faulty{Store: memstore.New(nil)}
	logOpts.SweepEvery = -1
	log, err := reprise.Open(t.Context(), f, &logOpts)
	check(t, err)
	s := mcpstore.New(log, opts)
	return s, f, func() {
		check(t, s.Close())
		check(t, log.Close())
		check(t, f.Close())
	}
}

func TestOutageKeepsMessageNumbers(t *testing.T) {
	for name, fault := range map[string]func(*faulty){
		"not stored":        func(f *faulty) { f.before = true },
		"stored and denied": func(f *faulty) { f.after = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f, end := newFaulty(t, reprise.Options{}, nil)
				defer end()
				check(t, s.Open(t.Context(), "s1", "a"))
				appendAll(t, s, "s1", "a", numbered(0, 9)...)
				f.set(func() { fault(f) })
				appendAll(t, s, "s1", "a", numbered(10, 999)...)
				for _, i := range []int{-1, 8, 9, 10, 500, 998} {
					wantAfter(t, s, "s1", "a", i, numbered(i+1, 999)...)
				}
				f.set(func() { f.before, f.after = false, false })
				time.Sleep(5 * time.Second)
				appendAll(t, s, "s1", "a", numbered(1000, 1009)...)
				for _, i := range []int{-1, 8, 9, 10, 999, 1000, 1008} {
					wantAfter(t, s, "s1", "a", i, numbered(i+1, 1009)...)
				}
				check(t, s.Close())
				again := mcpstore.New(reopened(t, f), nil)
				defer again.Close()
				wantAfter(t, again, "s1", "a", -1, numbered(0, 1009)...)
			})
		})
	}
}

// reopened is another Log on a store whose first Log is not used any more.
func reopened(t *testing.T, store reprise.Store) *reprise.Log {
	log, err := reprise.Open(context.Background(), store, &reprise.Options{SweepEvery: -1})
	check(t, err)
	t.Cleanup(func() { check(t, log.Close()) })
	return log
}

// TestFlappingStoreKeepsEachMessageOnce: with a store that fails at random, each message is kept once under its number.
func TestFlappingStoreKeepsEachMessageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{}, nil)
		defer end()
		const streams, messages = 10, 200
		var tasks sync.WaitGroup
		for i := range streams {
			tasks.Go(func() {
				stream := fmt.Sprint(i)
				check(t, s.Open(t.Context(), "s1", stream))
				for n := range messages {
					appendAll(t, s, "s1", stream, numbered(n, n)...)
					time.Sleep(time.Duration(7+i) * time.Millisecond)
					wantAfter(t, s, "s1", stream, n/2, numbered(n/2+1, n)...)
				}
			})
		}
		stop := make(chan struct{})
		var faults sync.WaitGroup
		faults.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					f.set(func() { f.before, f.after = false, false })
					return
				case <-time.After(time.Duration(31+i%17) * time.Millisecond):
					f.set(func() { f.before, f.after = i%3 == 0, i%3 == 1 })
				}
			}
		})
		tasks.Wait()
		close(stop)
		faults.Wait()
		time.Sleep(10 * time.Second)
		for i := range streams {
			wantAfter(t, s, "s1", fmt.Sprint(i), -1, numbered(0, messages-1)...)
		}
	})
}

func TestDroppedMessagesKeepTheirNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &mcpstore.Options{MaxPendingBytes: 1000, MaxWait: 3 * time.Second}
		s, f, end := newFaulty(t, reprise.Options{}, opts)
		defer end()
		check(t, s.Open(t.Context(), "s1", "a"))
		appendAll(t, s, "s1", "a", numbered(0, 4)...)
		f.set(func() { f.before = true })
		kept := 5
		start := time.Now()
		for ; ; kept++ {
			if err := s.Append(t.Context(), "s1", "a", []byte(numbered(kept, kept)[0])); err != nil {
				if !errors.Is(err, reprise.ErrUnavailable) {
					t.Fatal(err)
				}
				break
			}
		}
		if waited := time.Since(start); waited != opts.MaxWait || kept < 10 {
			t.Fatalf("lost message %d after %v", kept, waited)
		}
		for range 300 { // more than fit in one run
			if s.Append(t.Context(), "s1", "a", []byte(numbered(kept, kept)[0])) == nil {
				t.Fatal("a message found room")
			}
		}
		last := kept + 300
		wantRefused(t, s, "s1", "a", 0, mcp.ErrEventsPurged)
		wantRefused(t, s, "s1", "a", last-1, mcp.ErrEventsPurged)
		wantAfter(t, s, "s1", "a", last)
		f.set(func() { f.before = false })
		time.Sleep(5 * time.Second)
		wantRefused(t, s, "s1", "a", last-1, mcp.ErrEventsPurged)
		appendAll(t, s, "s1", "a", numbered(last+1, last+9)...)
		wantAfter(t, s, "s1", "a", last, numbered(last+1, last+9)...)
		wantAfter(t, s, "s1", "a", last+5, numbered(last+6, last+9)...)
		wantRefused(t, s, "s1", "a", 0, mcp.ErrEventsPurged)
		check(t, s.Close())
		again := mcpstore.New(reopened(t, f), nil)
		defer again.Close()
		wantRefused(t, again, "s1", "a", last-1, mcp.ErrEventsPurged)
		wantAfter(t, again, "s1", "a", last, numbered(last+1, last+9)...)
	})
}

func TestPendingAppendsGoOnAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{}, &mcpstore.Options{MaxPendingBytes: 1000, MaxWait: time.Minute})
		defer end()
		check(t, s.Open(t.Context(), "s1", "a"))
		f.set(func() { f.before = true })
		time.AfterFunc(30*time.Second, func() { f.set(func() { f.before = false }) })
		appendAll(t, s, "s1", "a", numbered(0, 99)...) // waits for the store, and loses nothing
		wantAfter(t, s, "s1", "a", -1, numbered(0, 99)...)
	})
}

func TestMessageThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{MaxEventBytes: 1000}, nil)
		defer end()
		large := []byte(strings.Repeat("x", 1001))
		check(t, s.Open(t.Context(), "s1", "a"))
		appendAll(t, s, "s1", "a", numbered(0, 4)...)
		if err := s.Append(t.Context(), "s1", "a", large); !errors.Is(err, reprise.ErrInvalid) {
			t.Fatalf("got %v", err)
		}
		appendAll(t, s, "s1", "a", numbered(6, 9)...)
		wantRefused(t, s, "s1", "a", 4, mcp.ErrEventsPurged)
		wantAfter(t, s, "s1", "a", 5, numbered(6, 9)...)

		f.set(func() { f.before = true }) // and where it is found out later
		appendAll(t, s, "s1", "a", numbered(10, 14)...)
		check(t, s.Append(t.Context(), "s1", "a", large))
		appendAll(t, s, "s1", "a", numbered(16, 19)...)
		f.set(func() { f.before = false })
		time.Sleep(5 * time.Second)
		wantRefused(t, s, "s1", "a", 12, mcp.ErrEventsPurged)
		wantAfter(t, s, "s1", "a", 15, numbered(16, 19)...)
	})
}

func TestResumeWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{}, nil)
		defer end()
		check(t, s.Open(t.Context(), "s1", "a"))
		appendAll(t, s, "s1", "a", numbered(0, 9)...)
		check(t, s.Close())
		again := mcpstore.New(reopened(t, f), nil) // which has nothing in memory
		defer again.Close()
		f.set(func() { f.reading = true })
		time.AfterFunc(2*time.Second, func() { f.set(func() { f.reading = false }) })
		wantAfter(t, again, "s1", "a", 4, numbered(5, 9)...)
		f.set(func() { f.reading = true })
		start := time.Now()
		third := mcpstore.New(reopened(t, f.Store), nil)
		defer third.Close()
		wantAfter(t, third, "s1", "a", 4, numbered(5, 9)...)
		away := &faulty{Store: f.Store}
		fourth := mcpstore.New(reopened(t, away), nil)
		defer fourth.Close()
		away.set(func() { away.reading = true }) // to open a Log takes a store that can be read
		wantRefused(t, fourth, "s1", "a", 4, reprise.ErrUnavailable)
		if waited := time.Since(start); waited != 5*time.Second {
			t.Fatalf("waited %v", waited)
		}
	})
}

func TestCloseTellsWhatWasNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{}, nil)
		defer end()
		check(t, s.Open(t.Context(), "s1", "a"))
		f.set(func() { f.before = true })
		appendAll(t, s, "s1", "a", "{}")
		if err := s.Close(); !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{}, nil)
		defer end()
		response := `{"jsonrpc":"2.0","id":1,"result":{}}`
		call := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		for stream, messages := range map[string][]string{
			"": nil, "done": {call, response}, "runs": {response, call}, "failed": {`{"id":2,"error":{"code":1}}`},
		} {
			check(t, s.Open(t.Context(), "s1", stream))
			appendAll(t, s, "s1", stream, messages...)
		}
		time.Sleep(59 * time.Minute)
		wantAfter(t, s, "s1", "done", -1, call, response)
		time.Sleep(7 * time.Minute) // with a sweep in it
		wantRefused(t, s, "s1", "done", -1, reprise.ErrNotFound)
		wantRefused(t, s, "s1", "failed", -1, reprise.ErrNotFound)
		time.Sleep(48 * time.Hour)
		wantAfter(t, s, "s1", "runs", -1, response, call)
		appendAll(t, s, "s1", "runs", response)
		appendAll(t, s, "s1", "", call)
		wantAfter(t, s, "s1", "runs", 1, response)
		wantAfter(t, s, "s1", "", -1, call)
		check(t, s.Close())

		left := mcpstore.New(reopened(t, f), nil) // the process has begun anew: nobody has the session
		defer left.Close()
		time.Sleep(23 * time.Hour)
		wantRefused(t, left, "s1", "runs", -1, reprise.ErrNotFound)
		wantAfter(t, left, "s1", "", -1, call)
		time.Sleep(2 * time.Hour)
		wantRefused(t, left, "s1", "", -1, reprise.ErrNotFound)
	})
}

// TestFailedStreamStaysFailed: after a message without a number, no later message receives one.
func TestFailedStreamStaysFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, end := newFaulty(t, reprise.Options{}, nil)
		defer end()
		check(t, s.Open(t.Context(), "s1", "a"))
		appendAll(t, s, "s1", "a", `{"id":1,"result":{}}`)
		check(t, s.Close())

		again := mcpstore.New(reopened(t, f), nil) // which has to ask the store for the stream
		defer again.Close()
		f.set(func() { f.reading = true })
		if err := again.Append(t.Context(), "s1", "a", []byte("{}")); !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		f.set(func() { f.reading = false })
		for range 3 {
			if again.Append(t.Context(), "s1", "a", []byte("{}")) == nil {
				t.Fatal("a message was numbered after one that was not")
			}
			if got, err := after(again, "s1", "a", 0); err == nil {
				t.Fatalf("got %q", got)
			}
			time.Sleep(10 * time.Minute) // with sweeps
		}
		check(t, again.SessionClosed(t.Context(), "s1"))
		wantRefused(t, again, "s1", "a", 0, reprise.ErrNotFound)
	})
}
