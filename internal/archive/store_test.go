package archive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"reprise"
	"reprise/internal/archive"
)

// openStore opens the archive in a folder. It panics, for the victim of a test uses it too.
func openStore(dir string) *archive.Store {
	folder, err := archive.OpenFolder(dir)
	if err != nil {
		panic(err)
	}
	store, err := archive.Open(folder)
	if err != nil {
		panic(err)
	}
	return store
}

func newStore(tb testing.TB) *archive.Store {
	store := openStore(tb.TempDir())
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

// wantArchived wants all of a stream to be in the archive.
func wantArchived(tb testing.TB, store *archive.Store, info reprise.StreamInfo, batches []reprise.Batch) {
	tb.Helper()
	var got []reprise.Batch
	for after := uint64(0); ; {
		page, err := store.Read(context.WithoutCancel(tb.Context()), info.Key, after, 10_000)
		check(tb, err)
		if diff := cmp.Diff(info, page.Info, cmpopts.EquateEmpty()); diff != "" {
			tb.Fatal(diff)
		}
		if len(page.Batches) == 0 {
			break
		}
		got = append(got, page.Batches...)
		after = page.Batches[len(page.Batches)-1].Last()
	}
	wantBatches(tb, got, batches)
	if has, err := store.Has(tb.Context(), info); err != nil || !has {
		tb.Fatal("it is not said to be there:", err)
	}
}

func TestStoreReadsWhatWasPut(t *testing.T) {
	store := newStore(t)
	streams := map[string][]reprise.Batch{
		"a": someBatches(1, 100, 50), "a/b": someBatches(7, 1000, 900),
		"execution:x": nil,
	}
	for name, batches := range streams {
		info := ended(name, 7, batches...)
		if len(batches) > 0 {
			info.Earliest = batches[0].First
		}
		if has, err := store.Has(t.Context(), info); err != nil || has {
			t.Fatal("it is there before it is put:", err)
		}
		check(t, store.Put(t.Context(), info, all(batches)))
		wantArchived(t, store, info, batches)
		check(t, store.Put(t.Context(), info, all(batches)))
		wantArchived(t, store, info, batches)
	}
}

// TestReadReturnsNewestEpoch archives three epochs of a name in different orders.
func TestReadReturnsNewestEpoch(t *testing.T) {
	store := newStore(t)
	for _, year := range []int{2002, 2003, 2001} {
		info := ended("s", 1)
		info.Created = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		check(t, store.Put(t.Context(), info, all(nil)))
	}
	page, err := store.Read(t.Context(), reprise.StreamKey{Tenant: "default", Name: "s"}, 0, 1)
	if err != nil || page.Info.Created.Year() != 2003 {
		t.Fatal(page.Info.Created, err)
	}
	list, err := store.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(list.Streams) != 1 || list.Streams[0].Created.Year() != 2003 {
		t.Fatal(list, err)
	}
}

// TestTenantsStayApart: no tenant leads out of the archive or into that of another.
func TestTenantsStayApart(t *testing.T) {
	store := newStore(t)
	tenants := []reprise.Tenant{".", "..", "a", "A", "default"}
	for _, tenant := range tenants {
		info := ended("s", 1)
		info.Key.Tenant = tenant
		check(t, store.Put(t.Context(), info, all(nil)))
		wantArchived(t, store, info, nil)
	}
	for _, tenant := range tenants {
		list, err := store.List(t.Context(), reprise.ListQuery{Tenant: tenant, AllNamespaces: true, Limit: 10})
		if err != nil || len(list.Streams) != 1 || list.Streams[0].Key.Tenant != tenant {
			t.Errorf("%q: %v, %v", tenant, list, err)
		}
	}
	for _, key := range []reprise.StreamKey{{Tenant: "a", Name: "../A/s"}, {Tenant: "a/..", Name: "s"}, {}} {
		if _, err := store.Read(t.Context(), key, 0, 1); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("%v: %v", key, err)
		}
	}
}

