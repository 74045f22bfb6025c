package storewrap_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

func TestObservedStoreKeepsContract(t *testing.T) {
	conform(t, func(_ testing.TB, inner reprise.Store) reprise.Store {
		return storewrap.Observe(inner, func(storewrap.Call) {})
	})
}

// everything makes each kind of call, some of which are refused.
func everything(t *testing.T, s reprise.Store) {
	t.Helper()
	ctx := t.Context()
	mustCreate(t, s, key("s"))
	_, err := s.Create(ctx, reprise.StreamInfo{Key: key("s"), Epoch: "7ZK3M9Q2VTX4WB8B", Config: secretConfig()})
	check(t, err)
	if _, err := s.Create(ctx, reprise.StreamInfo{Key: key("s"), Epoch: epoch}); !errors.Is(err, reprise.ErrConflict) {
		t.Error(err)
	}
	mustAppend(t, s, request(key("s"), 1, "a secret batch"))
	if errs := s.Append(ctx,
		[]reprise.AppendRequest{
			ended(key("s"), 2),
			request(key("absent"), 1, "x"),
		}); !errors.Is(errs[1], reprise.ErrNotFound) {
		t.Error(errs)
	}
	texts(t, s, key("s"))
	_, err = s.List(ctx, reprise.ListQuery{AllNamespaces: true, Limit: 10})
	check(t, err)
	check(t, s.Remove(ctx, key("s"), reprise.RemoveSpec{Trim: 2, Epoch: epoch}))
	_, err = s.(reprise.Sizer).Sizes(ctx)
	check(t, err)
	_, err = s.(reprise.Sweeper).Sweep(ctx, time.Now(), time.Now(), 10)
	check(t, err)
	check(t, s.Remove(ctx, key("s"), reprise.RemoveSpec{}))
	if _, err := s.(reprise.Watcher).Watch(key("s"), func() {}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	check(t, s.Close())
}

func TestObserverReceivesEachCall(t *testing.T) {
	var got []string
	everything(t, storewrap.Observe(memstore.New(nil), func(c storewrap.Call) {
		if c.Duration <= 0 {
			t.Errorf("%+v took no time", c)
		}
		got = append(got, fmt.Sprint(c.Op, c.Streams, c.Batches, c.Events, c.Bytes, len(c.Errs)))
	}))
	want := []string{
		"create1 0 0 0 0", "create1 0 0 0 0", "create1 0 0 0 1", "append1 1 1 14 0", "append2 1 1 21 1",
		"read1 2 2 35 0",
		"list1 0 0 0 0", "trim1 0 0 0 0", "sizes0 0 0 0 0", "sweep1 0 0 0 0", "remove1 0 0 0 0", "watch1 0 0 0 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
