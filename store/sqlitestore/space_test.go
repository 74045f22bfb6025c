package sqlitestore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// TestEveryConnectionSyncsAsAsked asks the connection that writes for its level of synchronous: no crash of the program
// shows a lower one.
func TestEveryConnectionSyncsAsAsked(t *testing.T) {
	for level, want := range map[Sync]int64{SyncFull: 2, SyncNormal: 1} {
		s := openHere(t, filepath.Join(t.TempDir(), "events.db"), &Options{Sync: level})
		if got, err := pragma(s.writer.conn, "synchronous"); got != want || err != nil {
			t.Errorf("Sync %d: synchronous is %d, want %d, %v", level, got, want, err)
		}
	}
}

// TestUnsealFindsEachFlippedBit flips every bit of a sealed text in turn.
func TestUnsealFindsEachFlippedBit(t *testing.T) {
	sealed := seal([]byte("a batch of some events"))
	for i := range 8 * len(sealed) {
		sealed[i/8] ^= 1 << (i % 8)
		if _, err := unseal(sealed); err == nil {
			t.Errorf("bit %d is flipped, and nobody sees it", i)
		}
		sealed[i/8] ^= 1 << (i % 8)
	}
	if _, err := unseal(sealed); err != nil {
		t.Error(err)
	}
}

// TestRemovedStreamsGiveTheirSpaceBack sweeps many ended streams, and waits for the file to get short while the Store
// is open.
func TestRemovedStreamsGiveTheirSpaceBack(t *testing.T) {
	const streams = 1000
	path := filepath.Join(t.TempDir(), "events.db")
	s := openHere(t, path, &Options{FoldAfter: 20 * time.Millisecond, Sync: SyncNormal})
	past := time.UnixMilli(1).UTC()
	for i := range streams {
		info := reprise.StreamInfo{
			Key: reprise.StreamKey{Tenant: "t", Name: fmt.Sprint("s", i)}, Epoch: reprise.NewEpoch(), Created: past,
			Config: reprise.StreamConfig{Labels: map[string]string{"text": strings.Repeat("x", 1000)}},
		}
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		errs := s.Append(t.Context(), []reprise.AppendRequest{{
			Key: info.Key, Epoch: info.Epoch, First: 1, Count: 1, Bytes: make([]byte, 20_000), Earliest: 1,
			Kept: 20_000,
			End:  &reprise.End{Outcome: "completed", Time: past, Expires: past},
		}})
		if errs != nil {
			t.Fatal(errs)
		}
	}
	swept, err := s.Sweep(t.Context(), time.Now(), time.Now().Add(time.Hour), streams)
	if err != nil || len(swept) != streams {
		t.Fatal(len(swept), err)
	}
	if kept := len(s.cache.byKey); kept > 0 {
		t.Errorf("%d removed streams are in memory", kept)
	}
	// 1 MiB to spare, vacuumPages, the marks, and what the write-ahead log holds since it was emptied
	const most = 5 << 20
	for deadline := time.Now().Add(2 * time.Minute); ; {
		size := int64(0)
		for _, name := range []string{path, path + "-wal"} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if size < most {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the file and its log have %d bytes, want less than %d", size, most)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestFileWithoutVacuumIsRewrittenOnce opens a file that cannot give pages back: one that is too large stays as it is,
// and the log says so.
func TestFileWithoutVacuumIsRewrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openHere(t, path, nil)
	info := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "t", Name: "s"}, Epoch: reprise.NewEpoch(),
		Created: time.UnixMilli(1).UTC(),
	}
	if _, err := s.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := execute(conn, "PRAGMA auto_vacuum=NONE", "VACUUM"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		most, mode int64
	}{{1, 0}, {0, 2}, {1, 2}} {
		var log strings.Builder
		s := openHere(t, path, &Options{maxRewrite: c.most, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		mode, err := pragma(s.writer.conn, "auto_vacuum")
		if mode != c.mode || err != nil || (log.Len() > 0) != (mode == 0) {
			t.Errorf("auto_vacuum is %d, want %d, %v; the log says %q", mode, c.mode, err, &log)
		}
		if _, err := s.Read(t.Context(), info.Key, 0, 1); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckpointDoesNotWaitForReaders: a backup reads from a snapshot for as long as it takes. The writer empties its
// log later then, and goes on.
func TestCheckpointDoesNotWaitForReaders(t *testing.T) {
	s := openHere(t, filepath.Join(t.TempDir(), "events.db"), nil)
	info := createHere(t, s, "s")
	conn := <-s.readers
	if err := execute(conn, "BEGIN", "SELECT count(*) FROM streams"); err != nil {
		t.Fatal(err)
	}
	errs := s.Append(t.Context(), []reprise.AppendRequest{{
		Key: info.Key, Epoch: info.Epoch, First: 1, Count: 1, Bytes: []byte("x"), Earliest: 1, Kept: 1,
	}})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.writer.checkpoint() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the reader")
	}
	if err := execute(conn, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	s.readers <- conn
}
