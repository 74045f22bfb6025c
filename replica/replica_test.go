package replica_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	beat = 2 * time.Second
	ttl  = 10 * time.Second
)

// faulty is a store that refuses what broken selects.
type faulty struct {
	*shared.Store
	mu     sync.Mutex
	broken func(op string, key reprise.StreamKey) bool
	// lossy: appends are stored before they are refused.
	lossy bool
}

func (f *faulty) fails(op string, key reprise.StreamKey) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil && f.broken(op, key) {
		return fmt.Errorf("injected: %w", reprise.ErrUnavailable)
	}
	return nil
}

// breaks sets what fails from now on.
func (f *faulty) breaks(broken func(op string, key reprise.StreamKey) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

// loses sets whether what fails is stored all the same.
func (f *faulty) loses(lossy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lossy = lossy
}

func (f *faulty) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	errs := make([]error, len(reqs))
	f.mu.Lock()
	lossy := f.lossy
	f.mu.Unlock()
	for i := range reqs {
		errs[i] = f.fails("append", reqs[i].Key)
		if lossy || errs[i] == nil {
			if more := f.Store.Append(ctx, reqs[i:i+1]); more != nil && errs[i] == nil {
				errs[i] = more[0]
			}
		}
	}
	return errs
}

func (f *faulty) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if err := f.fails("read", key); err != nil {
		return reprise.Page{}, err
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

func (f *faulty) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := f.fails("list", reprise.StreamKey{}); err != nil {
		return reprise.ListPage{}, err
	}
	return f.Store.List(ctx, q)
}

func (f *faulty) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	if err := f.fails("sweep", reprise.StreamKey{}); err != nil {
		return nil, err
	}
	return f.Store.Sweep(ctx, now, remember, limit)
}

func (f *faulty) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if err := f.fails("create", info.Key); err != nil {
		return reprise.StreamInfo{}, err
	}
	return f.Store.Create(ctx, info)
}

func newLog(t *testing.T, store reprise.Store) *reprise.Log {
	t.Helper()
	log, err := reprise.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// bubble runs a test in a bubble with a Log over a store that can fail.
func bubble(t *testing.T, test func(t *testing.T, log *reprise.Log, store *faulty)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{Store: shared.New(memstore.New(nil)).Store()}
		log := newLog(t, store)
		defer func() {
			if err := errors.Join(log.Close(), store.Close()); err != nil {
				t.Error(err)
			}
		}()
		test(t, log, store)
	})
}

// news is what a Watch was told.
type news struct {
	mu    sync.Mutex
	heard []string
}

func (n *news) add(what string) func(string) {
	return func(name string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.heard = append(n.heard, what+" "+name)
	}
}

func (n *news) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.heard)
}

func join(t *testing.T, log *reprise.Log, name string) (*replica.Member, *news) {
	t.Helper()
	m, err := replica.Join(t.Context(), log, &replica.Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	n := &news{}
	m.Watch(replica.Watch{Left: n.add("left"), Fenced: n.add("fenced"), Joined: n.add("joined")})
	return m, n
}

func closeAll(t *testing.T, members ...*replica.Member) {
	t.Helper()
	for _, m := range members {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func names(m *replica.Member) (list []string) {
	for _, r := range m.Members() {
		list = append(list, r.Name)
	}
	return list
}

func TestReplicasSeeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, _ := join(t, log, "a")
		b, _ := join(t, log, "b")
		defer closeAll(t, a, b)
		want := []string{a.Name(), b.Name()}
		if got := names(b); !slices.Equal(got, want) {
			t.Errorf("the one that came last sees %q, want %q", got, want)
		}
		time.Sleep(beat)
		synctest.Wait()
		if got := names(a); !slices.Equal(got, want) {
			t.Errorf("after a beat %q are there, want %q", got, want)
		}
		if self := a.Members()[0]; !self.Self || !strings.HasPrefix(self.Name, "a-") || self.Joined.IsZero() {
			t.Errorf("self: %+v", self)
		}
		if !a.Alive(b.Name()) || !a.Alive(a.Name()) || a.Alive("nobody") {
			t.Error("who is alive is not told")
		}
		time.Sleep(time.Hour) // nobody is forgotten
		for _, r := range a.Members() {
			if time.Since(r.Seen) > 2*beat {
				t.Errorf("%s was seen %s ago", r.Name, time.Since(r.Seen))
			}
		}
	})
}

func TestMemberThatLeftIsReportedAtNextBeat(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, heard := join(t, log, "a")
		b, _ := join(t, log, "b")
		defer closeAll(t, a)
		name := b.Name()
		time.Sleep(beat)
		if err := errors.Join(b.Leave(t.Context()), b.Leave(t.Context()), b.Close()); err != nil {
			t.Fatal(err)
		}
		if b.Name() != "" {
			t.Errorf("it is still called %s", b.Name())
		}
		time.Sleep(beat + time.Millisecond)
		if got := heard.all(); !slices.Equal(got, []string{"left " + name}) || a.Alive(name) {
			t.Errorf("heard %q, alive %t", got, a.Alive(name))
		}
	})
}

