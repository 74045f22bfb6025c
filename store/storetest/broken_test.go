package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
)

// broken is a good Store of which some methods are replaced.
type broken struct {
	*session
	create func(context.Context, reprise.StreamInfo) (reprise.StreamInfo, error)
	fill   func(context.Context, reprise.StreamInfo, reprise.AppendRequest) (reprise.StreamInfo, error)
	append func(context.Context, []reprise.AppendRequest) []error
	read   func(context.Context, reprise.StreamKey, uint64, int) (reprise.Page, error)
	list   func(context.Context, reprise.ListQuery) (reprise.ListPage, error)
	remove func(context.Context, reprise.StreamKey, reprise.RemoveSpec) error
	sweep  func(context.Context, time.Time, time.Time, int) ([]reprise.StreamInfo, error)
	sizes  func(context.Context) (map[reprise.Tenant]reprise.Size, error)
	watch  func(reprise.StreamKey, func()) (func(), error)
	close  func() error
}

func (b *broken) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return b.create(ctx, info)
}

func (b *broken) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return b.fill(ctx, info, first)
}

func (b *broken) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	return b.append(ctx, reqs)
}

func (b *broken) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	return b.read(ctx, key, after, maxBytes)
}

func (b *broken) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	return b.list(ctx, q)
}

func (b *broken) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	return b.remove(ctx, key, spec)
}

func (b *broken) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	return b.sweep(ctx, now, remember, limit)
}

func (b *broken) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	return b.sizes(ctx)
}

func (b *broken) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	return b.watch(key, moved)
}

func (b *broken) Close() error { return b.close() }

// TestBrokenStores holds the suite against Stores that each break one rule, and
// wants the check named to find it.
func TestBrokenStores(t *testing.T) {
	for _, tt := range slices.Concat(brokenStores, brokenFilled, brokenOwners, brokenReplicas, brokenLineages,
		brokenConfigured) {
		t.Run(tt.name, func(t *testing.T) {
			c := find(t, tt.caught)
			o := (&Options{Events: 200_000, Streams: 1000, patience: 300 * time.Millisecond}).withDefaults()
			const tries = 30 // what shows by who is scheduled first may not show on a busy machine
			for range tries {
				if err := c.try(t.Context(), openBroken(t, tt.breaks), o); err != nil {
					t.Log(err)
					return
				}
			}
			t.Errorf("%s did not find it", tt.caught)
		})
	}
}

// openBroken is openPlace with Stores that breaks has changed.
func openBroken(t *testing.T, breaks func(b *broken)) Harness {
	p := openPlace(t)
	open := p.Open
	p.Open = func() (reprise.Store, error) {
		store, err := open()
		good := store.(*session)
		b := &broken{
			session: good, create: good.Create, append: good.Append, read: good.Read, list: good.List,
			remove: good.Remove, sweep: good.Sweep, sizes: good.Sizes, watch: good.Watch, close: good.Close,
			fill: good.CreateAppend,
		}
		breaks(b)
		return b, err
	}
	p.Share = p.Open
	return p
}

// find returns the check group/name.
func find(t *testing.T, name string) check {
	t.Helper()
	for _, g := range suite() {
		for _, c := range g.checks {
			if g.name+"/"+c.name == name {
				return c
			}
		}
	}
	t.Fatalf("no check is called %s", name)
	return check{}
}

// brokenStore breaks one rule.
type brokenStore struct {
	name   string
	caught string // by the check
	breaks func(b *broken)
}

