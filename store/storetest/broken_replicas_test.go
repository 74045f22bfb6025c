package storetest

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
)

// brokenReplicas break what is said of Stores that replicas share.
var brokenReplicas = []brokenStore{
	{"nobody is told", "watch/changes", func(b *broken) {
		b.watch = func(reprise.StreamKey, func()) (func(), error) { return func() {}, nil }
	}},
	{"others are told once", "watch/changes", func(b *broken) {
		b.watch = telling(b, func(_ reprise.StreamKey, moved func()) func() {
			var once sync.Once
			return func() { once.Do(moved) }
		})
	}},
	{"a removal is not told", "watch/changes", func(b *broken) { b.watch = quietAbout(b, reprise.ErrNotFound) }},
	{"a sweep is not told", "watch/swept", func(b *broken) { b.watch = quietAbout(b, reprise.ErrExpired) }},
	{"a watch ends with the stream", "watch/removed and made again", func(b *broken) {
		b.watch = telling(b, func(k reprise.StreamKey, moved func()) func() {
			var gone atomic.Bool
			return func() {
				if !gone.Load() {
					moved()
				}
				if _, err := b.session.Read(context.Background(), k, 0, 0); err != nil {
					gone.Store(true)
				}
			}
		})
	}},
	{"what happens before the connection is up is missed", "watch/follow", func(b *broken) {
		b.watch = telling(b, func(_ reprise.StreamKey, moved func()) func() {
			var missed atomic.Int64
			return func() {
				if missed.Add(1) > 12 { // appends of watch/follow to a stream
					moved()
				}
			}
		})
	}},
	{"what was missed is not made up for", "watch/deafened", func(b *broken) {
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			return b.session.Store.Watch(k, func() {
				if !b.session.deaf.Load() {
					moved()
				}
			})
		}
	}},
	{"stop stops nothing", "watch/stop", func(b *broken) {
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			_, err := b.session.Watch(k, moved)
			return func() {}, err
		}
	}},
	{"stop stops all who watch the stream", "watch/stop", func(b *broken) {
		var mu sync.Mutex
		stopped := map[reprise.StreamKey]int{}
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			mu.Lock()
			defer mu.Unlock()
			round := stopped[k]
			stop, err := b.session.Watch(k, func() {
				mu.Lock()
				defer mu.Unlock()
				if stopped[k] == round {
					moved()
				}
			})
			return func() {
				mu.Lock()
				defer mu.Unlock()
				stopped[k]++
				stop()
			}, err
		}
	}},
	{"watch waits for the server", "watch/at once", func(b *broken) {
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			<-time.After(6 * time.Millisecond)
			return b.session.Watch(k, moved)
		}
	}},
	{"a goroutine for each watch", "watch/many", func(b *broken) {
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			done := make(chan struct{})
			go func() { <-done }()
			stop, err := b.session.Watch(k, moved)
			return func() { stop(); close(done) }, err
		}
	}},
	{"a closed Store is watched", "watch/closed", func(b *broken) {
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			stop, _ := b.session.Watch(k, moved)
			return stop, nil
		}
	}},
	{"watches outlive the Store", "watch/goroutines", func(b *broken) {
		b.watch = func(k reprise.StreamKey, moved func()) (func(), error) {
			go func() { select {} }()
			return b.session.Watch(k, moved)
		}
	}},
	{"what was read is kept for a while", "share/one view", func(b *broken) {
		var mu sync.Mutex
		known := map[reprise.StreamKey]reprise.StreamInfo{}
		b.read = edited(b, func(page *reprise.Page, _ uint64) {
			mu.Lock()
			defer mu.Unlock()
			if info, ok := known[page.Info.Key]; ok && info.Epoch == page.Info.Epoch {
				page.Info.Earliest = info.Earliest
				return
			}
			known[page.Info.Key] = page.Info
		})
	}},
	{"one replica takes no notice of the other's tail", "share/append", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			page, _ := b.session.Read(ctx, reqs[0].Key, 0, 0)
			if page.Info.Tail+1 != reqs[0].First {
				return []error{reprise.ErrConflict}
			}
			runtime.Gosched()
			b.session.Append(ctx, reqs)
			return nil
		}
	}},
	{"two replicas take a stream over", "share/take over", takeOverTwice},
	{"two replicas create", "share/create", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			if page, err := b.session.Read(ctx, info.Key, 0, 0); err == nil {
				return page.Info, nil
			}
			runtime.Gosched()
			_, err := b.session.Create(ctx, info)
			info.Earliest = 1
			return info, err
		}
	}},
	{"two replicas sweep", "share/sweep", func(b *broken) {
		b.sweep = func(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
			page, err := b.session.List(ctx, everything)
			due := slices.DeleteFunc(page.Streams,
				func(i reprise.StreamInfo) bool { return i.End == nil || i.End.Expires.After(now) })
			due = due[:min(limit, len(due))]
			runtime.Gosched()
			for i := range due {
				err = errors.Join(err, b.session.Remove(ctx, due[i].Key, reprise.RemoveSpec{Remember: remember}))
			}
			return due, err
		}
	}},
	{"list counts off, and others create", "share/list", func(b *broken) { b.list = counting(b) }},
	{"list goes by names", "share/list order", func(b *broken) {
		b.list = func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
			page, err := b.session.List(ctx, q)
			slices.SortFunc(page.Streams,
				func(a, b reprise.StreamInfo) int { return cmp.Compare(a.Key.Name, b.Key.Name) })
			return page, err
		}
	}},
	{"sizes are counted once", "share/sizes", func(b *broken) {
		sizes, err := b.session.Sizes(context.Background())
		b.sizes = func(context.Context) (map[reprise.Tenant]reprise.Size, error) { return sizes, err }
	}},
	{"the first to leave clears up", "share/close", func(b *broken) {
		b.close = func() error {
			page, err := b.session.List(context.Background(), everything)
			for _, info := range page.Streams {
				err = errors.Join(err, b.session.Remove(context.Background(), info.Key, reprise.RemoveSpec{}))
			}
			if errors.Is(err, reprise.ErrClosed) {
				return nil
			}
			return errors.Join(err, b.session.Close())
		}
	}},
}

