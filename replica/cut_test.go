package replica_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// TestIsolatedMemberRejoins has three replicas with a Log each. One of them cannot reach the store for a while: the
// others take it for dead, it takes none for dead, and it joins again once it reaches the store.
func TestIsolatedMemberRejoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := shared.New(memstore.New(nil))
		var stores []*faulty
		var logs []*reprise.Log
		var members []*replica.Member
		var heard []*news
		for i := range 3 {
			stores = append(stores, &faulty{Store: hub.Store()})
			logs = append(logs, newLog(t, stores[i]))
			m, n := join(t, logs[i], string(rune('a'+i)))
			m.Serve("echo", echo)
			members, heard = append(members, m), append(heard, n)
		}
		defer func() {
			closeAll(t, members...)
			for i := range logs {
				if err := errors.Join(logs[i].Close(), stores[i].Close()); err != nil {
					t.Error(err)
				}
			}
		}()
		a, b, c := members[0], members[1], members[2]
		time.Sleep(time.Minute)
		old := c.Name()
		stores[2].breaks(func(string, reprise.StreamKey) bool { return true })
		time.Sleep(time.Hour)
		left := []string{"left " + old}
		if !slices.Equal(heard[0].all(), left) || !slices.Equal(heard[1].all(), left) || a.Alive(old) || b.Alive(old) {
			t.Errorf("the others heard %q and %q", heard[0].all(), heard[1].all())
		}
		if len(heard[2].all()) != 0 || !c.Alive(a.Name()) || c.Name() != old {
			t.Errorf("the one that was cut off heard %q", heard[2].all())
		}
		stores[2].breaks(nil)
		time.Sleep(3 * beat)
		if got := heard[2].all(); c.Name() == old ||
			!slices.Equal(got, []string{"fenced " + old, "joined " + c.Name()}) {
			t.Errorf("when it is back it heard %q and is called %s", got, c.Name())
		}
		if answer, err := a.Call(t.Context(), c.Name(), "echo", []byte("again")); err != nil ||
			string(answer) != a.Name()+" again" {
			t.Errorf("%q, %v", answer, err)
		}
		if answer, err := c.Call(t.Context(), b.Name(), "echo", []byte("back")); err != nil ||
			string(answer) != c.Name()+" back" {
			t.Errorf("%q, %v", answer, err)
		}
		if err := second(a.Call(t.Context(), old, "echo", nil)); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("its old name answers %v", err)
		}
	})
}

// torn is a store in which the first event of one stream cannot be read.
type torn struct {
	*shared.Store
	name atomic.Pointer[string]
}

func (s *torn) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if name := s.name.Load(); after == 0 && maxBytes > 0 && name != nil && key.Name == *name {
		return reprise.Page{}, errors.New("damaged")
	}
	return s.Store.Read(ctx, key, after, maxBytes)
}

// TestInboxThatCannotBeRead: a replica that cannot read a call misses it, and serves those that follow.
func TestInboxThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := shared.New(memstore.New(nil))
		whole, bad := hub.Store(), &torn{Store: hub.Store()}
		logs := []*reprise.Log{newLog(t, whole), newLog(t, bad)}
		a, _ := join(t, logs[0], "a")
		b, heard := join(t, logs[1], "b")
		defer func() {
			closeAll(t, a, b)
			if err := errors.Join(logs[0].Close(), logs[1].Close(), whole.Close(), bad.Close()); err != nil {
				t.Error(err)
			}
		}()
		b.Serve("echo", echo)
		inbox := "inbox:" + b.Name()
		bad.name.Store(&inbox)
		time.Sleep(beat)
		short, cancel := context.WithTimeout(t.Context(), beat)
		defer cancel()
		if err := second(a.Call(short, b.Name(), "echo", nil)); err == nil {
			t.Error("a call that cannot be read was answered")
		}
		time.Sleep(2 * ttl)
		if err := second(a.Call(t.Context(), b.Name(), "echo", nil)); err != nil {
			t.Errorf("a later call: %v", err)
		}
		if got := heard.all(); len(got) != 0 {
			t.Errorf("it heard %q", got)
		}
	})
}

// TestStreamsOfAReplicaAreRemoved: one whose inbox or beats are gone joins again.
func TestStreamsOfAReplicaAreRemoved(t *testing.T) {
	for _, namespace := range []string{"inbox:", "replica:"} {
		t.Run(namespace, func(t *testing.T) {
			bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
				a, heardA := join(t, log, "a")
				b, heardB := join(t, log, "b")
				defer closeAll(t, a, b)
				b.Serve("echo", echo)
				time.Sleep(beat + time.Millisecond)
				old := b.Name()
				if err := log.Remove(t.Context(),
					reprise.StreamKey{Tenant: replica.Tenant, Name: namespace + old}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * beat)
				if got := heardB.all(); !slices.Equal(got, []string{"fenced " + old, "joined " + b.Name()}) {
					t.Errorf("it heard %q", got)
				}
				if got := heardA.all(); !slices.Equal(got, []string{"left " + old}) {
					t.Errorf("the other heard %q", got)
				}
				if err := second(a.Call(t.Context(), b.Name(), "echo", nil)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestReplicaOutlivesPromotionThatLostEvents: a replica whose inbox and beats go on in another epoch, without their
// newest events, keeps its name, is not served old calls again, and answers new ones.
func TestReplicaOutlivesPromotionThatLostEvents(t *testing.T) {
	for _, namespace := range []string{"inbox:", "replica:"} {
		t.Run(namespace, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := shared.New(memstore.New(nil))
				store := hub.Store()
				log := newLog(t, store)
				a, heardA := join(t, log, "a")
				b, heardB := join(t, log, "b")
				defer func() {
					closeAll(t, a, b)
					if err := errors.Join(log.Close(), store.Close()); err != nil {
						t.Error(err)
					}
				}()
				served := 0
				b.Serve("count", func(context.Context, string, []byte) ([]byte, error) {
					served++
					return nil, nil
				})
				call := func() {
					t.Helper()
					if err := second(a.Call(t.Context(), b.Name(), "count", nil)); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(beat + time.Millisecond)
				for range 5 {
					call()
				}
				name := b.Name()
				key := reprise.StreamKey{Tenant: replica.Tenant, Name: namespace + name}
				stream, err := log.Stream(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				info, err := stream.Info(t.Context())
				if err == nil {
					err = hub.Lose(t.Context(), key, info.Tail-1)
				}
				if err != nil {
					t.Fatal(err)
				}
				call()
				time.Sleep(3 * ttl)
				call()
				if b.Name() != name || len(heardA.all())+len(heardB.all()) > 0 {
					t.Errorf("%s is called %s, they heard %q and %q", name, b.Name(), heardA.all(), heardB.all())
				}
				if served != 7 {
					t.Errorf("%d calls were served, want 7", served)
				}
			})
		})
	}
}
