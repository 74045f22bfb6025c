package storewrap_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

// all puts every wrapper around a Store, in the order that the package recommends.
func all(tb testing.TB, inner reprise.Store) reprise.Store {
	tb.Helper()
	s := retry(tb, storewrap.Observe(inner, func(storewrap.Call) {}), nil)
	s = prefix(tb, s, "part")
	s = encrypt(tb, s)
	s = compress(tb, s)
	s = cache(tb, s, 0)
	return storewrap.Opaque(s)
}

func TestAllOfThem(t *testing.T) { conform(t, all) }

// TestOrderThatCannotWorkIsRefused: what cannot work in an order is refused in it, whatever lies between.
func TestOrderThatCannotWorkIsRefused(t *testing.T) {
	type outer struct {
		name string
		put  func(inner reprise.Store) (reprise.Store, error)
	}
	keys, err := newKeyset(masterKey{ID: "test", Secret: make([]byte, 32)})
	check(t, err)
	wrappers := []outer{
		{"Cache", func(s reprise.Store) (reprise.Store, error) { return storewrap.Cache(s, nil) }},
		{"Compress", func(s reprise.Store) (reprise.Store, error) { return storewrap.Compress(s, nil) }},
		{"Encrypt", func(s reprise.Store) (reprise.Store, error) { return storewrap.Encrypt(s, keys) }},
		{"Prefix", func(s reprise.Store) (reprise.Store, error) { return storewrap.Prefix(s, "p") }},
		{"Retry", func(s reprise.Store) (reprise.Store, error) { return storewrap.Retry(s, nil) }},
		{"Observe", func(s reprise.Store) (reprise.Store, error) {
			return storewrap.Observe(s, func(storewrap.Call) {}), nil
		}},
	}
	refused := "Cache(Cache) Compress(Compress) Encrypt(Compress) Encrypt(Encrypt) Retry(Retry)"
	for _, a := range wrappers {
		for _, b := range wrappers {
			inner, err := b.put(memstore.New(nil))
			check(t, err)
			between := storewrap.Observe(prefix(t, inner, "between"), func(storewrap.Call) {})
			order := a.name + "(" + b.name + ")"
			for _, s := range []reprise.Store{inner, between} {
				if _, err := a.put(s); errors.Is(err, reprise.ErrInvalid) != strings.Contains(refused, order) {
					t.Errorf("%s: %v", order, err)
				}
			}
		}
		if a.name == "Observe" || a.name == "Prefix" {
			continue
		}
		if _, err := a.put(nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s around nothing: %v", a.name, err)
		}
	}
}

// bare is a Store without any optional ability.
type bare struct{ reprise.Store }

// TestAbilitiesAreForwarded: each wrapper has every ability, and says so where the Store inside has not.
func TestAbilitiesAreForwarded(t *testing.T) {
	inner := &bare{memstore.New(nil)}
	s := all(t, inner)
	_, err := s.(reprise.Sizer).Sizes(t.Context())
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sizes: %v", err)
	}
	if _, err := s.(reprise.Watcher).Watch(key("s"), func() {}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("watch: %v", err)
	}
	_, err = s.(reprise.CreateAppender).CreateAppend(t.Context(),
		reprise.StreamInfo{Key: key("s"), Epoch: epoch, Created: created}, recorded(key("s")))
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("create with a batch: %v", err)
	}
	simple := encrypt(t, retry(t, inner, nil))
	if _, err := simple.(reprise.Sweeper).Sweep(t.Context(), created, created, 1); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("sweep: %v", err)
	}
	depth := 0
	var last reprise.Store
	for at := s; at != nil; depth++ {
		last = at
		u, ok := at.(interface{ Unwrap() reprise.Store })
		if !ok {
			break
		}
		at = u.Unwrap()
	}
	if last != reprise.Store(inner) || depth != 7 {
		t.Errorf("%d wrappers were taken off, then comes a %T", depth, last)
	}
	check(t, s.Close())
}

// recorded is an append of one event of a Log.
func recorded(key reprise.StreamKey) reprise.AppendRequest {
	b, _ := reprise.AppendRecord(nil, &reprise.Event{Time: created, Type: "note", Data: []byte("a secret batch")})
	return request(key, 1, string(b))
}

// TestNewStreamsAreWrapped: what a stream is made with goes through the wrappers as what is appended to it later does.
func TestNewStreamsAreWrapped(t *testing.T) {
	inner := memstore.New(nil)
	s := all(t, inner)
	info, err := s.(reprise.CreateAppender).CreateAppend(t.Context(),
		reprise.StreamInfo{Key: key("s"), Epoch: epoch, Created: created, Config: secretConfig()}, recorded(key("s")))
	check(t, err)
	if info.Key != key("s") || info.Tail != 1 || !info.Config.Equal(secretConfig()) {
		t.Errorf("got %+v", info)
	}
	if got := texts(t, s, key("s")); len(got) != 1 || got[0] != string(recorded(key("s")).Bytes) {
		t.Errorf("read %q", got)
	}
	list, err := inner.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	check(t, err)
	for _, info := range list.Streams {
		config := fmt.Sprintf("%s %v", info.Config.Meta, info.Config.Labels)
		if info.Key == key("s") || strings.Contains(config, "secret") {
			t.Errorf("stored %+v", info)
		}
		for _, batch := range texts(t, inner, info.Key) {
			if strings.Contains(batch, "secret") {
				t.Errorf("stored %q in %s", batch, info.Key)
			}
		}
	}
	check(t, s.Close())
}

// watching is a Store that is told of what others do.
type watching struct {
	reprise.Store
	key reprise.StreamKey
}

func (w *watching) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	w.key = key
	moved()
	return func() {}, nil
}

func TestWatchIsForwarded(t *testing.T) {
	inner := &watching{Store: memstore.New(nil)}
	s := all(t, inner)
	told := 0
	stop, err := s.(reprise.Watcher).Watch(key("s"), func() { told++ })
	check(t, err)
	stop()
	if want := (reprise.StreamKey{Tenant: "part.default", Name: "s"}); told != 1 || inner.key != want {
		t.Errorf("told %d times of %s", told, inner.key)
	}
	check(t, s.Close())
}

// lanes is a Store that takes several appends at a time.
type lanes struct{ reprise.Store }

func (lanes) ConcurrentAppends() int { return 7 }

// TestConcurrentAppendsIsForwarded: a Log has as many commits under way through all wrappers as on the Store inside,
// and one where that does not say.
func TestConcurrentAppendsIsForwarded(t *testing.T) {
	for want, inner := range map[int]reprise.Store{7: lanes{memstore.New(nil)}, 1: memstore.New(nil)} {
		s := all(t, inner)
		if got := s.(reprise.Concurrent).ConcurrentAppends(); got != want {
			t.Errorf("%d appends at a time, want %d", got, want)
		}
		check(t, s.Close())
	}
}
