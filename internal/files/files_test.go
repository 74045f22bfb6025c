package files_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"reprise"
	"reprise/internal/files"
)

// fixture is one root called "work".
type fixture struct {
	*testing.T
	dir   string
	roots *files.Roots
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, dir: t.TempDir()}
	f.open(nil)
	return f
}

// open opens the root, as another server would.
func (f *fixture) open(opts *files.Options) {
	f.Helper()
	roots, err := files.Open(map[string]string{"work": f.dir}, opts)
	f.ok(err)
	f.roots = roots
	f.Cleanup(func() { _ = roots.Close() })
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// file writes a file that has rested for long.
func (f *fixture) file(name, text string) string {
	f.Helper()
	at := filepath.Join(f.dir, name)
	f.ok(os.MkdirAll(filepath.Dir(at), 0o755))
	f.ok(os.WriteFile(at, []byte(text), 0o644))
	return at
}

func (f *fixture) text(name string) string {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	f.ok(err)
	return string(text)
}

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func paths(list []files.File) (all []string) {
	for _, file := range list {
		all = append(all, file.Path)
	}
	return all
}

func (f *fixture) read(p string) (string, error) {
	c, err := f.roots.Content(f.Context(), p)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(io.NewSectionReader(c, 0, c.File.Size))
	return string(text), err
}

// everything calls all that takes a path.
func (f *fixture) everything(p string) map[string]error {
	errs := map[string]error{}
	_, errs["list"] = f.roots.List(p, 10, "")
	_, errs["show"] = f.roots.Show(p)
	_, errs["read"] = f.read(p)
	_, errs["search"] = f.roots.Search(f.Context(), files.Query{Path: p, Name: "*", Limit: 10})
	_, errs["mkdir"] = f.roots.MakeDirectory(p, "", true)
	_, errs["mode"] = f.roots.SetMode(p, "0600")
	_, errs["move from"] = f.roots.Move(p, "work/there", false)
	_, errs["move to"] = f.roots.Move("work/here", p, true)
	_, errs["write"] = f.roots.Write(f.Context(), files.Upload{Path: p, Offset: -1, Size: -1}, strings.NewReader("x"))
	_, errs["progress"] = f.roots.Progress(f.Context(), files.Upload{Path: p, Size: 1, SHA256: sumOf("x")})
	errs["remove"] = f.roots.Remove(p, true)
	return errs
}

func TestPathsThatAreRefused(t *testing.T) {
	f := newFixture(t)
	f.file("here", "kept")
	for _, p := range []string{
		"/etc/passwd", "..", "work/..", "work/../work/here", "../work/here", "work/./here", "work//here", "work/here/",
		"work/a\x00b", "work/" + strings.Repeat("n", 256), "work/" + strings.Repeat("n/", 2100) + "n",
		"work/.reprise-uploads", "work/.reprise-uploads/x",
	} {
		for what, err := range f.everything(p) {
			if _, refused := errors.AsType[*files.FieldError](err); !refused {
				t.Errorf("%s %.60q: %v", what, p, err)
			}
		}
	}
	for what, err := range f.everything("elsewhere/x") {
		if !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("%s below a root that does not exist: %v", what, err)
		}
	}
	if f.text("here") != "kept" {
		t.Error("a refused request has changed a file")
	}
}

