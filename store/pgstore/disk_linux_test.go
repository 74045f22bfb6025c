package pgstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"reprise"
	"reprise/internal/testserver"
)

// smallDisk mounts a disk of so many bytes in memory, which takes root.
func smallDisk(t *testing.T, own *testserver.PostgresServer, size int) (dir string) {
	if os.Getuid() != 0 {
		t.Skip("a disk of its own takes root")
	}
	dir, err := os.MkdirTemp("", "reprise-disk-")
	check(t, err)
	t.Cleanup(func() { check(t, os.Remove(dir)) })
	check(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)))
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	check(t, own.Own(dir))
	return dir
}

// On a full disk appends fail, reads go on, and appends work again when there is space.
func TestFullDisk(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	dir := smallDisk(t, own, 24<<20)
	ballast := filepath.Join(dir, "ballast")
	check(t, os.WriteFile(ballast, make([]byte, 4<<20), 0o600))
	space := filepath.Join(dir, "space")
	check(t, os.Mkdir(space, 0o700))
	check(t, own.Own(space))
	sql(t, own.URL(), `CREATE TABLESPACE small LOCATION '`+space+`'`,
		`ALTER DATABASE reprise SET default_tablespace = small`)
	s := mustOpen(t, own.URL(), nil)
	req := create(t, s, "s")
	const size = 100 << 10
	var full error
	for range 1000 {
		req.Bytes, req.Kept = content("s", req.First, size), int64(req.First)*size
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			full = errs[0]
			break
		}
		req.First++
	}
	if !errors.Is(full, reprise.ErrUnavailable) {
		t.Fatalf("append on a full disk: %v", full)
	}
	intact(t, s, "s", size)
	check(t, os.Remove(ballast))
	for range 10 {
		put(t, s, &req, size, 1<<40)
	}
	intact(t, s, "s", size)
}
