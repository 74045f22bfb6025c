package storeurl_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/internal/marker"
	"reprise/internal/storeurl"
	"reprise/internal/testserver"
	"reprise/store/storewrap"
)

// eachStore runs f with the URL of an empty store of each kind that outlives its process.
func eachStore(t *testing.T, f func(t *testing.T, f *fixture)) {
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "store.db") },
		"redis":    func(t *testing.T) string { return testserver.Redis(t, nil).URL() },
		"postgres": func(t *testing.T) string { return testserver.Postgres(t, nil).URL() },
		"nats":     func(t *testing.T) string { return testserver.NATS(t, nil).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f(t, &fixture{t, url(t), filepath.Join(dir, "a.keys"), dir})
		})
	}
}

// fixture is a store and a file of keys.
type fixture struct {
	t    *testing.T
	url  string
	keys string
	dir  string
}

var notes = reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "notes"}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// with opens the store in wrappers, such as "encrypt+", and calls do with a Log of it.
func (f *fixture) with(wrappers, keys string, do func(reprise.Store, *reprise.Log)) error {
	f.t.Helper()
	ctx := f.t.Context()
	store, err := storeurl.Open(ctx, wrappers+f.url, &storeurl.Options{Keys: keys, MakeKeys: true})
	if err != nil {
		return err
	}
	defer func() { check(f.t, store.Close()) }()
	log, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer func() { check(f.t, log.Close()) }()
	do(store, log)
	return nil
}

// fill writes a stream through wrappers.
func (f *fixture) fill(wrappers string) {
	f.t.Helper()
	check(f.t, f.with(wrappers, f.keys, func(_ reprise.Store, log *reprise.Log) {
		s, _, err := log.Create(f.t.Context(), notes, reprise.StreamConfig{})
		check(f.t, err)
		_, err = s.Append(f.t.Context(),
			reprise.Event{Data: []byte("good data, good data, good data, good data, good data")})
		check(f.t, err)
	}))
}

// good makes sure that the stream is still there, read through wrappers.
func (f *fixture) good(wrappers, keys string) {
	f.t.Helper()
	check(f.t, f.with(wrappers, keys, func(store reprise.Store, log *reprise.Log) {
		page, err := store.Read(f.t.Context(), notes, 0, 1<<20)
		check(f.t, err)
		if page.Info.Tail != 1 || len(page.Batches) != 1 {
			f.t.Fatalf("the stream is %+v", page)
		}
		for e, err := range reprise.Records(page.Batches[0]) {
			check(f.t, err)
			if len(e.Data) != 53 {
				f.t.Fatalf("the event is %q", e.Data)
			}
		}
		sizes, err := log.Sizes(f.t.Context())
		check(f.t, err)
		list, lerr := log.List(f.t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
		check(f.t, lerr)
		if len(sizes) != 1 || len(list.Streams) != 1 {
			f.t.Errorf("the marker is seen: sizes %v, streams %v", sizes, list.Streams)
		}
	}))
}

// refused makes sure that the store is not opened.
func (f *fixture) refused(wrappers, keys string) {
	f.t.Helper()
	err := f.with(wrappers, keys, func(reprise.Store, *reprise.Log) {})
	var refusal *marker.Error
	if !errors.As(err, &refusal) || !errors.Is(err, reprise.ErrInvalid) {
		f.t.Errorf("opened as %q with %s: %v, want a marker.Error", wrappers, filepath.Base(keys), err)
		return
	}
	f.t.Log(err)
}

// keyFile writes a file of keys and returns its path.
func (f *fixture) keyFile(name string, from ...string) string {
	f.t.Helper()
	var text []byte
	for _, path := range from {
		line, err := os.ReadFile(path)
		check(f.t, err)
		text = append(text, line...)
	}
	path := filepath.Join(f.dir, name)
	check(f.t, os.WriteFile(path, text, 0o600))
	return path
}

// newKey makes a file with one new key.
func (f *fixture) newKey(name, id string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	check(f.t, storeurl.CreateKeyFile(path, id))
	return path
}

func TestStoreIsRefusedWithoutItsWrappers(t *testing.T) {
	eachStore(t, func(t *testing.T, f *fixture) {
		check(t, storeurl.CreateKeyFile(f.keys, "a"))
		f.fill("compress+encrypt+")
		other, same := f.newKey("b.keys", "b"), f.newKey("same.keys", "a")
		for range 2 { // with the marker, and as a store of the version before, which has none
			f.refused("", "")
			f.refused("encrypt+", f.keys)
			f.refused("compress+", "")
			f.refused("compress+encrypt+", other)
			f.refused("compress+encrypt+", same)
			missing := filepath.Join(f.dir, "missing.keys")
			err := f.with("compress+encrypt+", missing, func(reprise.Store, *reprise.Log) {})
			if _, stat := os.Stat(missing); !errors.Is(err, storeurl.ErrKeys) || !errors.Is(stat, fs.ErrNotExist) {
				t.Errorf("without a file of keys: %v; is there one now: %v", err, stat)
			}
			f.good("compress+encrypt+", f.keys)
			f.forgetMarker()
		}
	})
}

// forgetMarker makes the store one of the version before.
func (f *fixture) forgetMarker() {
	f.t.Helper()
	store, err := storeurl.Open(f.t.Context(), f.url, &storeurl.Options{Unchecked: true})
	check(f.t, err)
	defer store.Close()
	page, err := store.List(f.t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	check(f.t, err)
	for i := range page.Streams {
		if page.Streams[i].Key.IsMarker() {
			check(f.t, store.Remove(f.t.Context(), page.Streams[i].Key, reprise.RemoveSpec{}))
			return
		}
	}
	f.t.Fatal("there is no marker")
}

func TestKeysAreRotated(t *testing.T) {
	eachStore(t, func(t *testing.T, f *fixture) {
		check(t, storeurl.CreateKeyFile(f.keys, "a"))
		f.fill("encrypt+")
		b := f.newKey("b.keys", "b")
		both := f.keyFile("both.keys", b, f.keys)
		f.good("encrypt+", both)
		f.refused("encrypt+", f.keys) // a replica that has not got the new key yet could not read what others write
		f.refused("encrypt+", b)
		retire := func() (err error) {
			check(t, f.with("encrypt+", both, func(store reprise.Store, log *reprise.Log) {
				err = storewrap.Retire(context.Background(), store, "a")
			}))
			return err
		}
		if err := retire(); !errors.Is(err, reprise.ErrConflict) {
			t.Errorf("a key that is needed is retired: %v", err)
		}
		check(t, f.with("encrypt+", both,
			func(_ reprise.Store, log *reprise.Log) { check(t, log.Remove(t.Context(), notes)) }))
		check(t, retire())
		check(t, f.with("encrypt+", b, func(reprise.Store, *reprise.Log) {}))
	})
}

func TestCompressionIsAddedLater(t *testing.T) {
	eachStore(t, func(t *testing.T, f *fixture) {
		f.fill("")
		f.good("", "")
		f.refused("encrypt+", f.newKey("b.keys", "b"))
		f.good("compress+", "")
		f.refused("", "")
		f.good("compress+", "")
	})
}