func TestLinksDoNotLeadOut(t *testing.T) {
	f := newFixture(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	f.ok(os.WriteFile(secret, []byte("secret"), 0o644))
	up, err := filepath.Rel(f.dir, secret)
	f.ok(err)
	for _, link := range []struct{ name, to string }{
		{"absolute", secret}, {"relative", up}, {"dir", outside}, {"loop", "loop"}, {"chain", "absolute"},
	} {
		f.ok(os.Symlink(link.to, filepath.Join(f.dir, link.name)))
		for _, p := range []string{"work/" + link.name, "work/" + link.name + "/secret"} {
			if text, err := f.read(p); err == nil || text != "" {
				t.Errorf("read %s: %q, %v", p, text, err)
			}
			if _, err := f.roots.List(p, 10, ""); err == nil {
				t.Errorf("%s was listed", p)
			}
			if _, err := f.roots.SetMode(p, "0777"); err == nil {
				t.Errorf("the mode of %s was set", p)
			}
			_, _ = f.roots.MakeDirectory(p, "0777", true)
			_, _ = f.roots.MakeDirectory(p+"/new", "0777", true)
		}
		// An upload replaces the link and does not follow it; below one that leads out there is nothing.
		below := files.Upload{Path: "work/" + link.name + "/secret", Offset: -1, Size: -1, Parents: true}
		if _, err := f.roots.Write(t.Context(), below, strings.NewReader("overwritten")); err == nil {
			t.Errorf("%s was written to", below.Path)
		}
	}
	f.ok(f.roots.Remove("work/dir", true)) // the link alone
	at := files.Upload{Path: "work/absolute", Offset: -1, Size: -1}
	_, err = f.roots.Write(t.Context(), at, strings.NewReader("mine"))
	f.ok(err)
	info, err := os.Stat(secret)
	f.ok(err)
	text, err := os.ReadFile(secret)
	f.ok(err)
	entries, err := os.ReadDir(outside)
	f.ok(err)
	if string(text) != "secret" || info.Mode().Perm() != 0o644 || len(entries) != 1 {
		t.Errorf("outside there is now %q, %v, %v", text, info.Mode(), entries)
	}
	if f.text("absolute") != "mine" {
		t.Error("the link was not replaced")
	}
}

func TestListPages(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"b", "a", "c/x", "d\xff"} {
		f.file(name, "text of "+name)
	}
	f.ok(os.Symlink("a", filepath.Join(f.dir, "e")))
	var all []files.File
	for after := ""; ; {
		page, err := f.roots.List("work", 2, after)
		f.ok(err)
		if len(page.Files) > 2 {
			t.Fatalf("a page of %d", len(page.Files))
		}
		all = append(all, page.Files...)
		if after = page.Next; after == "" {
			break
		}
	}
	if got := paths(all); !slices.Equal(got, []string{"work/a", "work/b", "work/c", "work/d\uFFFD", "work/e"}) {
		t.Errorf("listed %q", got)
	}
	if string(all[3].PathBase64) != "work/d\xff" || all[2].Type != files.TypeDirectory || all[4].Target != "a" {
		t.Errorf("%+v", all)
	}
	if text, err := f.read("work/d\xff"); err != nil || text != "text of d\xff" {
		t.Errorf("%q, %v", text, err)
	}
	roots, err := f.roots.List("", 10, "")
	f.ok(err)
	if got := paths(roots.Files); !slices.Equal(got, []string{"work"}) {
		t.Errorf("roots %q", got)
	}
}

