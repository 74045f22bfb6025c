package archive_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/archive"
	"reprise/internal/archive/archivetest"
)

// victimFolder names the folder in which a process is to be killed as it writes.
const victimFolder = "ARCHIVE_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimFolder); dir != "" {
		victim(dir)
	}
	goleak.VerifyTestMain(m)
}

// victim archives a stream, says so when half of it is written, and waits for its end.
func victim(dir string) {
	store := openStore(dir)
	batches := someBatches(1, 10_000, 400)
	_ = store.Put(context.Background(), ended("victim", 1, batches...), func(yield func(reprise.Batch, error) bool) {
		for i, b := range batches {
			if i == len(batches)/2 {
				os.Stdout.WriteString("half\n")
				select {}
			}
			if !yield(b, nil) {
				return
			}
		}
	})
	os.Exit(1)
}

func openFolder(tb testing.TB) archive.Place {
	tb.Helper()
	folder, err := archive.OpenFolder(filepath.Join(tb.TempDir(), "archive"))
	check(tb, err)
	return folder
}

func TestFolderKeepsContract(t *testing.T) { archivetest.Run(t, openFolder) }

// TestKilledWhileArchiving kills a process in the middle of a file: nothing of it is seen, and the
// next one archives the stream.
func TestKilledWhileArchiving(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimFolder+"="+dir)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "half\n" {
		t.Fatal(line, err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if left, err := filepath.Glob(filepath.Join(dir, "default/victim/*")); err != nil || len(left) != 1 {
		t.Fatalf("%q is left, want half a file: %v", left, err)
	}

	store := openStore(dir)
	defer store.Close()
	batches := someBatches(1, 10_000, 400)
	info := ended("victim", 1, batches...)
	if has, err := store.Has(t.Context(), info); has || err != nil {
		t.Fatal("half a file is taken for the whole", err)
	}
	if _, err := store.Read(t.Context(), info.Key, 0, 1); !errors.Is(err, reprise.ErrNotFound) {
		t.Fatal(err)
	}
	page, err := store.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(page.Streams) != 0 {
		t.Fatal(page, err)
	}
	check(t, store.Put(t.Context(), info, all(batches)))
	wantArchived(t, store, info, batches)
}

// TestFolderIsPrivate: what is archived is for its owner alone.
func TestFolderIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	folder, err := archive.OpenFolder(dir)
	check(t, err)
	defer folder.Close()
	check(t, folder.Create(t.Context(), "d/a/@1.X", func(w io.Writer) error { return nil }))
	for _, path := range []string{dir, filepath.Join(dir, "d/a"), filepath.Join(dir, "d/a/@1.X")} {
		info, err := os.Stat(path)
		check(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
}
