package files_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"reprise"
	"reprise/internal/files"
)

// smallDisk mounts a disk of a mebibyte at dir. Making one takes root, which CI is.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("a disk of its own takes root")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

func TestFullDiskKeepsWhatItHasTaken(t *testing.T) {
	f := &fixture{T: t, dir: t.TempDir()}
	smallDisk(t, f.dir)
	f.open(nil)
	big := f.file("filler", strings.Repeat("f", 700<<10))
	text := strings.Repeat("0123456789", 60<<10)
	u := files.Upload{Path: "work/x", Size: int64(len(text)), SHA256: sumOf(text)}
	progress, err := f.roots.Write(t.Context(), u, strings.NewReader(text))
	if !errors.Is(err, reprise.DiskFull) || progress.Complete {
		t.Fatalf("%+v, %v", progress, err)
	}
	f.ok(os.Remove(big))
	if progress, err = f.roots.Progress(t.Context(), u); err != nil || progress.Offset == 0 {
		t.Fatalf("%+v, %v", progress, err)
	}
	u.Offset = progress.Offset
	done, err := f.roots.Write(t.Context(), u, strings.NewReader(text[u.Offset:]))
	if err != nil || !done.Complete || f.text("x") != text {
		t.Errorf("%+v, %v", done, err)
	}
	once := files.Upload{Path: "work/y", Offset: -1, Size: -1}
	if _, err := f.roots.Write(t.Context(), once, strings.NewReader(text)); !errors.Is(err, reprise.DiskFull) {
		t.Errorf("%v", err)
	}
	f.noneStaged()
}

func TestUploadBelowAMount(t *testing.T) {
	f := newFixture(t)
	f.file("disk/.keep", "")
	smallDisk(t, f.dir+"/disk")
	u := files.Upload{Path: "work/disk/x", Size: 3, SHA256: sumOf("abc"), Mode: "0600"}
	done, err := f.roots.Write(t.Context(), u, strings.NewReader("abc"))
	if err != nil || !done.Complete || f.text("disk/x") != "abc" || done.File.Mode != "0600" {
		t.Errorf("%+v, %v", done, err)
	}
	f.noneStaged()
	list, err := f.roots.List("work/disk", 10, "")
	f.ok(err)
	if len(list.Files) != 1 {
		t.Errorf("left beside it: %q", paths(list.Files))
	}
	if _, err := f.roots.Move("work/disk/x", "work/x", true); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("move to another file system: %v", err)
	}
}
