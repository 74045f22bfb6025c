package upkeep_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/storeurl"
	"reprise/internal/upkeep"
	"reprise/store/memstore"
	"reprise/store/storetest"
)

// machine is a store and the file beside it, as a server uses them.
type machine struct {
	reprise.Store

	url, dir string // dir holds the store and nothing else
	file     string
	starts   *upkeep.Starts
}

// start opens the store, or the files that lie in its place.
func (m *machine) start(ctx context.Context) (err error) {
	if m.Store, err = storeurl.Open(ctx, m.url, nil); err != nil {
		return err
	}
	m.starts, err = upkeep.OpenStarts(ctx, m.Store, m.file, slog.New(slog.DiscardHandler))
	return err
}

// Close ends the server.
func (m *machine) Close() error { return errors.Join(m.starts.Close(), m.Store.Close()) }

// machines returns a new machine for each kind of store.
func machines(tb testing.TB) map[string]*machine {
	all := map[string]*machine{}
	for scheme, path := range map[string]string{"log": "log", "sqlite": "reprise.db"} {
		dir := tb.TempDir()
		store := filepath.Join(dir, "store")
		check(tb, os.Mkdir(store, 0o700))
		url := scheme + ":" + filepath.Join(store, path)
		all[scheme] = &machine{url: url, dir: store, file: filepath.Join(dir, "starts")}
	}
	return all
}

// copied returns a copy of a directory.
func copied(tb testing.TB, dir string) string {
	tb.Helper()
	to := filepath.Join(tb.TempDir(), "copy")
	check(tb, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// putBack replaces a directory by a copy.
func putBack(dir, older string) error {
	return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(older)))
}

// TestOlderFilesPutBackKeepContract: a store that is put back has lost events, for which the contract has rules.
func TestOlderFilesPutBackKeepContract(t *testing.T) {
	for scheme := range machines(t) {
		t.Run(scheme, func(t *testing.T) {
			open := func(tb testing.TB) storetest.Harness {
				m := machines(tb)[scheme]
				return storetest.Harness{
					Persistent: true,
					Open:       func() (reprise.Store, error) { return m, m.start(tb.Context()) },
					Lose: func(reprise.Store) (func() error, error) {
						older := copied(tb, m.dir)
						return func() error {
							return errors.Join(m.Close(), putBack(m.dir, older), m.start(tb.Context()))
						}, nil
					},
				}
			}
			storetest.Run(t, open, &storetest.Options{Groups: []string{"loss"}})
		})
	}
}

// epoch returns the epoch of the stream "s", which it makes if there is none.
func (m *machine) epoch(t *testing.T) reprise.Epoch {
	t.Helper()
	info, err := m.Create(t.Context(), reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "default", Name: "s"}, Epoch: reprise.NewEpoch(), Created: time.Now(),
	})
	check(t, err)
	return info.Epoch
}

