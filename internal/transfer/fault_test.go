package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/transfer"
	"reprise/store/memstore"
)

// flaky is a Store of a server whose connection breaks now and then: before a call, or after it, so
// that it is not known what was done. With a rate of 1 it is down.
type flaky struct {
	reprise.Store
	mu   sync.Mutex
	rnd  *rand.Rand
	rate float64
}

var errBroken = fmt.Errorf("%w: the connection broke", reprise.ErrUnavailable)

// breaks reports whether a connection breaks now.
func (f *flaky) breaks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.Float64() < f.rate
}

func (f *flaky) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if f.breaks() {
		return reprise.StreamInfo{}, errBroken
	}
	made, err := f.Store.Create(ctx, info)
	if f.breaks() {
		return reprise.StreamInfo{}, errBroken
	}
	return made, err
}

func (f *flaky) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	errs := make([]error, len(reqs))
	if !f.breaks() {
		copy(errs, f.Store.Append(ctx, reqs))
		if !f.breaks() {
			return errs
		}
	}
	for i := range errs {
		errs[i] = errBroken
	}
	return errs
}

func (f *flaky) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if f.breaks() {
		return reprise.Page{}, errBroken
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

func (f *flaky) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if f.breaks() {
		return errBroken
	}
	return f.Store.Remove(ctx, key, spec)
}

// TestConnectionsThatBreak copies between stores whose connections break all the time, and runs the copy again
// until it has come through. Nothing is lost or there twice.
func TestConnectionsThatBreak(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := memstore.New(nil), memstore.New(nil)
				fill(t, from)
				rnd := rand.New(rand.NewPCG(seed, 1))
				bad := func(s reprise.Store) *flaky {
					return &flaky{Store: s, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 1)), rate: 0.05}
				}
				runs := 0
				for {
					runs++
					_, err := transfer.Copy(t.Context(), bad(from), bad(to),
						&transfer.Options{PageBytes: 500, Parallel: 3})
					if err == nil {
						break
					}
					if !errors.Is(err, reprise.ErrUnavailable) {
						t.Fatal(err)
					}
				}
				wantSame(t, from, to)
			})
		})
	}
}

// TestStoreThatIsDown: a copy gives up in bounded time, and leaves nothing running.
func TestStoreThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := memstore.New(nil), memstore.New(nil)
		fill(t, from)
		started := time.Now()
		_, err := transfer.Copy(t.Context(), from, &flaky{Store: to, rnd: rand.New(rand.NewPCG(1, 1)), rate: 1}, nil)
		if !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
		if took := time.Since(started); took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestCopyWhileOthersAppend copies again and again while writers append to streams that keep only their newest
// events, and once more when they have stopped.
func TestCopyWhileOthersAppend(t *testing.T) {
	from, to := memory(t), sqlite(t)
	log := openLog(t, from)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var pause atomic.Int64
	pause.Store(int64(2 * time.Millisecond))
	for i := range 4 {
		s := create(t, log, key(fmt.Sprint("s", i)), reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 300}},
			nobody)
		writers.Go(func() {
			for n := uint64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				producer := &reprise.ProducerID{ID: fmt.Sprint("p", n%3), Seq: n / 3}
				if _, err := s.AppendWith(context.Background(), reprise.AppendOptions{Producer: producer},
					reprise.Event{Data: make([]byte, 50)}, reprise.Event{}); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(pause.Load()))
			}
		})
	}
	caughtUp := 0
	for range 50 {
		time.Sleep(20 * time.Millisecond) // the windows are to move on
		// On a busy machine a stream may move faster than it is copied, and that is told.
		if _, err := transfer.Copy(t.Context(), from, to, &transfer.Options{PageBytes: 2000}); err == nil {
			caughtUp++
		} else if caughtUp == 0 {
			pause.Store(min(pause.Load()*5/4, int64(time.Second)))
		}
	}
	if caughtUp == 0 {
		t.Error("no copy has caught up")
	}
	close(stop)
	writers.Wait()
	copyAll(t, from, to)
	wantSame(t, from, to)
	if all, _ := problems(t, to, nil); len(all) > 0 {
		t.Errorf("%q", all)
	}
}
