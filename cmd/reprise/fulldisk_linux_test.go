package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/client"
	"reprise/internal/testserver"
)

// TestFullDiskOfServer: the disk of a server is full while commands run. They go on when somebody has made room, and
// nothing is missing; meanwhile they are seen to run, and can be cancelled.
func TestFullDiskOfServer(t *testing.T) {
	for _, store := range []string{"sqlite:", "log:"} {
		t.Run(store, func(t *testing.T) {
			dir := testserver.TempDir(t)
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=200m"); err != nil {
				t.Skip("needs to mount a small file system: ", err)
			}
			t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
			v := newVictim(t, dir, "--store", store)
			work := t.TempDir()
			for id, command := range map[string]string{
				"printing": "echo up; until [ -e go ]; do sleep 0.02; done; seq 1 1500000", // 10 MB
				"waiting":  "echo up; until [ -e go ]; do sleep 0.02; done; seq 1 1500000; sleep 1000",
			} {
				_, err := v.client.Start(t.Context(), client.StartRequest{ID: id, Command: command, Cwd: work})
				check(t, err)
				for e, err := range v.client.Follow(t.Context(), id, nil) {
					check(t, err)
					if e.Type == "stdout" {
						break
					}
				}
			}
			ballast := filepath.Join(dir, "ballast")
			fillDisk(t, ballast)
			check(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
			show := func(id string) client.Execution {
				x, err := v.client.Show(t.Context(), id)
				check(t, err)
				return x
			}
			waitUntil(t, "the commands wait", func() bool {
				return show("printing").Waiting == "storage" && show("waiting").Waiting == "storage"
			})
			check(t, v.client.Cancel(t.Context(), "waiting"))
			if x := show("printing"); x.Status != "running" {
				t.Errorf("with a full disk: %+v", x)
			}
			check(t, os.Remove(ballast))
			bytes, end := 0, ""
			for e, err := range v.client.Follow(t.Context(), "printing", nil) {
				check(t, err)
				if e.Type == "stdout" {
					bytes += len(e.Data)
				}
				if e.End != nil {
					end = string(e.End.Outcome)
				}
			}
			if want := 3 + 10_888_896; bytes != want || end != "exited" {
				t.Errorf("%d bytes of %d, %s", bytes, want, end)
			}
			waitUntil(t, "the cancelled one has ended", func() bool { return show("waiting").Status == "ended" })
		})
	}
}

// fillDisk writes a file until the disk is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	defer f.Close()
	_, err = io.Copy(f, zeros{})
	if err == nil {
		t.Fatal("the disk has no end")
	}
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