func TestSearchGoesOnWhereAPageEnds(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"a/one.go", "a.go", "a/b/two.go", "z.go", "z.txt"} {
		f.file(name, "first\nthe needle of "+name+"\n")
	}
	f.file("binary.go", "\x00needle")
	f.ok(os.Symlink(".", filepath.Join(f.dir, "loop")))
	var got []string
	for after := ""; ; {
		q := files.Query{Path: "work", Name: "*.go", Text: "needle", Limit: 1, After: after}
		page, err := f.roots.Search(t.Context(), q)
		f.ok(err)
		for _, file := range page.Files {
			got = append(got, fmt.Sprintf("%s:%d:%s", file.Path, file.Line, file.Text))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	want := []string{
		"work/a/b/two.go:2:the needle of a/b/two.go", "work/a/one.go:2:the needle of a/one.go",
		"work/a.go:2:the needle of a.go", "work/z.go:2:the needle of z.go",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestFileThatChangesIsNotReadOn(t *testing.T) {
	f := newFixture(t)
	at := f.file("log", strings.Repeat("a", 1000))
	c, err := f.roots.Content(t.Context(), "work/log")
	f.ok(err)
	defer c.Close()
	half := make([]byte, 500)
	if n, err := c.ReadAt(half, 0); n != 500 || err != nil {
		t.Fatal(n, err)
	}
	// The same size, at once: the time of the file alone can tell.
	f.ok(os.WriteFile(at, []byte(strings.Repeat("b", 1000)), 0o644))
	if n, err := c.ReadAt(half, 500); n != 0 || !errors.Is(err, files.ErrChanged) {
		t.Errorf("read %d bytes of another version: %v", n, err)
	}
	// One that was replaced is still the version that was opened.
	f.file("swap", "old")
	swap, err := f.roots.Content(t.Context(), "work/swap")
	f.ok(err)
	defer swap.Close()
	f.file("new", "NEW")
	f.ok(os.Rename(filepath.Join(f.dir, "new"), filepath.Join(f.dir, "swap")))
	if n, err := swap.ReadAt(half[:3], 0); err == nil && string(half[:n]) != "old" {
		t.Errorf("read %q", half[:n])
	}
}

func TestFileThatIsWrittenWithoutAPauseIsAConflict(t *testing.T) {
	f := newFixture(t)
	at := f.file("busy", "x")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			_ = os.Chtimes(at, time.Now(), time.Now())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	f.eventually(func() bool { // a slow machine may leave the file alone for long enough
		c, err := f.roots.Content(t.Context(), "work/busy")
		if err == nil {
			c.Close()
		}
		return errors.Is(err, files.ErrChanged)
	})
	close(stop)
	<-stopped
	if text, err := f.read("work/busy"); err != nil || text != "x" {
		t.Errorf("%q, %v once it rests", text, err)
	}
}

func TestUploadGoesOnAfterARestart(t *testing.T) {
	f := newFixture(t)
	text := strings.Repeat("0123456789", 100_000)
	u := files.Upload{Path: "work/sub/big", Size: int64(len(text)), SHA256: sumOf(text), Parents: true, Mode: "0750"}
	offset, rounds := int64(0), 0
	for rest := text; ; rounds++ {
		u.Offset = offset
		// The connection breaks after 300,000 bytes.
		body := io.MultiReader(strings.NewReader(rest[:min(len(rest), 300_000)]), iotest.ErrReader(io.ErrUnexpectedEOF))
		if len(rest) <= 300_000 {
			body = strings.NewReader(rest)
		}
		progress, err := f.roots.Write(t.Context(), u, body)
		if progress.Complete {
			break
		}
		if _, cut := errors.AsType[*files.BodyError](err); !cut {
			t.Fatalf("round %d: %v", rounds, err)
		}
		if _, err := os.Lstat(filepath.Join(f.dir, "sub/big")); err == nil {
			t.Fatal("half an upload is there under its name")
		}
		f.open(nil)
		progress, err = f.roots.Progress(t.Context(), u)
		f.ok(err)
		if want := offset + 300_000; progress.Offset != want {
			t.Fatalf("%d bytes were kept, want %d", progress.Offset, want)
		}
		offset, rest = progress.Offset, text[progress.Offset:]
	}
	if rounds != 3 || f.text("sub/big") != text {
		t.Errorf("%d cuts, %d bytes", rounds, len(f.text("sub/big")))
	}
	info, err := os.Stat(filepath.Join(f.dir, "sub/big"))
	f.ok(err)
	if info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v", info.Mode())
	}
	f.noneStaged()
	// The answer to the last piece was lost: it is sent again.
	again, err := f.roots.Write(t.Context(), u, strings.NewReader(text[u.Offset:]))
	if err != nil || !again.Complete || again.Offset != int64(len(text)) {
		t.Errorf("%+v, %v", again, err)
	}
}

// noneStaged checks that nothing is left of uploads.
func (f *fixture) noneStaged() {
	f.Helper()
	left, err := os.ReadDir(filepath.Join(f.dir, ".reprise-uploads"))
	f.ok(err)
	if len(left) > 0 {
		f.Errorf("left of uploads: %v", left)
	}
}

func TestUploadElsewhereThanWhereItStands(t *testing.T) {
	f := newFixture(t)
	u := files.Upload{Path: "work/x", Size: 10, SHA256: sumOf("0123456789")}
	_, err := f.roots.Write(t.Context(), u, strings.NewReader("0123"))
	f.ok(err)
	for _, offset := range []int64{0, 3, 5, 10} {
		u.Offset = offset
		_, err := f.roots.Write(t.Context(), u, strings.NewReader(""))
		expected, ok := errors.AsType[*files.OffsetError](err)
		if !ok || expected.Offset != 4 || !errors.Is(err, reprise.ErrConflict) {
			t.Errorf("at %d: %v", offset, err)
		}
	}
	u.Offset = 4
	if _, err := f.roots.Write(t.Context(), u, strings.NewReader("4567890")); err == nil {
		t.Error("more bytes than the size were taken")
	}
	done, err := f.roots.Write(t.Context(), u, strings.NewReader("456789"))
	if err != nil || !done.Complete || f.text("x") != "0123456789" {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestUploadWithAnotherChecksumIsForgotten(t *testing.T) {
	f := newFixture(t)
	f.file("x", "old")
	u := files.Upload{Path: "work/x", Size: 5, SHA256: sumOf("right")}
	_, err := f.roots.Write(t.Context(), u, strings.NewReader("wrong"))
	if refused, ok := errors.AsType[*files.FieldError](err); !ok || refused.Field != "sha256" {
		t.Errorf("%v", err)
	}
	if f.text("x") != "old" {
		t.Error("bytes with another checksum are there")
	}
	progress, err := f.roots.Progress(t.Context(), u)
	if err != nil || progress.Offset != 0 || progress.Complete {
		t.Errorf("%+v, %v", progress, err)
	}
	done, err := f.roots.Write(t.Context(), u, strings.NewReader("right"))
	if err != nil || !done.Complete || f.text("x") != "right" {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := f.roots.Write(t.Context(), files.Upload{Path: "work/x", Offset: -1, Size: -1, SHA256: sumOf("a")},
		strings.NewReader("b")); err == nil || f.text("x") != "right" {
		t.Errorf("%v", err)
	}
	f.noneStaged()
}

func TestUploadOnceIsWholeOrNothing(t *testing.T) {
	f := newFixture(t)
	f.file("x", "old")
	body := io.MultiReader(strings.NewReader("new"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := f.roots.Write(t.Context(), files.Upload{Path: "work/x", Offset: -1, Size: -1}, body); err == nil {
		t.Error("an upload that was cut off has succeeded")
	}
	if _, err := f.roots.Write(t.Context(), files.Upload{Path: "work/x", Offset: -1, Size: 4},
		strings.NewReader("new")); err == nil {
		t.Error("an upload with too few bytes has succeeded")
	}
	if f.text("x") != "old" {
		t.Errorf("there is %q", f.text("x"))
	}
	f.noneStaged()
	keep := files.Upload{Path: "work/x", Offset: -1, Size: -1, Keep: true}
	if _, err := f.roots.Write(t.Context(), keep, strings.NewReader("new")); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("a file that is there was replaced: %v", err)
	}
	f.ok(os.Chmod(filepath.Join(f.dir, "x"), 0o640))
	replace := files.Upload{Path: "work/x", Offset: -1, Size: -1}
	done, err := f.roots.Write(t.Context(), replace, strings.NewReader("new"))
	if err != nil || f.text("x") != "new" || done.File.Mode != "0640" {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestNewerUploadTakesOver(t *testing.T) {
	f := newFixture(t)
	u := files.Upload{Path: "work/x", Size: 6, SHA256: sumOf("abcdef")}
	hung, hang := io.Pipe() // a connection that nobody knows to be dead
	first := make(chan error, 1)
	go func() {
		_, err := f.roots.Write(t.Context(), u, hung)
		first <- err
	}()
	_, err := hang.Write([]byte("abc"))
	f.ok(err)
	f.eventually(func() bool {
		progress, err := f.roots.Progress(t.Context(), u)
		return err == nil && progress.Offset == 3
	})
	second := u
	second.Offset = 3
	done, err := f.roots.Write(t.Context(), second, strings.NewReader("def"))
	if err != nil || !done.Complete {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err = hang.Write([]byte("XYZ"))
	f.ok(err)
	if err := <-first; !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("the older request ended with %v", err)
	}
	if f.text("x") != "abcdef" {
		t.Errorf("there is %q", f.text("x"))
	}
}

// eventually waits for what another goroutine brings about.
func (f *fixture) eventually(condition func() bool) {
	f.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			f.Fatal("condition not met within two minutes")
		}
	}
}

func TestAbandonedUploadsAreSwept(t *testing.T) {
	f := newFixture(t)
	u := files.Upload{Path: "work/x", Size: 6, SHA256: sumOf("abcdef")}
	_, err := f.roots.Write(t.Context(), u, strings.NewReader("abc"))
	f.ok(err)
	f.open(&files.Options{KeepUploads: time.Hour})
	if progress, err := f.roots.Progress(t.Context(), u); err != nil || progress.Offset != 3 {
		t.Fatalf("%+v, %v", progress, err)
	}
	f.open(&files.Options{KeepUploads: time.Nanosecond})
	f.noneStaged()
}

func TestMoveRemoveAndPermissions(t *testing.T) {
	f := newFixture(t)
	f.file("a", "A")
	f.file("b", "B")
	f.file("dir/c", "C")
	_, err := f.roots.Move("work/a", "work/b", false)
	if !errors.Is(err, reprise.ErrConflict) || f.text("b") != "B" || f.text("a") != "A" {
		t.Errorf("move over a file: %v", err)
	}
	_, err = f.roots.Move("work/dir", "work/dir/in", false)
	if _, refused := errors.AsType[*files.FieldError](err); !refused {
		t.Errorf("move into itself: %v", err)
	}
	for _, move := range [][2]string{{"a", "d"}, {"dir", "dir2"}} {
		moved, err := f.roots.Move("work/"+move[0], "work/"+move[1], false)
		if err != nil || moved.Path != "work/"+move[1] {
			t.Errorf("%v: %+v, %v", move, moved, err)
		}
	}
	_, err = f.roots.Move("work/d", "work/b", true)
	if f.ok(err); f.text("b") != "A" {
		t.Error("not replaced")
	}
	if err := f.roots.Remove("work/dir2", false); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("remove what is not empty: %v", err)
	}
	f.ok(f.roots.Remove("work/dir2", true))
	f.ok(f.roots.Remove("work/dir2", true))
	if err := f.roots.Remove("work", true); err == nil {
		t.Error("a root was removed")
	}
	changed, err := f.roots.SetMode("work/b", "0600")
	if err != nil || changed.Mode != "0600" {
		t.Errorf("%+v, %v", changed, err)
	}
	for _, mode := range []string{"4755", "rwx", "", "-1"} {
		if _, err := f.roots.SetMode("work/b", mode); err == nil {
			t.Errorf("mode %q was taken", mode)
		}
	}
}

func TestNamesOfRoots(t *testing.T) {
	for _, name := range []string{"", "a/b", "a b", "..", "a:b", strings.Repeat("n", 300)} {
		if r, err := files.Open(map[string]string{name: t.TempDir()}, nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%.20q: %v, %v", name, r, err)
		}
	}
	missing := map[string]string{"x": filepath.Join(t.TempDir(), "none")}
	if _, err := files.Open(missing, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestSumEndsWithItsContext(t *testing.T) {
	f := newFixture(t)
	f.file("x", "abc")
	c, err := f.roots.Content(t.Context(), "work/x")
	f.ok(err)
	defer c.Close()
	if got, err := c.Sum(t.Context()); err != nil || got != sumOf("abc") {
		t.Errorf("%s, %v", got, err)
	}
	gone := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := c.Sum(ctx); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

var _ io.ReaderAt = (*files.Content)(nil)
