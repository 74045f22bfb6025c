package storewrap_test

import (
	"errors"
	"log/slog"
	"testing"

	"reprise"
	"reprise/store/memstore"
	base "reprise/store/storewrap"
	"reprise/x/storewrap"
)

func keepAll(reprise.StreamKey, *reprise.Event) bool { return true }

// all puts Audit and Transform around a stack of the wrappers of reprise/store/storewrap.
func all(tb testing.TB, inner reprise.Store) reprise.Store {
	tb.Helper()
	s, err := base.Retry(inner, nil)
	check(tb, err)
	s, err = base.Compress(s, nil)
	check(tb, err)
	s, err = base.Cache(s, nil)
	check(tb, err)
	s = transform(tb, s, storewrap.TransformOptions{Read: keepAll})
	return opaque(storewrap.Audit(s, storewrap.AuditTo(slog.New(slog.DiscardHandler)), nil))
}

func TestStackKeepsContract(t *testing.T) { conform(t, all) }

// TestOrderThatCannotWorkIsRefused: Transform must see plain events, and Retry the bytes that it has appended, whatever
// lies between.
func TestOrderThatCannotWorkIsRefused(t *testing.T) {
	inner := transform(t, memstore.New(nil), storewrap.TransformOptions{Append: keepAll})
	between := storewrap.Audit(inner, func(storewrap.AuditEntry) {}, nil)
	keys := reprise.NewKeyset()
	for name, put := range map[string]func(reprise.Store) (reprise.Store, error){
		"Compress": func(s reprise.Store) (reprise.Store, error) { return base.Compress(s, nil) },
		"Encrypt":  func(s reprise.Store) (reprise.Store, error) { return base.Encrypt(s, keys) },
		"Retry":    func(s reprise.Store) (reprise.Store, error) { return base.Retry(s, nil) },
	} {
		for _, s := range []reprise.Store{inner, between} {
			if _, err := put(s); !errors.Is(err, reprise.ErrInvalid) {
				t.Errorf("%s around Transform: %v", name, err)
			}
		}
	}
	transform(t, between, storewrap.TransformOptions{Append: keepAll}) // may be around itself
	if _, err := storewrap.Transform(nil, storewrap.TransformOptions{Append: keepAll}); !errors.Is(err,
		reprise.ErrInvalid) {
		t.Errorf("around nothing: %v", err)
	}
}

// TestAbilitiesAreForwarded: each wrapper has every ability, and says so where the Store inside has not.
func TestAbilitiesAreForwarded(t *testing.T) {
	s := all(t, struct{ reprise.Store }{memstore.New(nil)})
	if _, err := s.(reprise.Sizer).Sizes(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sizes: %v", err)
	}
	if _, err := s.(reprise.Watcher).Watch(key("s"), func() {}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("watch: %v", err)
	}
	_, err := s.(reprise.Sweeper).Sweep(t.Context(), created, created, 1)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sweep: %v", err)
	}
	check(t, s.Close())
}