// telling watches with what wrap makes of moved.
func telling(b *broken, wrap func(reprise.StreamKey, func()) func()) func(reprise.StreamKey, func()) (func(), error) {
	return func(k reprise.StreamKey, moved func()) (func(), error) {
		return b.session.Watch(k, wrap(k, moved))
	}
}

// quietAbout tells nothing while a read gets the error why.
func quietAbout(b *broken, why error) func(reprise.StreamKey, func()) (func(), error) {
	return telling(b, func(k reprise.StreamKey, moved func()) func() {
		return func() {
			if _, err := b.session.Read(context.Background(), k, 0, 0); !errors.Is(err, why) {
				moved()
			}
		}
	})
}

// A Store around another one may have methods for what the one inside cannot do.
func TestSuiteAcceptsUnsupportedAbilities(t *testing.T) {
	h := openBroken(t, func(b *broken) {
		b.watch = func(reprise.StreamKey, func()) (func(), error) { return nil, errors.ErrUnsupported }
		b.sweep = func(context.Context, time.Time, time.Time, int) ([]reprise.StreamInfo, error) {
			return nil, errors.ErrUnsupported
		}
		b.sizes = func(context.Context) (map[reprise.Tenant]reprise.Size, error) { return nil, errors.ErrUnsupported }
		b.fill = func(context.Context, reprise.StreamInfo, reprise.AppendRequest) (reprise.StreamInfo, error) {
			return reprise.StreamInfo{}, errors.ErrUnsupported
		}
	})
	h.Share, h.Deafen, h.Cut, h.Lose = nil, nil, nil, nil
	able, err := abilitiesOf(h)
	if want := persists | faults; err != nil || able != want {
		t.Errorf("abilities %b, want %b, %v", able, want, err)
	}
	if err := find(t, "context/cancelled before").try(t.Context(), h, (*Options)(nil).withDefaults()); err != nil {
		t.Error(err)
	}
}

// A Watcher that cannot be shared would be checked by halves.
func TestWatcherIsShared(t *testing.T) {
	h := openPlace(t)
	h.Share = nil
	if _, err := abilitiesOf(h); err == nil {
		t.Error("a Watcher without Harness.Share is taken")
	}
}