var brokenStores = []brokenStore{
	{"drops the last batch of a page", "close/under way", func(b *broken) {
		good := b.read
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, n int) (reprise.Page, error) {
			page, err := good(ctx, key, after, n)
			page.Batches = page.Batches[:max(len(page.Batches)-1, 0)]
			return page, err
		}
	}},
	{"create answers with what it was given", "create/same", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			_, err := b.session.Create(ctx, info)
			info.Earliest = 1
			return info, err
		}
	}},
	{"create compares no configuration", "create/conflict", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			got, err := b.session.Create(ctx, info)
			if errors.Is(err, reprise.ErrConflict) {
				page, err := b.session.Read(ctx, info.Key, 0, 0)
				return page.Info, err
			}
			return got, err
		}
	}},
	{"create looks first and creates then", "create/concurrent", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			if page, err := b.session.Read(ctx, info.Key, 0, 0); err == nil {
				return page.Info, nil
			}
			runtime.Gosched()
			if err := b.session.Remove(ctx, info.Key, reprise.RemoveSpec{}); err != nil {
				return reprise.StreamInfo{}, err
			}
			return b.session.Create(ctx, info)
		}
	}},
	{"create minds the marks of expired streams", "create/expired", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			if _, err := b.session.Read(ctx, info.Key, 0, 0); errors.Is(err, reprise.ErrExpired) {
				return reprise.StreamInfo{}, err
			}
			return b.session.Create(ctx, info)
		}
	}},
	{"append minds no seq", "append/refused", func(b *broken) {
		b.append = eachAlone(b, func(ctx context.Context, req *reprise.AppendRequest) {
			page, _ := b.session.Read(ctx, req.Key, 0, 0)
			req.First = page.Info.Tail + 1
		})
	}},
	{"append minds no epoch", "append/refused", func(b *broken) {
		b.append = eachAlone(b, func(ctx context.Context, req *reprise.AppendRequest) {
			page, _ := b.session.Read(ctx, req.Key, 0, 0)
			req.Epoch = page.Info.Epoch
		})
	}},
	{"append looks first and appends then", "append/contested", func(b *broken) {
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
	{"append refuses all for one", "append/some refused", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			errs := b.session.Append(ctx, reqs)
			if errs != nil {
				return slices.Repeat([]error{errors.Join(errs...)}, len(reqs))
			}
			return nil
		}
	}},
	{"append answers with errors that are nil", "append/batches", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			if errs := b.session.Append(ctx, reqs); errs != nil {
				return errs
			}
			return make([]error, len(reqs))
		}
	}},
	{"append loses the last of many", "append/many streams", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			return b.session.Append(ctx, reqs[:min(len(reqs), 100)])
		}
	}},
	{"append writes behind the bytes", "append/bytes unchanged", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			for _, req := range reqs {
				_ = append(req.Bytes, 0xff)
			}
			return b.session.Append(ctx, reqs)
		}
	}},
	{"append uses the bytes as its own", "append/bytes unchanged", func(b *broken) {
		b.append = eachAlone(b, func(_ context.Context, req *reprise.AppendRequest) {
			given := req.Bytes
			req.Bytes = slices.Clone(given)
			clear(given)
		})
	}},
	{"append keeps 64 KiB of a batch", "append/bytes", func(b *broken) {
		b.append = eachAlone(b, func(_ context.Context, req *reprise.AppendRequest) {
			req.Bytes = req.Bytes[:min(len(req.Bytes), 64<<10)]
		})
	}},
	{"append counts what is no longer kept", "append/earliest", func(b *broken) {
		b.append = eachAlone(b, func(_ context.Context, req *reprise.AppendRequest) { req.Earliest = 1 })
	}},
	{"append forgets the end's data", "end/kept", func(b *broken) {
		b.append = eachAlone(b, func(_ context.Context, req *reprise.AppendRequest) {
			if req.End != nil {
				end := *req.End
				end.Data = nil
				req.End = &end
			}
		})
	}},
	{"append forgets producers", "producers/kept", func(b *broken) {
		b.append = eachAlone(b, func(_ context.Context, req *reprise.AppendRequest) { req.Producers = nil })
	}},
	{"producers are signed", "producers/values", func(b *broken) {
		b.append = eachAlone(b, func(_ context.Context, req *reprise.AppendRequest) {
			for i := range req.Producers {
				req.Producers[i].Seq &= 1<<63 - 1
			}
		})
	}},
	{"read leaves out the batch that begins before", "read/positions", func(b *broken) {
		b.read = edited(b, func(page *reprise.Page, after uint64) {
			if len(page.Batches) > 0 && page.Batches[0].First < after+1 {
				page.Batches = page.Batches[1:]
			}
		})
	}},
	{"read gives what was trimmed", "read/positions", func(b *broken) {
		b.remove = func(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
			if spec.Trim != 0 {
				return nil
			}
			return b.session.Remove(ctx, key, spec)
		}
	}},
	{"read minds no limit", "read/max bytes", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			return b.session.Read(ctx, key, after, max(maxBytes, 1)<<10)
		}
	}},
	{"read stops before the limit", "read/max bytes", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			page, err := b.session.Read(ctx, key, after, maxBytes)
			for i, room := 0, maxBytes; i < len(page.Batches); i++ {
				if room -= len(page.Batches[i].Bytes); room < 0 {
					page.Batches = page.Batches[:i]
				}
			}
			return page, err
		}
	}},
	{"read refuses what is beyond the tail", "read/beyond the tail", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			page, err := b.session.Read(ctx, key, after, maxBytes)
			if err == nil && after > page.Info.Tail {
				err = reprise.ErrInvalid
			}
			return page, err
		}
	}},
	{"read puts batches together", "read/batches as appended", func(b *broken) {
		b.read = edited(b, func(page *reprise.Page, _ uint64) {
			for len(page.Batches) > 1 {
				first, second := &page.Batches[0], page.Batches[1]
				first.Count += second.Count
				first.Bytes = slices.Concat(first.Bytes, second.Bytes)
				page.Batches = slices.Delete(page.Batches, 1, 2)
			}
		})
	}},
	{"read has one buffer", "read/kept pages", func(b *broken) {
		var buffer []byte
		b.read = edited(b, func(page *reprise.Page, _ uint64) {
			buffer = buffer[:0]
			for i := range page.Batches {
				from := len(buffer)
				buffer = append(buffer, page.Batches[i].Bytes...)
				page.Batches[i].Bytes = buffer[from:]
			}
		})
	}},
	{"read looks twice", "read/while it changes", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			info, err := b.session.Read(ctx, key, after, 0)
			if err != nil {
				return info, err
			}
			for range 10_000 { // until something has changed, so that the fault shows
				now, err := b.session.Read(ctx, key, after, 0)
				if err != nil || now.Info.Tail != info.Info.Tail {
					break
				}
				runtime.Gosched()
			}
			page, err := b.session.Read(ctx, key, after, maxBytes)
			page.Info = info.Info
			return page, err
		}
	}},
	{"read goes through all batches", "scale/long stream", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			var found reprise.Page
			for from := uint64(0); ; {
				page, err := b.session.Read(ctx, key, from, 1)
				if err != nil || len(page.Batches) == 0 || page.Batches[0].Last() > after {
					break
				}
				from = page.Batches[0].Last()
			}
			found, err := b.session.Read(ctx, key, after, maxBytes)
			return found, err
		}
	}},
	{"list takes no label for those that another has", "list/with conditions", func(b *broken) {
		b.list = func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
			page, err := b.session.List(ctx, q)
			if q.Labels != nil {
				page.Streams = slices.DeleteFunc(page.Streams, func(info reprise.StreamInfo) bool {
					return info.Config.Labels["half"] == "0"
				})
			}
			return page, err
		}
	}},
	{"list shows the oldest first", "list/newest first", func(b *broken) {
		b.list = func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
			page, err := b.session.List(ctx, q)
			slices.Reverse(page.Streams)
			return page, err
		}
	}},
	{"list counts off", "list/removed while paging", func(b *broken) { b.list = counting(b) }},
	{"list begins anew after nonsense", "list/after nothing", func(b *broken) {
		b.list = func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
			page, err := b.session.List(ctx, q)
			if errors.Is(err, reprise.ErrInvalid) {
				q.After = ""
				return b.session.List(ctx, q)
			}
			return page, err
		}
	}},
	{"list takes a namespace for a prefix", "list/namespaces", func(b *broken) {
		b.list = func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
			prefix := q.Namespace
			q.AllNamespaces = true
			page, err := b.session.List(ctx, q)
			page.Streams = slices.DeleteFunc(page.Streams, func(i reprise.StreamInfo) bool {
				return !strings.HasPrefix(i.Key.Name, prefix)
			})
			return page, err
		}
	}},
	{"names are folded", "names/streams", func(b *broken) {
		b.create = func(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
			info.Key.Name = strings.ToLower(info.Key.Name)
			return b.session.Create(ctx, info)
		}
	}},
	{"trim refuses to be repeated", "remove/trim less", func(b *broken) {
		b.remove = func(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
			if page, err := b.session.Read(ctx, key, 0, 0); err == nil && spec.Trim != 0 &&
				spec.Trim <= page.Info.Earliest {
				return reprise.ErrInvalid
			}
			return b.session.Remove(ctx, key, spec)
		}
	}},
	{"remove wants something to remove", "remove/again", func(b *broken) {
		b.remove = func(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
			if _, err := b.session.Read(ctx, key, 0, 0); err != nil {
				return err
			}
			return b.session.Remove(ctx, key, spec)
		}
	}},
	{"remove minds no epoch", "remove/epoch", func(b *broken) {
		b.remove = func(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
			spec.Epoch = ""
			return b.session.Remove(ctx, key, spec)
		}
	}},
	{"remove leaves no mark", "remove/remember", func(b *broken) {
		b.remove = func(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
			spec.Remember = time.Time{}
			return b.session.Remove(ctx, key, spec)
		}
	}},
	{"marks last too long", "sweep/marks", func(b *broken) {
		b.sweep = func(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
			return b.session.Sweep(ctx, now, time.UnixMilli(remember.UnixMilli()/1000*1000-1000), limit)
		}
	}},
	{"sweep leaves what is just due", "sweep/due", func(b *broken) {
		b.sweep = func(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
			return b.session.Sweep(ctx, now.Add(-time.Millisecond), remember, limit)
		}
	}},
	{"sweep minds no limit", "sweep/limit", func(b *broken) {
		b.sweep = func(ctx context.Context, now, remember time.Time, _ int) ([]reprise.StreamInfo, error) {
			return b.session.Sweep(ctx, now, remember, 1000)
		}
	}},
	{"sizes count streams alone", "sizes/counted", func(b *broken) {
		b.sizes = func(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
			sizes, err := b.session.Sizes(ctx)
			for t, size := range sizes {
				sizes[t] = reprise.Size{Streams: size.Streams}
			}
			return sizes, err
		}
	}},
	{"cancelled contexts give no cause", "context/cancelled before", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			if err := ctx.Err(); err != nil {
				return reprise.Page{}, err
			}
			return b.session.Read(ctx, key, after, maxBytes)
		}
	}},
	{"close closes nothing", "close/closed", func(b *broken) { b.close = func() error { return nil } }},
	{"close minds being repeated", "close/again", func(b *broken) {
		closed := false
		b.close = func() error {
			if closed {
				return reprise.ErrClosed
			}
			closed = true
			return b.session.Close()
		}
	}},
	{"goroutines are left", "close/goroutines", func(*broken) { go func() { select {} }() }},
	{"what was acknowledged last is lost", "crash/acknowledged", func(b *broken) { buffer(b) }},
	{"a fault is for ever", "crash/fault", func(b *broken) {
		failed := false
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			if failed {
				return slices.Repeat([]error{reprise.ErrUnavailable}, len(reqs))
			}
			errs := b.session.Append(ctx, reqs)
			failed = errs != nil
			return errs
		}
	}},
	{"a driver's error leaves the Store", "crash/fault", func(b *broken) {
		b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
			errs := b.session.Append(ctx, reqs)
			if errs != nil {
				return slices.Repeat([]error{fmt.Errorf("%w: %w", reprise.ErrUnavailable, io.EOF)}, len(reqs))
			}
			return nil
		}
	}},
	{"a driver's error leaves the Store when a connection is cut", "border/cut under way", func(b *broken) {
		b.read = func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
			if b.session.cut.Swap(false) {
				return reprise.Page{}, fmt.Errorf("%w: %w", reprise.ErrUnavailable, io.EOF)
			}
			return b.session.Read(ctx, key, after, maxBytes)
		}
	}},
}

