package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"reprise"
	"reprise/store/sqlitestore"
)

// mustOpen opens a store that is closed with the test.
func mustOpen(tb testing.TB, path string, opts *sqlitestore.Options) *sqlitestore.Store {
	tb.Helper()
	s, err := sqlitestore.Open(context.Background(), path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

// create makes a stream named name.
func create(tb testing.TB, s reprise.Store, name string) reprise.StreamInfo {
	tb.Helper()
	info, err := s.Create(tb.Context(), reprise.StreamInfo{
		Key:   reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name},
		Epoch: reprise.NewEpoch(), Created: time.Now().UTC(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

// one is a request for a batch of one event behind info's tail, which it moves.
func one(info *reprise.StreamInfo, data []byte) reprise.AppendRequest {
	info.Tail++
	info.Bytes += int64(len(data))
	return reprise.AppendRequest{
		Key: info.Key, Epoch: info.Epoch, First: info.Tail, Count: 1, Bytes: data,
		Earliest: info.Earliest, Kept: info.Bytes,
	}
}

func appendOne(s reprise.Store, info *reprise.StreamInfo, data []byte) error {
	before := *info
	if errs := s.Append(context.Background(), []reprise.AppendRequest{one(info, data)}); errs != nil {
		*info = before
		return errs[0]
	}
	return nil
}

// execute runs SQL on a file that no Store has.
func execute(t *testing.T, path, script string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(sqlitex.ExecuteScript(conn, script, nil), conn.Close())
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"not SQLite", func(t *testing.T, path string) {
			write(t, path, strings.Repeat("a file of somebody else\n", 1000))
		}, sqlitestore.ErrNotOurs},
		{"SQLite of another program", func(t *testing.T, path string) {
			execute(t, path, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);")
		}, sqlitestore.ErrNotOurs},
		{"newer schema", func(t *testing.T, path string) {
			closeStore(t, path)
			execute(t, path, "PRAGMA user_version = 99;")
		}, sqlitestore.ErrNewer},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, sqlitestore.ErrNotOurs},
		{"in use", func(t *testing.T, path string) { mustOpen(t, path, nil) }, sqlitestore.ErrInUse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.db")
			tt.make(t, path)
			before, _ := os.ReadFile(path)
			s, err := sqlitestore.Open(t.Context(), path, nil)
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err == nil {
				s.Close()
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the refused file was changed")
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// closeStore leaves a file that a Store has made.
func closeStore(t *testing.T, path string) {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileIsForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := mustOpen(t, path, nil)
	create(t, s, "a")
	for _, p := range []string{path, path + "-wal", path + ".lock"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", filepath.Base(p), info.Mode())
		}
	}
}

func TestFolderThatDoesNotExist(t *testing.T) {
	_, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "no", "events.db"), nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Bytes that were changed on the disk are found by their checksums and never served.
func TestDamageIsNotServed(t *testing.T) {
	for name, script := range map[string]string{
		"batches": "UPDATE batches SET data = zeroblob(length(data));",
		"hole":    "DELETE FROM batches;",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.db")
			s, err := sqlitestore.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			info := create(t, s, "a")
			if err := appendOne(s, &info, []byte("kept")); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil { // folds
				t.Fatal(err)
			}
			execute(t, path, script)
			s = mustOpen(t, path, nil)
			if page, err := s.Read(t.Context(), info.Key, 0, 1<<20); !errors.Is(err, sqlitestore.ErrDamaged) {
				t.Errorf("read: %d batches, %v", len(page.Batches), err)
			}
			wrong, err := s.Check(t.Context())
			if err != nil || len(wrong) != 1 || !strings.Contains(wrong[0], info.Key.String()) {
				t.Errorf("check: %q, %v", wrong, err)
			}
		})
	}
	t.Run("journal", func(t *testing.T) {
		path := crashed(t)
		execute(t, path, "UPDATE commits SET data = zeroblob(length(data));")
		if s, err := sqlitestore.Open(t.Context(), path, nil); !errors.Is(err, sqlitestore.ErrDamaged) {
			t.Errorf("opened: %v", err)
			s.Close()
		}
	})
}

// crashed returns the path of a file as a crash leaves it: with something in its journal.
func crashed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "events.db"), &sqlitestore.Options{FoldAfter: time.Hour})
	info := create(t, s, "a")
	for i := range 10 {
		if err := appendOne(s, &info, fmt.Append(nil, "event ", i)); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(left, "events.db")
}

func TestJournalIsReplayedAfterCrash(t *testing.T) {
	s := mustOpen(t, crashed(t), nil)
	page, err := s.Read(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "a"}, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Batches) != 10 || page.Info.Tail != 10 || string(page.Batches[9].Bytes) != "event 9" {
		t.Errorf("%d batches, tail %d", len(page.Batches), page.Info.Tail)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Streams != 1 || stats.Events != 10 || stats.Commits != 10 || stats.FileBytes == 0 {
		t.Errorf("%+v", stats)
	}
}

// TestClosedStoreIsOneFile: whoever copies the file of a store that was closed has all of it.
func TestClosedStoreIsOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "t", Name: "s"}, Epoch: reprise.NewEpoch(), Created: time.Now(),
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the write-ahead log is still there: %v", err)
	}
}
