package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/storeurl"
	"reprise/internal/transfer"
	"reprise/internal/upkeep"
	"reprise/store/sqlitestore"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the store that a URL names, and a Log with the keys of the test.
func open(t *testing.T, url, folder string, keys *reprise.Keyset) (reprise.Store, *reprise.Log) {
	t.Helper()
	store, err := storeurl.Open(t.Context(), url, &storeurl.Options{
		Keys: filepath.Join(folder, "store.keys"), MakeKeys: true,
	})
	check(t, err)
	log, err := reprise.Open(t.Context(), store, &reprise.Options{Keys: keys, SweepEvery: -1})
	check(t, err)
	t.Cleanup(func() {
		check(t, errors.Join(log.Close(), store.Close()))
	})
	return store, log
}

func create(t *testing.T, log *reprise.Log, name string) *reprise.Stream {
	t.Helper()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
	s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{Labels: map[string]string{"a": "b"}})
	check(t, err)
	return s
}

func add(t *testing.T, s *reprise.Stream, texts ...string) {
	t.Helper()
	for _, text := range texts {
		_, err := s.Append(t.Context(), reprise.Event{Data: []byte(text)})
		check(t, err)
	}
}

// read returns the texts of the events that are there after a position.
func read(t *testing.T, log *reprise.Log, name string, from reprise.Position) (texts []string, err error) {
	t.Helper()
	s, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name})
	check(t, err)
	r, err := s.Reader(t.Context(), from)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	info, err := s.Info(t.Context())
	check(t, err)
	if r.Cursor().Seq >= info.Tail {
		return nil, nil
	}
	for e, err := range r.Events(t.Context()) {
		if err != nil {
			return texts, err
		}
		texts = append(texts, string(e.Data))
		if e.Seq == info.Tail {
			return texts, nil
		}
	}
	return texts, nil
}

// TestRestoredCursorsAreExactOrRefused backs up a store, goes on with it, and restores the backup elsewhere: what was
// appended after the backup is told as lost, also once other events have taken its place.
func TestRestoredCursorsAreExactOrRefused(t *testing.T) {
	for _, wrappers := range []string{"", "compress+encrypt+"} {
		for _, kind := range []string{"sqlite", "memory"} {
			t.Run(wrappers+kind, func(t *testing.T) {
				folder, keys := t.TempDir(), reprise.NewKeyset()
				url := wrappers + "memory:"
				if kind == "sqlite" {
					url = wrappers + "sqlite:" + filepath.Join(folder, "a.db")
				}
				store, log := open(t, url, folder, keys)
				s, ended := create(t, log, "open"), create(t, log, "ended")
				add(t, s, "1", "2")
				add(t, ended, "last")
				_, err := ended.End(t.Context(), "completed", reprise.Event{Data: []byte("the end")})
				check(t, err)
				middle, tail := s.Cursor(1), s.Cursor(2)

				backup := filepath.Join(folder, "backup.db")
				check(t, upkeep.Backup(t.Context(), store, backup))
				add(t, s, "3 before", "4 before")
				beyond := s.Cursor(3)
				if err := upkeep.Backup(t.Context(), store, backup); !errors.Is(err, os.ErrExist) {
					t.Errorf("a backup over another: %v", err)
				}

				target := "sqlite:" + filepath.Join(folder, "b.db")
				restore(t, backup, target)
				_, restored := open(t, wrappers+target, folder, keys)
				verifyRestored(t, restored, middle, tail, beyond)
			})
		}
	}
}

// restore restores twice, of which the second time is refused.
func restore(t *testing.T, backup, target string) {
	t.Helper()
	store, err := storeurl.Open(t.Context(), target, &storeurl.Options{Unchecked: true})
	check(t, err)
	result, err := upkeep.Restore(t.Context(), backup, store, nil)
	check(t, err)
	if result.Copied < 2 || len(result.Failed) > 0 {
		t.Errorf("%+v", result)
	}
	if _, err := upkeep.Restore(t.Context(), backup, store, nil); !errors.Is(err, upkeep.ErrNotEmpty) {
		t.Errorf("restored twice: %v", err)
	}
	check(t, store.Close())
}

