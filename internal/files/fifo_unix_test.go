//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"reprise"
	"reprise/internal/files"
)

func TestNonRegularFilesAreNotOpened(t *testing.T) {
	f := newFixture(t)
	f.ok(syscall.Mkfifo(filepath.Join(f.dir, "fifo"), 0o600))
	f.ok(os.Mkdir(filepath.Join(f.dir, "dir"), 0o755))
	f.ok(os.Symlink("fifo", filepath.Join(f.dir, "link")))
	for _, p := range []string{"work/fifo", "work/link", "work/dir", "work"} { // a FIFO without a writer would block
		if _, err := f.read(p); err == nil {
			t.Errorf("%s was read", p)
		} else if _, refused := errors.AsType[*files.FieldError](err); !refused {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"work/fifo", "work/dir", "work"} {
		_, err := f.roots.Write(t.Context(), files.Upload{Path: p, Offset: -1, Size: -1}, strings.NewReader("x"))
		if !errors.Is(err, reprise.ErrConflict) {
			t.Errorf("write %s: %v", p, err)
		}
	}
	file, err := f.roots.Show("work/fifo")
	f.ok(err)
	if file.Type != files.TypeFIFO || file.Size != 0 || file.ETag != "" {
		t.Errorf("the FIFO is shown as %+v", file)
	}
	if _, err := f.roots.List("work/fifo", 1, ""); err == nil {
		t.Error("a FIFO was listed")
	}
}
