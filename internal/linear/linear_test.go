package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/logstore"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(replicaEnv); url != "" {
		if err := serveReplica(url, os.Getenv(replicaEnv+"_KEYS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// stores are the stores over which histories are recorded.
var stores = map[string]func(t *testing.T) reprise.Store{
	"memory": func(*testing.T) reprise.Store { return memstore.New(nil) },
	"slow":   func(*testing.T) reprise.Store { return slow{memstore.New(nil)} },
	"sqlite": func(t *testing.T) reprise.Store {
		store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return store
	},
	"log": func(t *testing.T) reprise.Store {
		store, err := logstore.Open(t.Context(), filepath.Join(t.TempDir(), "log"), &logstore.Options{SegmentBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		return store
	},
}

// slow is a Store that returns with a delay, like one over a network, so that others see the stream in between.
type slow struct{ *memstore.Store }

func (s slow) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	defer pause()
	return s.Store.Append(ctx, reqs)
}

func (s slow) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	defer pause()
	return s.Store.Remove(ctx, key, spec)
}

func pause() {
	for range 50 {
		runtime.Gosched()
	}
}

const (
	rounds  = 20
	streams = 2 // concurrent
	window  = 12
	calls   = 14 // per caller
)

// TestLinearizableHistoriesOfOneLog records histories of callers who append, trim, end, read and show, and checks them
// with porcupine. The Log keeps almost nothing in memory, so that reads go to the store and streams are evicted all the
// time.
func TestLinearizableHistoriesOfOneLog(t *testing.T) {
	for name, open := range stores {
		for _, opts := range []struct {
			name string
			reprise.Options
		}{
			{"hot", reprise.Options{}},
			{"cold", reprise.Options{TailBytes: 1, TailTotalBytes: 1, MaxStreams: 1}},
		} {
			t.Run(name+"/"+opts.name, func(t *testing.T) {
				store := open(t)
				defer store.Close()
				log, err := reprise.Open(t.Context(), store, &opts.Options)
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
				for round := range uint64(rounds) {
					var wg sync.WaitGroup
					for i := range uint64(streams) {
						wg.Go(func() { record(t, []*reprise.Log{log}, round*streams+i).check(t) })
					}
					wg.Wait()
				}
			})
		}
	}
}

// TestReplicasAreLinearizable records the same histories with the callers spread over two replicas of one Log.
func TestReplicasAreLinearizable(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			hub := shared.New(open(t))
			var logs []*reprise.Log
			keys := reprise.NewKeyset()
			for _, opts := range []reprise.Options{
				{Keys: keys},
				{Keys: keys, TailBytes: 1, TailTotalBytes: 1, MaxStreams: 1},
			} {
				store := hub.Store()
				defer store.Close()
				log, err := reprise.Open(t.Context(), store, &opts)
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
				logs = append(logs, log)
			}
			for round := range uint64(rounds) {
				var wg sync.WaitGroup
				for i := range uint64(streams) {
					wg.Go(func() { record(t, logs, round*streams+i).check(t) })
				}
				wg.Wait()
			}
		})
	}
}

// history is the calls and results of one stream.
type history struct {
	seed    uint64
	handles []*reprise.Stream // one per replica
	start   time.Time
	nextID  atomic.Int64
	tail    atomic.Uint64 // highest one seen, for choosing positions

	mu  sync.Mutex
	ops []porcupine.Operation
}

// record runs callers on a new stream, each on one of the replicas.
func record(t *testing.T, logs []*reprise.Log, seed uint64) *history {
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s/" + strconv.FormatUint(seed, 10)}
	h := &history{seed: seed, start: time.Now()}
	for _, log := range logs {
		s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: window}})
		if err != nil {
			t.Error(err)
			return &history{}
		}
		h.handles = append(h.handles, s)
	}
	callers := []func(context.Context, *reprise.Stream, *rand.Rand, int) (input, output){
		h.append, h.append, h.produce, h.produce, h.trim, h.poll, h.poll, h.info,
	}
	var wg sync.WaitGroup
	for i, call := range callers {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for n := range calls {
				begin := time.Since(h.start)
				in, out := call(t.Context(), h.handles[(i+n)%len(h.handles)], rnd, n)
				h.add(i, begin, in, out)
			}
		})
	}
	wg.Wait()
	return h
}

func (h *history) add(caller int, begin time.Duration, in input, out output) {
	end := time.Since(h.start)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: caller, Input: in, Call: begin.Nanoseconds(), Output: out, Return: end.Nanoseconds(),
	})
}