// eachAlone appends the requests one by one, changed by edit.
func eachAlone(
	b *broken, edit func(context.Context, *reprise.AppendRequest),
) func(context.Context, []reprise.AppendRequest) []error {
	return func(ctx context.Context, reqs []reprise.AppendRequest) []error {
		reqs = slices.Clone(reqs)
		for i := range reqs {
			edit(ctx, &reqs[i])
		}
		return b.session.Append(ctx, reqs)
	}
}

// edited reads pages changed by edit.
func edited(
	b *broken, edit func(*reprise.Page, uint64),
) func(context.Context, reprise.StreamKey, uint64, int) (reprise.Page, error) {
	return func(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
		page, err := b.session.Read(ctx, key, after, maxBytes)
		edit(&page, after)
		return page, err
	}
}

// counting lists by the number of streams that came before.
func counting(b *broken) func(context.Context, reprise.ListQuery) (reprise.ListPage, error) {
	return func(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
		skip, _ := strconv.Atoi(q.After)
		limit := q.Limit
		q.After, q.Limit = "", 1000
		page, err := b.session.List(ctx, q)
		page.Streams = page.Streams[min(skip, len(page.Streams)):]
		if len(page.Streams) > limit {
			page.Streams, page.Next = page.Streams[:limit], strconv.Itoa(skip+limit)
		}
		return page, err
	}
}

// buffer acknowledges an append of a stream when the next one comes.
func buffer(b *broken) {
	var mu sync.Mutex
	held := map[reprise.StreamKey][]reprise.AppendRequest{}
	b.append = func(ctx context.Context, reqs []reprise.AppendRequest) []error {
		mu.Lock()
		defer mu.Unlock()
		k := reqs[0].Key
		if before := held[k]; before != nil {
			if errs := b.session.Append(ctx, before); errs != nil {
				return errs
			}
		}
		held[k] = slices.Clone(reqs)
		return nil
	}
}