func TestListInPages(t *testing.T) {
	store := newStore(t)
	start := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 50 {
		info := ended(fmt.Sprint([]string{"", "x:", "y:"}[i%3], "s", i), 1)
		info.Created = start.Add(time.Duration(i/2) * time.Millisecond) // two at a time
		check(t, store.Put(t.Context(), info, all(nil)))
	}
	for _, c := range []struct {
		q     reprise.ListQuery
		count int
	}{
		{reprise.ListQuery{AllNamespaces: true}, 50},
		{reprise.ListQuery{Namespace: "x:"}, 17},
		{reprise.ListQuery{}, 17},
		{reprise.ListQuery{Tenant: "default", Namespace: "y:"}, 16},
		{reprise.ListQuery{Tenant: "nobody", AllNamespaces: true}, 0},
	} {
		seen := map[string]bool{}
		last := start.Add(time.Hour)
		for c.q.Limit = 7; ; {
			page, err := store.List(t.Context(), c.q)
			check(t, err)
			for _, s := range page.Streams {
				if s.Created.After(last) || seen[s.Key.Name] || s.Producers != nil {
					t.Fatalf("%+v: %v comes after %v", c.q, s, last)
				}
				last, seen[s.Key.Name] = s.Created, true
			}
			if c.q.After = page.Next; c.q.After == "" {
				break
			}
		}
		if len(seen) != c.count {
			t.Errorf("%+v: %d streams, want %d", c.q, len(seen), c.count)
		}
	}
	if _, err := store.List(t.Context(),
		reprise.ListQuery{AllNamespaces: true, Limit: 1, After: "nonsense"}); !errors.Is(err, reprise.ErrInvalid) {
		t.Error(err)
	}
}

func TestArchiveIsReadOnly(t *testing.T) {
	store := newStore(t)
	info := ended("s", 1)
	check(t, store.Put(t.Context(), info, all(nil)))
	if _, err := store.Create(t.Context(), info); !errors.Is(err, reprise.ErrInvalid) {
		t.Error("create:", err)
	}
	if errs := store.Append(t.Context(), make([]reprise.AppendRequest, 2)); len(errs) != 2 ||
		!errors.Is(errs[1], reprise.ErrInvalid) {
		t.Error("append:", errs)
	}
	if err := store.Remove(t.Context(), info.Key, reprise.RemoveSpec{}); !errors.Is(err, reprise.ErrInvalid) {
		t.Error("remove:", err)
	}
	wantArchived(t, store, info, nil)
	check(t, store.Close())
	if _, err := store.Read(t.Context(), info.Key, 0, 1); !errors.Is(err, reprise.ErrClosed) {
		t.Error("read after close:", err)
	}
	if _, err := store.List(t.Context(), reprise.ListQuery{Limit: 1}); !errors.Is(err, reprise.ErrClosed) {
		t.Error("list after close:", err)
	}
}

// TestDamagedFileIsNamed: it is listed, so that a check finds it, and cannot be read. One that was
// renamed is not taken for another stream.
func TestDamagedFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	store := openStore(dir)
	defer store.Close()
	batches := someBatches(1, 100, 50)
	for _, name := range []string{"torn", "fine", "renamed"} {
		check(t, store.Put(t.Context(), ended(name, 1, batches...), all(batches)))
	}
	one := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0]
	}
	torn := one("default/torn/@*")
	info, err := os.Stat(torn)
	check(t, err)
	check(t, os.Truncate(torn, info.Size()-1))
	check(t, os.Rename(filepath.Join(dir, "default/renamed"), filepath.Join(dir, "default/other")))
	list, err := store.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(list.Streams) != 3 {
		t.Fatal(list, err)
	}
	for _, name := range []string{"torn", "other"} {
		if _, err := store.Read(t.Context(), reprise.StreamKey{Tenant: "default", Name: name}, 0, 1); !errors.Is(err,
			archive.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = store.Read(t.Context(), reprise.StreamKey{Tenant: "default", Name: "fine"}, 0, 1)
	check(t, err)
}

// TestCheckCoversOlderEpochs: Check also covers epochs that no list shows.
func TestCheckCoversOlderEpochs(t *testing.T) {
	dir := t.TempDir()
	store := openStore(dir)
	defer store.Close()
	batches := someBatches(1, 100, 50)
	for _, year := range []int{2002, 2003, 2001} {
		info := ended("s", 1, batches...)
		info.Created = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		check(t, store.Put(t.Context(), info, all(batches)))
	}
	if wrong, err := store.Check(t.Context()); err != nil || len(wrong) != 0 {
		t.Fatal(wrong, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "default/s/@*"))
	check(t, err)
	for _, file := range files { // a byte in the middle, which opening the file does not read
		content, err := os.ReadFile(file)
		check(t, err)
		content[len(content)/2] ^= 1
		check(t, os.WriteFile(file, content, 0o600))
	}
	if wrong, err := store.Check(t.Context()); err != nil || len(wrong) != 2 {
		t.Fatalf("%q, %v, want two older lives", wrong, err)
	}
}
