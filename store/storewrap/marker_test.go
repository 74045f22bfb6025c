package storewrap_test

import (
	"errors"
	"sync"
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

// TestReplicasThatRaceAgreeOnOneMarker opens an empty store in four ways at once. Those who come second are refused.
func TestReplicasThatRaceAgreeOnOneMarker(t *testing.T) {
	for range 50 {
		inner := memstore.New(nil)
		ways := []reprise.Store{inner, encrypted(t, inner, "a"), encrypted(t, inner, "b"), encrypted(t, inner, "a")}
		errs := make([]error, len(ways))
		var wg sync.WaitGroup
		for i, store := range ways {
			wg.Go(func() { errs[i] = storewrap.Check(t.Context(), store) })
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) && (errs[1] == nil) == (errs[2] == nil) {
			t.Fatalf("plain, a and b: %v", errs)
		}
		for i, store := range ways {
			again := storewrap.Check(t.Context(), store)
			if refused := errors.Is(again, reprise.ErrInvalid); refused != (errs[i] != nil) {
				t.Fatalf("the store opens in way %d: %v, and then: %v", i, errs[i], again)
			}
		}
		check(t, inner.Close())
	}
}

// encrypted is inner with a key of that id, the same each time.
func encrypted(t *testing.T, inner reprise.Store, id string) reprise.Store {
	t.Helper()
	secret := make([]byte, 32)
	copy(secret, id)
	keys, err := newKeyset(masterKey{ID: id, Secret: secret})
	check(t, err)
	s, err := storewrap.Encrypt(inner, keys)
	check(t, err)
	return s
}

// TestPartsHaveMarkersOfTheirOwn wraps two parts of one store in two ways.
func TestPartsHaveMarkersOfTheirOwn(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	part := func(name string) reprise.Store {
		s, err := storewrap.Prefix(inner, name)
		check(t, err)
		return s
	}
	check(t, storewrap.Check(t.Context(), encrypted(t, part("one"), "a")))
	check(t, storewrap.Check(t.Context(), part("two")))
	if err := storewrap.Check(t.Context(), part("one")); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("an encrypted part is opened without its wrapper: %v", err)
	}
	if err := storewrap.Check(t.Context(), encrypted(t, part("two"), "a")); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a plain part is opened with a wrapper: %v", err)
	}
	check(t, storewrap.Check(t.Context(), encrypted(t, part("one"), "a")))
	refused := func(what string, store reprise.Store) {
		t.Helper()
		log, err := reprise.Open(t.Context(), store, nil)
		if err == nil {
			check(t, log.Close())
		}
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a Log of %s: %v", what, err)
		}
	}
	refused("an encrypted part without its wrapper", part("one"))
	refused("a plain part with a wrapper", encrypted(t, part("two"), "a"))
	refused("a part with another key", encrypted(t, part("one"), "b"))
	for _, store := range []reprise.Store{encrypted(t, part("one"), "a"), part("two"), inner} {
		log, err := reprise.Open(t.Context(), store, nil)
		check(t, err)
		check(t, log.Close())
	}
}

// TestMarkerIsNotForUsers asks a Log for the stream of the marker, and sweeps.
func TestMarkerIsNotForUsers(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	log, err := reprise.Open(t.Context(), encrypted(t, inner, "a"), nil)
	check(t, err)
	defer log.Close()
	marker := reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "store:wrappers"}
	if _, err := log.Stream(t.Context(), marker); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("it is read: %v", err)
	}
	if _, _, err := log.Create(t.Context(), marker, reprise.StreamConfig{}); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("it is created: %v", err)
	}
	if err := log.Remove(t.Context(), marker); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("it is removed: %v", err)
	}
	_, err = log.Sweep(t.Context())
	check(t, err)
	page, err := log.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	check(t, err)
	sizes, err := log.Sizes(t.Context())
	check(t, err)
	if len(page.Streams) > 0 || len(sizes) > 0 {
		t.Errorf("it is seen: %v, %v", page.Streams, sizes)
	}
	if err := storewrap.Check(t.Context(), inner); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("after a sweep the store opens without its wrapper: %v", err)
	}
	if _, err := reprise.Open(t.Context(), inner, nil); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("after a sweep a Log opens without its wrapper: %v", err)
	}
	if !marker.IsMarker() {
		t.Errorf("%s is no marker", marker)
	}
}