func (h *history) check(t *testing.T) {
	m := model(window)
	result, info := porcupine.CheckOperationsVerbose(m, h.ops, 20*time.Second)
	if result == porcupine.Ok {
		return
	}
	t.Errorf("seed %d: the history is %v", h.seed, result)
	for _, partial := range info.PartialLinearizationsOperations() {
		longest := partial[0]
		for _, p := range partial {
			if len(p) > len(longest) {
				longest = p
			}
		}
		explained := map[int64]bool{}
		for _, op := range longest {
			explained[op.Call] = true
		}
		slices.SortFunc(h.ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
		for _, op := range h.ops {
			note := "not explained"
			if explained[op.Call] {
				note = "explained"
			}
			t.Logf("%s: %d to %d ns, caller %d: %s", note, op.Call, op.Return, op.ClientId,
				m.DescribeOperation(op.Input, op.Output))
		}
	}
}

func (h *history) event(id int) reprise.Event {
	return reprise.Event{Data: strconv.AppendInt(nil, int64(id), 10)}
}

func (h *history) newID() int { return int(h.nextID.Add(1)) }

// append appends one or two events. The last call of all callers may end the stream.
func (h *history) append(ctx context.Context, s *reprise.Stream, rnd *rand.Rand, n int) (input, output) {
	in := input{op: "append", ids: []int{h.newID()}}
	events := []reprise.Event{h.event(in.ids[0])}
	if n == calls-2 && rnd.IntN(3) == 0 {
		in.op = "end"
		appended, err := s.End(ctx, "completed", events[0])
		return in, h.appended(appended, err)
	}
	if rnd.IntN(2) == 0 {
		in.ids = append(in.ids, h.newID())
		events = append(events, h.event(in.ids[1]))
	}
	appended, err := s.Append(ctx, events...)
	return in, h.appended(appended, err)
}

// produce appends one event that another caller may append at the same time under the same id.
func (h *history) produce(ctx context.Context, s *reprise.Stream, _ *rand.Rand, n int) (input, output) {
	id := 1_000_000 + n
	in := input{op: "append", ids: []int{id}, producer: id}
	producer := &reprise.ProducerID{ID: strconv.Itoa(id)}
	appended, err := s.AppendWith(ctx, reprise.AppendOptions{Producer: producer}, h.event(id))
	return in, h.appended(appended, err)
}

func (h *history) appended(a reprise.Appended, err error) output {
	if err == nil {
		h.tail.Store(a.Last)
	}
	return output{err: code(err), first: a.First, last: a.Last, duplicate: a.Duplicate}
}

func (h *history) trim(ctx context.Context, s *reprise.Stream, rnd *rand.Rand, _ int) (input, output) {
	tail := h.tail.Load()
	in := input{op: "trim", before: tail + 2 - min(tail+1, rnd.Uint64N(window))}
	return in, output{err: code(s.Trim(ctx, in.before))}
}

func (h *history) info(ctx context.Context, s *reprise.Stream, _ *rand.Rand, _ int) (input, output) {
	info, err := s.Info(ctx)
	return input{op: "info"}, output{err: code(err), earliest: info.Earliest, tail: info.Tail, ended: info.End != nil}
}

func (h *history) poll(ctx context.Context, s *reprise.Stream, rnd *rand.Rand, _ int) (input, output) {
	tail := h.tail.Load()
	in := input{op: "poll", after: tail + 1 - min(tail+1, rnd.Uint64N(window+1))}
	r, err := s.Reader(ctx, reprise.After(s.Cursor(in.after)))
	if err != nil {
		return in, output{err: code(err)}
	}
	defer r.Close()
	run, err := r.Poll(ctx)
	out := output{err: code(err)}
	if run.Len() > 0 {
		out.first, out.last = run.First(), run.Last()
	}
	for e := range run.All() {
		id, err := strconv.Atoi(string(e.Data))
		if err != nil {
			out.err = err.Error()
		}
		out.ids = append(out.ids, id)
	}
	return in, out
}

// code returns the model's name of an error.
func code(err error) string {
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		switch window.Reason {
		case reprise.CursorAhead:
			return "ahead"
		case reprise.CursorExpired:
			return "expired"
		}
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, reprise.ErrEnded):
		return "ended"
	case errors.Is(err, reprise.ErrInvalid):
		return "invalid"
	}
	return fmt.Sprint("unexpected: ", err)
}
