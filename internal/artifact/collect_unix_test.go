//go:build linux || darwin || freebsd || netbsd || openbsd

package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// fixture is a working directory, and beside it a hidden one with the file token.
type fixture struct {
	*testing.T
	dir, secret string
}

func newFixture(t *testing.T) *fixture {
	top := t.TempDir()
	f := &fixture{t, filepath.Join(top, "work"), filepath.Join(top, "secret")}
	f.write("work/token", "own")
	f.write("secret/token", "secret")
	f.write("secret/below/token", "secret")
	return f
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// path is that of a name beside the working directory.
func (f *fixture) path(name string) string { return filepath.Join(filepath.Dir(f.dir), name) }

func (f *fixture) write(name, text string) {
	f.Helper()
	f.ok(os.MkdirAll(filepath.Dir(f.path(name)), 0o700))
	f.ok(os.WriteFile(f.path(name), []byte(text), 0o600))
}

func (f *fixture) link(target, name string) {
	f.Helper()
	_ = os.Remove(f.path(name))
	f.ok(os.Symlink(target, f.path(name)))
}

// open opens a collection.
func (f *fixture) open(dir string, patterns ...string) *Collection {
	c := &Collection{Dir: f.path(dir), Patterns: patterns, Hidden: []string{f.secret}, MaxBytes: 500_000}
	c.Open()
	f.Cleanup(c.Close)
	return c
}

// collect returns the paths and the contents of the files of a collection.
func (f *fixture) collect(c *Collection) (paths []string, contents string, notes []string) {
	f.Helper()
	var kept bytes.Buffer
	files, notes, err := c.Collect(f.Context(), func(chunk []byte) error {
		kept.Write(chunk)
		return nil
	})
	f.ok(err)
	rest := kept.Bytes()
	for _, file := range files {
		paths = append(paths, file.Path)
		sum := sha256.Sum256(rest[:file.Size])
		if file.SHA256 != hex.EncodeToString(sum[:]) {
			f.Errorf("%s: another checksum", file.Path)
		}
		rest = rest[file.Size:]
	}
	if len(rest) > 0 {
		f.Errorf("%d bytes more", len(rest))
	}
	return paths, kept.String(), notes
}

// nothing checks that a collection has no file and a note.
func (f *fixture) nothing(c *Collection, note string) {
	f.Helper()
	paths, _, notes := f.collect(c)
	if len(paths) > 0 || !strings.Contains(strings.Join(notes, "\n"), note) {
		f.Errorf("%s: files %q, notes %q, want none and %q", c.Dir, paths, notes, note)
	}
}

// TestCollectByPatternAndDirectory: files come by pattern and directory, once each, sorted; links and hidden files do
// not, and what there is no room for is noted.
func TestCollectByPatternAndDirectory(t *testing.T) {
	f := newFixture(t)
	for name, text := range map[string]string{
		"out/a.txt": "a", "out/deep/b.txt": strings.Repeat("0123456789", 20_000), "c.log": "",
		"huge": strings.Repeat("x", 1<<20), "not": "n", "hide/x": "t", "some/out/d": "d", "some/e": "e",
		"some/other/out/f": "f",
	} {
		f.write("work/"+name, text)
	}
	f.link("c.log", "work/inside")
	f.link(f.secret, "work/outside")
	f.link("out", "work/way")
	c := f.open("work", "out", "out/*.txt", "*.log", "inside", "outside/token", "way/a.txt", "hide", "huge", "*/out/")
	c.Masked = append(c.Masked, Identify([]string{f.path("work/hide")})...)
	paths, _, notes := f.collect(c)
	if want := []string{"c.log", "out/a.txt", "out/deep/b.txt", "some/out/d"}; !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
	want := []string{
		"inside: no such file", "outside/token: no such file", "way/a.txt: no such file", "hide: no such file",
		"huge: 1048576 bytes, more than there is room for",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
	if paths, _, _ := f.collect(f.open("work", ".")); len(paths) != 9 {
		t.Errorf("all files but the one without room are %q", paths)
	}
}

// TestCollectReadsDirectoryThatWasOpened: when the name of the directory is given to another one, also to a link to a
// hidden one or to a FIFO, the files of the directory are read that was opened.
func TestCollectReadsDirectoryThatWasOpened(t *testing.T) {
	f := newFixture(t)
	f.link("work", "benign")
	c := f.open("benign", "token")
	for _, replace := range []func(){
		func() { f.link("secret", "benign") },
		func() { f.ok(os.Remove(f.path("benign"))) },
		func() { f.ok(syscall.Mkfifo(f.path("benign"), 0o600)) },
	} {
		replace()
		if paths, contents, _ := f.collect(c); len(paths) != 1 || contents != "own" {
			t.Errorf("%q with %q", paths, contents)
		}
	}
	f.nothing(f.open("benign", "token"), "cannot be read") // the FIFO has no writer
}

// TestHiddenDirectoryIsRefusedUnderEveryName: neither a link nor another name of a hidden directory, or of one above
// it, makes it readable.
func TestHiddenDirectoryIsRefusedUnderEveryName(t *testing.T) {
	f := newFixture(t)
	f.link("secret", "link")
	f.link("secret/below", "deeplink")
	for _, dir := range []string{"secret", "secret/below", "link", "deeplink", "link/below"} {
		f.nothing(f.open(dir, "token"), "is hidden from commands")
	}
	masked := Identify([]string{f.secret})
	f.ok(os.Rename(f.secret, f.path("work/renamed")))
	f.ok(os.Mkdir(f.secret, 0o700)) // a look-alike
	for dir, want := range map[string]string{
		"work/renamed": "is hidden from commands", "work/renamed/below": "is hidden from commands",
		"work": "renamed/token: no such file",
	} {
		c := f.open(dir, "token", "renamed/token", "renamed", "*/*")
		c.Masked = append(c.Masked, masked...)
		if dir == "work" {
			c.Patterns = c.Patterns[1:]
		}
		f.nothing(c, want)
	}
}

// TestHiddenFileIsRefusedUnderEveryName: a hard link to a hidden file is not read.
func TestHiddenFileIsRefusedUnderEveryName(t *testing.T) {
	f := newFixture(t)
	f.ok(os.Link(f.path("secret/token"), f.path("work/hard")))
	c := f.open("work", "hard", "*ard")
	c.Hidden = []string{f.path("secret/token")}
	f.nothing(c, "hard: no such file")
}

// TestCollectFollowsNoLinkThatComesLate: what was found is read below the directories that it was found in, and not
// below a link or a hidden directory that has replaced one. A FIFO in place of a file is not waited for.
func TestCollectFollowsNoLinkThatComesLate(t *testing.T) {
	f := newFixture(t)
	f.write("work/a", "a")
	f.write("work/b/token", "b")
	f.write("work/c", "c")
	f.write("work/d", "d")
	f.write("work/e/token", "e")
	f.write("moved/token", "secret")
	c := f.open("work", "*", "token")
	c.Masked = append(c.Masked, Identify([]string{f.path("moved")})...)
	var kept []byte
	files, _, err := c.Collect(t.Context(), func(chunk []byte) error {
		if len(kept) == 0 {
			f.ok(os.RemoveAll(f.path("work/b")))
			f.link(f.secret, "work/b")
			f.ok(os.Remove(f.path("work/c")))
			f.ok(syscall.Mkfifo(f.path("work/c"), 0o600))
			f.link(f.path("secret/token"), "work/d")
			f.ok(os.RemoveAll(f.path("work/e")))
			f.ok(os.Rename(f.path("moved"), f.path("work/e")))
		}
		kept = append(kept, chunk...)
		return nil
	})
	f.ok(err)
	if len(files) != 2 || string(kept) != "aown" {
		t.Errorf("%+v with %q", files, kept)
	}
}

// TestSearchIsBounded: links are no way around the number of names, and names, depth, memory and notes have bounds,
// which are told.
func TestSearchIsBounded(t *testing.T) {
	f := newFixture(t)
	for name := range strings.SplitSeq("abcdefgh", "") {
		f.link(".", "work/"+name)
	}
	f.nothing(f.open("work", strings.Repeat("*/", 14)+"*"), "no such file")
	for name, s := range map[string]*search{
		"more than 100000 names were looked at":                {looked: maxNames - 3},
		"the names of more files have more than 4194304 bytes": {held: maxNameBytes - 3},
	} {
		c := f.open("work", ".")
		s.ctx = t.Context()
		f.ok(s.find(c.dir, c.Patterns))
		if !slices.Equal(s.notes, []string{name}) {
			t.Errorf("notes %q, want %q", s.notes, name)
		}
	}
	f.write("work/"+strings.Repeat("x/", maxDepth)+"y", "deep")
	f.nothing(f.open("work", "x"), "more than 64 directories")
	for i := range 3 * maxNotes {
		f.write("work/many/"+string(rune('\u1000'+i)), "larger")
	}
	c := f.open("work", "many")
	c.MaxBytes = 1
	if _, _, notes := f.collect(c); len(notes) != maxNotes+1 || notes[maxNotes] != "and more" {
		t.Errorf("%d notes", len(notes))
	}
}

// TestCollectEndsWithContext: the end of the context, and of the time for the search, ends a collection.
func TestCollectEndsWithContext(t *testing.T) {
	f := newFixture(t)
	f.write("work/token", strings.Repeat("x", 3*ChunkBytes))
	c := f.open("work", "*")
	cause := errors.New("cancelled")
	for chunks := range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		if chunks == 0 {
			cancel(cause)
		}
		left := chunks
		files, _, err := c.Collect(ctx, func([]byte) error {
			if left--; left == 0 {
				cancel(cause)
			}
			return nil
		})
		if !errors.Is(err, cause) || len(files) > 0 || left != 0 {
			t.Errorf("cancelled after %d chunks: %v, %v, %d left", chunks, files, err, left)
		}
		cancel(nil)
	}
	c.patience = -1
	if _, _, err := c.Collect(t.Context(), nil); !errors.Is(err, errSearchSlow) {
		t.Errorf("without time: %v", err)
	}
}

// TestDirectoryIsOpenedAgainByIdentity: a later process reads the directory that an earlier one has opened, and no
// other one that has its name by then.
func TestDirectoryIsOpenedAgainByIdentity(t *testing.T) {
	f := newFixture(t)
	first := f.open("work", "token")
	again := func(place ID) *Collection {
		c := &Collection{Dir: f.dir, Patterns: first.Patterns, Place: place, MaxBytes: first.MaxBytes}
		c.OpenAgain()
		t.Cleanup(c.Close)
		return c
	}
	if _, contents, notes := f.collect(again(first.Place)); contents != "own" {
		t.Errorf("%q, %q", contents, notes)
	}
	f.nothing(again(ID{}), "is not the same")
	f.ok(os.Rename(f.dir, f.path("old")))
	f.link("secret", "work")
	f.nothing(again(first.Place), "is not the same")
	f.link("old", "work")
	if _, contents, notes := f.collect(again(first.Place)); contents != "own" {
		t.Errorf("%q, %q", contents, notes)
	}
}