func verifyRestored(t *testing.T, restored *reprise.Log, middle, tail, beyond reprise.Cursor) {
	t.Helper()
	wantTexts := func(name string, from reprise.Position, want ...string) {
		t.Helper()
		got, err := read(t, restored, name, from)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	wantTexts("ended", reprise.Earliest(), "last", "the end")
	wantTexts("open", reprise.Earliest(), "1", "2")
	again, err := restored.Stream(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "open"})
	check(t, err)
	refused := func() {
		t.Helper()
		_, err := read(t, restored, "open", reprise.After(beyond))
		window, ok := errors.AsType[*reprise.WindowError](err)
		if !ok || window.Reason != reprise.EpochChanged || window.Fork.Seq != 2 {
			t.Errorf("a cursor beyond the backup: %v", err)
		}
	}
	refused()
	add(t, again, "3 after", "4 after")
	refused()
	wantTexts("open", reprise.After(middle), "2", "3 after", "4 after")
	wantTexts("open", reprise.After(tail), "3 after", "4 after")
}

// TestBackupWhileOthersAppend: the file is whole, and everything that was acknowledged before it began is in it.
func TestBackupWhileOthersAppend(t *testing.T) {
	folder := t.TempDir()
	store, log := open(t, "sqlite:"+filepath.Join(folder, "a.db"), folder, reprise.NewKeyset())
	s := create(t, log, "busy")
	var acknowledged atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			a, err := s.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			if err != nil {
				done <- err
				return
			}
			acknowledged.Store(int64(a.Last))
		}
		done <- nil
	}()
	for acknowledged.Load() < 200 {
		if len(done) > 0 {
			t.Fatal(<-done)
		}
	}
	before := acknowledged.Load()
	backup := filepath.Join(folder, "backup.db")
	check(t, upkeep.Backup(t.Context(), store, backup))
	stop()
	check(t, <-done)

	copied, err := sqlitestore.Open(t.Context(), backup, nil)
	check(t, err)
	defer copied.Close()
	checked, err := transfer.Check(t.Context(), copied, nil, func(p transfer.Problem) { t.Error(p) })
	check(t, err)
	if checked.Events < before || checked.Events > acknowledged.Load() {
		t.Errorf("%d events, %d were acknowledged before and %d in all", checked.Events, before, acknowledged.Load())
	}
}

// TestBackupThatFailsLeavesNoFile: a file that is there is a whole backup.
func TestBackupThatFailsLeavesNoFile(t *testing.T) {
	folder := t.TempDir()
	store, log := open(t, "sqlite:"+filepath.Join(folder, "a.db"), folder, reprise.NewKeyset())
	add(t, create(t, log, "s"), "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	backup := filepath.Join(folder, "backup.db")
	if err := upkeep.Backup(ctx, store, backup); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled backup: %v", err)
	}
	if _, err := os.Stat(backup); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has left %v", err)
	}
}

func TestMeasureCountsEachTenant(t *testing.T) {
	folder := t.TempDir()
	store, log := open(t, "compress+sqlite:"+filepath.Join(folder, "a.db"), folder, reprise.NewKeyset())
	add(t, create(t, log, "s"), "1", "2")
	stats, err := upkeep.Measure(t.Context(), log, store, folder)
	check(t, err)
	if size := stats.Tenants[reprise.DefaultTenant]; size.Streams != 1 || size.Events != 2 || size.Bytes == 0 {
		t.Errorf("%+v", size)
	}
	if free, err := datadir.Free(folder); err == nil && (stats.DiskFree == nil || *stats.DiskFree>>30 != free>>30) {
		t.Errorf("of the disk %v are free, %d in truth", stats.DiskFree, free)
	}
	if stats.SQLite == nil || stats.SQLite.FileBytes == 0 || stats.Redis != nil {
		t.Errorf("%+v", stats)
	}
}