// TestEpochsAreKeptOrNotByNamesOfStarts: a store that the file knows keeps its epochs, and another one does not.
func TestEpochsAreKeptOrNotByNamesOfStarts(t *testing.T) {
	cases := []struct {
		name    string
		between func(t *testing.T, m *machine)
		renewed bool
	}{
		{"nothing", func(*testing.T, *machine) {}, false},
		{"crash between both names", func(t *testing.T, m *machine) {
			blocks := m.file + ".new"
			check(t, os.Mkdir(blocks, 0o700))
			for range 3 {
				check(t, m.start(t.Context()))
				check(t, m.Close())
			}
			check(t, os.Remove(blocks))
		}, false},
		{"another store", func(t *testing.T, m *machine) {
			other := machines(t)["log"]
			other.file = m.file
			check(t, other.start(t.Context()))
			check(t, other.Close())
		}, false},
		{"copied, and the copy is used", func(t *testing.T, m *machine) {
			from, err := storeurl.Open(t.Context(), m.url, nil)
			check(t, err)
			other := machines(t)["sqlite"]
			other.file = m.file
			to, err := storeurl.Open(t.Context(), other.url, nil)
			check(t, err)
			for range 2 { // the second time changes nothing
				check(t, upkeep.CopyStart(t.Context(), from, to))
			}
			check(t, errors.Join(from.Close(), to.Close(), other.start(t.Context()), other.Close()))
		}, true},
		{"the file is gone", func(t *testing.T, m *machine) { check(t, os.Remove(m.file)) }, true},
		{"the file knows others", func(t *testing.T, m *machine) {
			check(t, os.WriteFile(m.file, []byte("7.other\n"), 0o600))
		}, true},
	}
	for scheme := range machines(t) {
		for _, c := range cases {
			t.Run(scheme+"/"+c.name, func(t *testing.T) {
				m := machines(t)[scheme]
				check(t, m.start(t.Context()))
				before := m.epoch(t)
				check(t, m.Close())
				c.between(t, m)
				check(t, m.start(t.Context()))
				defer m.Close()
				if now := m.epoch(t); (now != before) != c.renewed {
					t.Errorf("epoch %s, before %s", now, before)
				}
			})
		}
	}
}

// TestStoreOfEarlierVersionKeepsEpochs: neither the store nor the file has a name.
func TestStoreOfEarlierVersionKeepsEpochs(t *testing.T) {
	for scheme, m := range machines(t) {
		store, err := storeurl.Open(t.Context(), m.url, nil)
		check(t, err)
		m.Store = store
		before := m.epoch(t)
		check(t, store.Close())
		check(t, m.start(t.Context()))
		if now := m.epoch(t); now != before {
			t.Errorf("%s: epoch %s, before %s", scheme, now, before)
		}
		check(t, m.Close())
	}
}

// TestRestoredStoreKeepsEpochs: its streams are in other epochs already.
func TestRestoredStoreKeepsEpochs(t *testing.T) {
	for scheme, m := range machines(t) {
		check(t, m.start(t.Context()))
		m.epoch(t)
		check(t, m.Close())
		store, err := storeurl.Open(t.Context(), m.url, nil)
		check(t, err)
		restored := *m
		restored.file = filepath.Join(t.TempDir(), "starts")
		check(t, upkeep.RecordStart(t.Context(), store, restored.file))
		check(t, store.Close())
		check(t, restored.start(t.Context()))
		before := restored.epoch(t)
		check(t, restored.Close())
		check(t, m.start(t.Context()))
		if now := m.epoch(t); now == before {
			t.Errorf("%s: the old file knows the restored store", scheme)
		}
		check(t, m.Close())
	}
}

// renewable is a Store in memory that counts renewals.
type renewable struct {
	reprise.Store
	renewals int
}

func (r *renewable) Renew(context.Context) (int, error) {
	r.renewals++
	return 0, nil
}

// TestNameChangesAfterAppends: files from before a minute of appends are found also if the server was killed.
func TestNameChangesAfterAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "starts")
		names := func() string {
			text, err := os.ReadFile(file)
			check(t, err)
			return string(text)
		}
		starts, err := upkeep.OpenStarts(t.Context(), &renewable{Store: memstore.New(nil)}, file, slog.Default())
		check(t, err)
		first := names()
		time.Sleep(time.Hour)
		if names() != first {
			t.Error("an idle server writes")
		}
		starts.Used()
		time.Sleep(time.Minute)
		synctest.Wait()
		if second := names(); second == first || strings.Count(second, "\n") != 1 {
			t.Errorf("after appends the names are %q, before %q", second, first)
		}
		check(t, starts.Close())
	})
}

// TestSharedStoreHasNoStarts: replicas start at any time, and such stores detect losses by themselves.
func TestSharedStoreHasNoStarts(t *testing.T) {
	starts, err := upkeep.OpenStarts(t.Context(), memstore.New(nil), "/nowhere", nil)
	check(t, err)
	starts.Used()
	check(t, starts.Close())
}
