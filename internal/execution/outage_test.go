package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// down is a store that cannot be reached while it is down; of the appends every other one is stored all the same.
type down struct {
	*memstore.Store
	down  atomic.Bool
	full  atomic.Bool // why it is down; it can be read then
	tries atomic.Int64
}

func (d *down) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if !d.down.Load() {
		return d.Store.Append(ctx, reqs)
	}
	if d.tries.Add(1)%2 == 0 && !d.full.Load() {
		_ = d.Store.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = fmt.Errorf("injected: %w", reprise.ErrUnavailable)
		if d.full.Load() {
			errs[i] = fmt.Errorf("injected: %w", reprise.DiskFull)
		}
	}
	return errs
}

func (d *down) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if d.down.Load() && !d.full.Load() {
		d.tries.Add(1)
		return reprise.Page{}, fmt.Errorf("injected: %w", reprise.ErrUnavailable)
	}
	return d.Store.Read(ctx, key, after, maxBytes)
}

// TestOutputSurvivesLongStoreOutage: while the store is unavailable, output waits in bounded memory and the command's
// pipe is not read. When the store is back, all output is stored once and in order.
func TestOutputSurvivesLongStoreOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &down{Store: memstore.New(nil)}
		log, err := reprise.Open(t.Context(), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(log.Close(), store.Close()); err != nil {
				t.Error(err)
			}
		}()
		var stalled time.Duration
		h, err := Open(t.Context(), log, &Options{DisableCgroups: true, Dir: "/", Hooks: &Hooks{
			Stalled: func(_ reprise.Tenant, d time.Duration) { stalled += d },
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		r := newRun(h, keyOf(reprise.DefaultTenant, "x"), "x", Request{Command: "x"}, nil)
		stream, _, err := log.Create(t.Context(), r.key, reprise.StreamConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r.writeTo(stream)
		const chunks, size = 1000, 10_000
		chunk := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, size) }
		s := newSpool()
		var fed atomic.Int64
		go func() { // as a pump does
			for i := range chunks {
				s.add(Stdout, reprise.FormatBytes, chunk(i))
				fed.Add(1)
				if i == 100 {
					store.down.Store(true)
				}
			}
			s.close()
		}()
		written := make(chan error, 1)
		go func() { written <- r.write(s) }()
		const away, longestPause = 5 * time.Hour, time.Second // of a reprise.Appender
		time.Sleep(away)
		if read := fed.Load() * size; read < spoolBytes || read > 2*spoolBytes+3*size+100*size {
			t.Errorf("%d bytes were read from the command while the store was away", read)
		}
		if tries := store.tries.Load(); tries < int64(away/longestPause) || tries > 3*int64(away/longestPause) {
			t.Errorf("it was tried %d times", tries)
		}
		waiting := func() time.Time {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.waitingSince()
		}
		if since := waiting(); !since.IsZero() {
			t.Errorf("while the store cannot be reached, output waits for storage since %v", since)
		}
		store.full.Store(true)
		time.Sleep(time.Minute)
		if since := time.Since(waiting()); since <= time.Minute-2*longestPause || since > time.Minute {
			t.Errorf("a minute after the disk was full, output waits for storage since %v", since)
		}
		store.down.Store(false)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		r.end(ending{})
		if since := waiting(); !since.IsZero() {
			t.Errorf("after the end, output waits for storage since %v", since)
		}
		if stalled < away/2 {
			t.Errorf("a stall of %s was told", stalled)
		}
		checkKept(t, r.stream, chunks, chunk)
	})
}

// checkKept reads a stream to its end, which must hold the chunks.
func checkKept(t *testing.T, s *reprise.Stream, chunks int, chunk func(int) []byte) {
	t.Helper()
	reader, err := s.Reader(t.Context(), reprise.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var got bytes.Buffer
	for {
		run, err := reader.Next(t.Context())
		if errors.Is(err, reprise.ErrEnded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for e := range run.All() {
			if e.Type == Stdout {
				got.Write(e.Data)
			}
		}
	}
	for i := range chunks {
		if want := chunk(i); !bytes.Equal(got.Next(len(want)), want) {
			t.Fatalf("chunk %d is not what was written", i)
		}
	}
	if got.Len() != 0 {
		t.Errorf("%d bytes too many", got.Len())
	}
}
