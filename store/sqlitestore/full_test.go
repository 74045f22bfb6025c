package sqlitestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"reprise"
	"reprise/store/internal/driver"
	"reprise/store/sqlitestore"
)

// fillWith makes ended streams of some events until the disk is full, and returns their number.
func fillWith(t *testing.T, s reprise.Store, name string, size int) (n int) {
	t.Helper()
	past := time.Now().Add(-time.Hour).UTC()
	for ; ; n++ {
		info, err := s.Create(t.Context(), reprise.StreamInfo{
			Key:   reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint(name, n)},
			Epoch: reprise.NewEpoch(), Created: past,
		})
		if err == nil {
			err = appendOne(s, &info, bytes.Repeat([]byte("x"), size))
		}
		if err == nil {
			req := one(&info, []byte("the end"))
			req.End = &reprise.End{Outcome: "completed", Time: past, Expires: past}
			if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
				err = errs[0]
			}
		}
		switch {
		case errors.Is(err, reprise.DiskFull):
			return n
		case err != nil || n > 100_000:
			t.Fatalf("stream %d: %v", n, err)
		}
	}
}

// fillRest fills the disk with a file of somebody else.
func fillRest(t *testing.T, dir string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return ballast
}

// TestFullDiskGivesBack: on a disk without a free byte a sweep or a removal works, and new streams can be made after
// it, by the same program or by the next one. It gets full again and again.
func TestFullDiskGivesBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		disk    int64
		sweep   bool
		restart bool
	}{
		{"sweep of small streams", 100, 4 << 20, true, false},
		{"sweep of large streams", 100_000, 40 << 20, true, false},
		{"sweep of streams larger than the log", 3 << 20, 40 << 20, true, false},
		{"removal of streams larger than the log", 1 << 20, 10 << 20, false, false},
		{"sweep of streams larger than the reserve", 2 << 20, 10 << 20, true, false},
		{"removal of streams larger than the log, after a restart", 700 << 10, 8 << 20, false, true},
		{"sweep on a small disk", 20_000, 8 << 20, true, false},
		{"removal of small streams", 2000, 6 << 20, false, false},
		{"removal of large streams", 100_000, 20 << 20, false, false},
		{"sweep after a restart", 20_000, 20 << 20, true, true},
		{"removal after a restart", 5000, 8 << 20, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := smallDisk(t, c.disk)
			path := filepath.Join(dir, "events.db")
			s, err := sqlitestore.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			kept := create(t, s, "kept")
			first := 0
			for round := range 4 {
				name := fmt.Sprint("r", round, "-")
				n := fillWith(t, s, name, c.size)
				if round == 0 {
					first = n
				}
				if n < first/3 {
					t.Fatalf("round %d: %d streams fit, %d in the first", round, n, first)
				}
				ballast := fillRest(t, dir)
				if c.restart {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if s, err = sqlitestore.Open(t.Context(), path, nil); err != nil {
						t.Fatalf("round %d: open on a full disk: %v", round, err)
					}
				}
				makeRoom(t, s, name, n, c.sweep)
				if err := appendOne(s, &kept, []byte("after")); err != nil {
					t.Fatalf("round %d: append after room was made: %v", round, err)
				}
				create(t, s, fmt.Sprint("new", round))
				if err := os.Remove(ballast); err != nil {
					t.Fatal(err)
				}
			}
			page, err := s.Read(t.Context(), kept.Key, 0, 1<<20)
			if err != nil || len(page.Batches) != 4 {
				t.Errorf("%d batches, %v", len(page.Batches), err)
			}
			if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
				t.Errorf("check: %q, %v", wrong, err)
			}
		})
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// makeRoom sweeps or removes n streams.
func makeRoom(t *testing.T, s *sqlitestore.Store, name string, n int, sweep bool) {
	t.Helper()
	if !sweep {
		for i := range n {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint(name, i)}
			if err := s.Remove(t.Context(), key, reprise.RemoveSpec{}); err != nil {
				t.Fatalf("removal on a full disk: %v", err)
			}
		}
		return
	}
	now, all := time.Now(), 0
	for {
		swept, err := s.Sweep(t.Context(), now, now, 500)
		if err != nil {
			t.Fatalf("sweep on a full disk: %v", err)
		}
		if all += len(swept); len(swept) == 0 {
			break
		}
	}
	if all < n {
		t.Fatalf("%d streams of %d were swept", all, n)
	}
}

// TestReserveIsWholeBeforeAppends: a store that was opened without room for a reserve makes one before it appends, once
// others have made room.
func TestReserveIsWholeBeforeAppends(t *testing.T) {
	dir := smallDisk(t, 12<<20)
	path := filepath.Join(dir, "events.db")
	closeStore(t, path)
	ballast := fillRest(t, dir)
	if err := os.Truncate(ballast, fileSize(t, ballast)-160<<10); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, nil)
	before := fileSize(t, path+".reserve")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	create(t, s, "new")
	if after := fileSize(t, path+".reserve"); before > 160<<10 || after < 500_000 {
		t.Errorf("the reserve has %d bytes, and had %d", after, before)
	}
}

// TestRefusedAppendTakesNoRoom: appends that a full disk refuses leave as much free as there was.
func TestRefusedAppendTakesNoRoom(t *testing.T) {
	dir := smallDisk(t, 12<<20)
	s := mustOpen(t, filepath.Join(dir, "events.db"), nil)
	fillWith(t, s, "s", 10_000)
	free := func() int64 {
		bytes, err := driver.FreeBytes(dir)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	before := free()
	for n := range 50 {
		_, err := s.Create(t.Context(), reprise.StreamInfo{
			Key:    reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint("more", n)},
			Epoch:  reprise.NewEpoch(),
			Config: reprise.StreamConfig{Meta: make([]byte, 200_000)},
		})
		if !errors.Is(err, reprise.DiskFull) {
			t.Fatalf("stream %d on a full disk: %v", n, err)
		}
		if after := free(); after < before {
			t.Fatalf("after %d refusals %d bytes are free of %d", n+1, after, before)
		}
	}
}