// TestDeadMemberIsReportedOnce: every member reports a dead one exactly once, at most two beats after its TTL. Members
// that join later find it ended.
func TestDeadMemberIsReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, heardA := join(t, log, "a")
		b, heardB := join(t, log, "b")
		c, _ := join(t, log, "c")
		defer closeAll(t, a, b)
		time.Sleep(5 * time.Minute)
		name := c.Name()
		c.Vanish()
		time.Sleep(ttl - 2*beat)
		if !a.Alive(name) || !b.Alive(name) {
			t.Error("it was given up before its time")
		}
		time.Sleep(4 * beat)
		want := []string{"left " + name}
		if a.Alive(name) || b.Alive(name) || !slices.Equal(heardA.all(), want) || !slices.Equal(heardB.all(), want) {
			t.Errorf("alive %t %t, heard %q and %q", a.Alive(name), b.Alive(name), heardA.all(), heardB.all())
		}
		d, heardD := join(t, log, "d")
		defer closeAll(t, d)
		time.Sleep(time.Hour)
		if d.Alive(name) || len(heardD.all()) != 0 || len(heardA.all()) != 1 {
			t.Errorf("alive %t, heard %q and %q", d.Alive(name), heardD.all(), heardA.all())
		}
		page, err := log.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Streams) != 6 { // two each of those that are there
			t.Errorf("%d streams are kept", len(page.Streams))
		}
	})
}

// TestOutageOfStoreEndsNoMembership: while no member can reach the store, none is taken for dead, and none right
// afterwards. A member that really died is noticed once its TTL has passed anew.
func TestOutageOfStoreEndsNoMembership(t *testing.T) {
	for _, op := range []string{"all", "append", "list"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T, log *reprise.Log, store *faulty) {
				a, heard := join(t, log, "a")
				b, heardB := join(t, log, "b")
				c, _ := join(t, log, "c")
				defer closeAll(t, a, b)
				time.Sleep(beat)
				store.breaks(func(what string, _ reprise.StreamKey) bool { return op == "all" || what == op })
				time.Sleep(time.Minute)
				died := c.Name()
				c.Vanish()
				time.Sleep(time.Hour)
				store.breaks(nil)
				time.Sleep(ttl - 2*beat)
				if got := append(heard.all(), heardB.all()...); len(got) != 0 {
					t.Errorf("heard %q", got)
				}
				time.Sleep(5 * beat)
				if got := heard.all(); !slices.Equal(got, []string{"left " + died}) {
					t.Errorf("heard %q", got)
				}
				if !a.Alive(b.Name()) || !b.Alive(a.Name()) {
					t.Error("the living do not see each other")
				}
			})
		})
	}
}

// TestStalledMemberJoinsUnderNewName: a member that cannot write while the others can is taken for dead. It learns that
// from the store and joins again under a new name.
func TestStalledMemberJoinsUnderNewName(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, store *faulty) {
		a, heardA := join(t, log, "a")
		b, heardB := join(t, log, "b")
		defer closeAll(t, a, b)
		old := b.Name()
		time.Sleep(beat)
		store.breaks(func(op string, key reprise.StreamKey) bool {
			return op == "append" &&
				key.Name == "replica:"+old
		})
		time.Sleep(2 * beat)
		stream, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: replica.Tenant, Name: "replica:" + old})
		if err != nil {
			t.Fatal(err)
		}
		store.breaks(nil)
		if _, err := stream.End(t.Context(), "lost", reprise.Event{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * beat)
		if b.Name() == old || b.Name() == "" {
			t.Errorf("it is called %q", b.Name())
		}
		if want := []string{"fenced " + old, "joined " + b.Name()}; !slices.Equal(heardB.all(), want) {
			t.Errorf("it heard %q, want %q", heardB.all(), want)
		}
		if time.Sleep(beat); !slices.Equal(heardA.all(), []string{"left " + old}) || !a.Alive(b.Name()) {
			t.Errorf("the other heard %q", heardA.all())
		}
	})
}

// TestEndThatIsLostMakesMemberAlive: a promotion takes back the end of a member that could not write for a while. It
// goes on under its name, and the others see it again. If it dies then, it is reported again.
func TestEndThatIsLostMakesMemberAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := shared.New(memstore.New(nil))
		mine, others := &faulty{Store: hub.Store()}, hub.Store()
		logs := []*reprise.Log{newLog(t, mine), newLog(t, others)}
		defer func() {
			if err := errors.Join(logs[0].Close(), logs[1].Close(), mine.Close(), others.Close()); err != nil {
				t.Error(err)
			}
		}()
		b, _ := join(t, logs[0], "b")
		a, heard := join(t, logs[1], "a")
		defer closeAll(t, a, b)
		name := b.Name()
		mine.breaks(func(string, reprise.StreamKey) bool { return true })
		time.Sleep(ttl + 3*beat)
		if a.Alive(name) {
			t.Fatal("it is not taken for dead")
		}
		for _, namespace := range []string{"replica:", "inbox:"} {
			key := reprise.StreamKey{Tenant: replica.Tenant, Name: namespace + name}
			stream, err := logs[1].Stream(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			info, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := hub.Lose(t.Context(), key, info.Tail-1); err != nil {
				t.Fatal(err)
			}
		}
		mine.breaks(nil)
		time.Sleep(3 * beat)
		if b.Name() != name || !a.Alive(name) {
			t.Fatalf("it is called %s, was %s; alive: %t", b.Name(), name, a.Alive(name))
		}
		b.Vanish()
		time.Sleep(ttl + 3*beat)
		want := []string{"left " + name, "left " + name}
		if got := heard.all(); !slices.Equal(got, want) || a.Alive(name) {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

func TestJoinRefusesWhatCannotWork(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, store *faulty) {
		for _, opts := range []replica.Options{
			{Name: "a b"}, {Name: strings.Repeat("a", 49)}, {TTL: time.Second}, {Beat: -1},
		} {
			if _, err := replica.Join(t.Context(), log, &opts); !errors.Is(err, reprise.ErrInvalid) {
				t.Errorf("%+v: %v", opts, err)
			}
		}
		store.breaks(func(string, reprise.StreamKey) bool { return true })
		if _, err := replica.Join(t.Context(), log, nil); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("without a store: %v", err)
		}
	})
}
