package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"reprise"
)

func openHere(t *testing.T, path string, opts *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func createHere(t *testing.T, s *Store, name string) reprise.StreamInfo {
	t.Helper()
	info, err := s.Create(t.Context(), reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "t", Name: name}, Epoch: reprise.NewEpoch(), Created: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func next(info *reprise.StreamInfo, data []byte) reprise.AppendRequest {
	info.Tail++
	info.Bytes += int64(len(data))
	return reprise.AppendRequest{
		Key: info.Key, Epoch: info.Epoch, First: info.Tail, Count: 1, Bytes: data, Earliest: 1,
		Kept: info.Bytes,
	}
}

// A crash, or a full disk, between the first setting and the schema does not spoil the file.
func TestInterruptedCreationIsResumed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"PRAGMA page_size=4096", "PRAGMA auto_vacuum=INCREMENTAL", "PRAGMA journal_mode=WAL"} {
		if err := sqlitex.ExecuteTransient(conn, p, nil); err != nil {
			t.Fatal(err)
		}
	}
	conn.Close() // the crash: before the schema was made
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("a file whose making was cut short: %v", err)
	}
	s.Close()
}

// time.Time.UnixNano ends in 2262; a longer retention is no reason to sweep at once.
func TestStreamKeptForCenturies(t *testing.T) {
	s := openHere(t, filepath.Join(t.TempDir(), "a.db"), nil)
	info := createHere(t, s, "s")
	req := next(&info, []byte("x"))
	now := time.Now()
	req.End = &reprise.End{Outcome: "completed", Time: now, Expires: now.Add(math.MaxInt64)}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs)
	}
	swept, err := s.Sweep(t.Context(), now, now.Add(time.Hour), 10)
	if err != nil || len(swept) != 0 {
		t.Fatalf("a stream that expires in %v was swept: %d, %v", req.End.Expires, len(swept), err)
	}
}

// Appends fold too. Folding at once, they must not count the journal off twice.
func TestConcurrentFoldsCountJournalOnce(t *testing.T) {
	s := openHere(t, filepath.Join(t.TempDir(), "a.db"), nil)
	var wg sync.WaitGroup
	for i := range 200 {
		info := createHere(t, s, fmt.Sprint("s", i))
		if errs := s.Append(t.Context(), []reprise.AppendRequest{next(&info, make([]byte, 15000))}); errs != nil {
			t.Fatal(errs)
		}
	}
	for range 4 {
		wg.Go(func() {
			if err := s.foldAll(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := s.writer.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.writer.leave()
	if s.writer.journalBytes < 0 {
		t.Fatalf("journalBytes is %d", s.writer.journalBytes)
	}
}

// Calls wait for others no longer than their context allows, nor than the Store does; then they leave no trace.
func TestWaitingIsBounded(t *testing.T) {
	s := openHere(t, filepath.Join(t.TempDir(), "a.db"), nil)
	info := createHere(t, s, "s")
	reqs := []reprise.AppendRequest{next(&info, []byte("x"))}
	if err := s.writer.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(cause) })
	if errs := s.Append(ctx, reqs); len(errs) != 1 || !errors.Is(errs[0], cause) {
		t.Errorf("append that is cancelled while it waits: %v", errs)
	}
	s.writer.longest = 10 * time.Millisecond
	if errs := s.Append(context.Background(), reqs); len(errs) != 1 || !errors.Is(errs[0], reprise.ErrUnavailable) {
		t.Errorf("append that waits for too long: %v", errs)
	}
	if err := s.Remove(context.Background(), info.Key, reprise.RemoveSpec{}); !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("removal that waits for too long: %v", err)
	}
	s.writer.leave()
	if errs := s.Append(t.Context(), reqs); errs != nil {
		t.Errorf("append after that: %v", errs)
	}
}

// The contract allows one batch of a stream in a call. A second must not spoil the journal.
func TestTwoBatchesOfOneStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := openHere(t, path, &Options{FoldAfter: time.Hour})
	info := createHere(t, s, "s")
	req := next(&info, []byte("x"))
	errs := s.Append(t.Context(), []reprise.AppendRequest{req, req})
	tail := s.cache.find(info.Key).info.Tail
	if errs == nil || tail != 1 {
		t.Fatalf("the same batch twice in a call: %v, tail %d", errs, tail)
	}
}

// A batch whose bytes are nil is a small one, not a large one without a row.
func TestBatchWithoutBytesOutlivesACrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	s := openHere(t, path, &Options{FoldAfter: time.Hour})
	info := createHere(t, s, "s")
	if errs := s.Append(t.Context(), []reprise.AppendRequest{next(&info, nil)}); errs != nil {
		t.Fatal(errs)
	}
	os.MkdirAll(filepath.Join(dir, "b"), 0o700)
	for _, suffix := range []string{"", "-wal"} {
		b, _ := os.ReadFile(path + suffix)
		os.WriteFile(filepath.Join(dir, "b", "a.db"+suffix), b, 0o600)
	}
	s2 := openHere(t, filepath.Join(dir, "b", "a.db"), nil)
	page, err := s2.Read(t.Context(), info.Key, 0, 1<<20)
	if err != nil || len(page.Batches) != 1 {
		t.Fatalf("after a crash: %d batches, %v", len(page.Batches), err)
	}
}

// What has left the window is deleted while appends go on, long before FoldAfter.
func TestWindowBoundsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := openHere(t, path, &Options{FoldBytes: 1 << 20})
	info := createHere(t, s, "s")
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for range 64 {
		req := next(&info, data)
		if info.Tail > 8 {
			req.Earliest = info.Tail - 7
			req.Kept = 8 << 20
		}
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Fatal(errs)
		}
	}
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.FileBytes+st.WALBytes > 48<<20 {
		t.Fatalf("64 MiB through a window of 8 MiB: file %d MiB, WAL %d MiB", st.FileBytes>>20, st.WALBytes>>20)
	}
}

// Reading many streams keeps no more of them in memory than maxCached.
func TestReadingDoesNotFillMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := openHere(t, path, &Options{Sync: SyncNormal})
	keys := make([]reprise.StreamKey, 200)
	for i := range keys {
		keys[i] = createHere(t, s, fmt.Sprint("r", i)).Key
	}
	s.cache.init(s) // as after a start
	for i := range maxCached {
		s.cache.put(&stream{
			id:   int64(-1 - i),
			info: reprise.StreamInfo{Key: reprise.StreamKey{Tenant: "u", Name: fmt.Sprint(i)}},
		})
	}
	for _, key := range keys {
		if _, err := s.Read(t.Context(), key, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.foldAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.cache.mu.RLock()
	defer s.cache.mu.RUnlock()
	if len(s.cache.byKey) > maxCached {
		t.Fatalf("%d streams in memory, at most %d should be", len(s.cache.byKey), maxCached)
	}
}

// What was removed goes back to the file system, though nothing is appended any more.
func TestRemovedSpaceIsGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := openHere(t, path, &Options{FoldAfter: 5 * time.Millisecond})
	info := createHere(t, s, "s")
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for range 24 {
		if errs := s.Append(t.Context(), []reprise.AppendRequest{next(&info, data)}); errs != nil {
			t.Fatal(errs)
		}
	}
	if err := s.Remove(t.Context(), info.Key, reprise.RemoveSpec{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var st Stats
	for time.Now().Before(deadline) {
		st, _ = s.Stats(t.Context())
		if st.FreeBytes < 12<<20 {
			return
		}
		<-tick.C
	}
	t.Fatalf("of %d MiB, %d MiB are free, and stay so", st.FileBytes>>20, st.FreeBytes>>20)
}
