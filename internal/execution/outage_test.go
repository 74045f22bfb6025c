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
	"reprise/internal/execution/command"
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

// TestOutputSurvivesLongStoreOutage: while the store is unavailable, output waits and no more of it is taken. When the
// store is back, all output is stored once and in order.
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
		h, err := Open(t.Context(), log, &Options{DisableCgroups: true, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		r := newRun(h, keyOf(reprise.DefaultTenant, "x"), Request{Command: "x"}, nil)
		stream, _, err := log.Create(t.Context(), r.key, reprise.StreamConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r.writeAs(stream, producerID)
		const chunks, size = 1000, 10_000
		chunk := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, size) }
		var fed atomic.Int64
		written := make(chan error, 1)
		go func() { // as a job does with what its pumps have read
			for i := range chunks {
				if i == 100 {
					store.down.Store(true)
				}
				fed.Add(1)
				err := r.write([]command.Chunk{{Time: time.Now(), Kind: command.Stdout, Data: chunk(i)}})
				if err != nil {
					written <- err
					return
				}
			}
			written <- nil
		}()
		const away, longestPause = 5 * time.Hour, time.Second // of a reprise.Appender
		time.Sleep(away)
		if n := fed.Load(); n != 101 {
			t.Errorf("%d chunks were taken while the store was away", n)
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
		r.end(command.Ending{})
		if since := waiting(); !since.IsZero() {
			t.Errorf("after the end, output waits for storage since %v", since)
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
