// Package archivetest tests implementations of archive.Place: files are visible completely or not at all, under any
// name that a stream may have.
package archivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"reprise"
	"reprise/internal/archive"
)

// Run runs every check, each in an empty Place that open makes. Run closes it.
func Run(t *testing.T, open func(testing.TB) archive.Place) {
	for name, f := range map[string]func(*testing.T, archive.Place){
		"files": files, "names": names, "prefixes": prefixes, "failures": failures, "cancelled": cancelled,
		"replaced while read": replaced, "large": large,
	} {
		t.Run(name, func(t *testing.T) {
			place := open(t)
			f(t, place)
			check(t, place.Close())
		})
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// put makes a file in several writes.
func put(tb testing.TB, p archive.Place, name, content string) {
	tb.Helper()
	check(tb, p.Create(tb.Context(), name, func(w io.Writer) error {
		for chunk := range slices.Chunk([]byte(content), 1<<20) {
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	}))
}

// content reads a file.
func content(p archive.Place, name string) (string, error) {
	f, err := p.Open(context.Background(), name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	return string(b), errors.Join(err, f.Close())
}

// list is the sorted names.
func list(tb testing.TB, p archive.Place, prefix string) (all []string) {
	tb.Helper()
	for name, err := range p.List(tb.Context(), prefix) {
		check(tb, err)
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func want(tb testing.TB, got []string, want ...string) {
	tb.Helper()
	if slices.Sort(want); !slices.Equal(got, want) {
		tb.Fatalf("%q, want %q", got, want)
	}
}

func files(t *testing.T, p archive.Place) {
	if _, err := content(p, "default/a/@1.X.reprise"); !errors.Is(err, reprise.ErrNotFound) {
		t.Fatal("a file that is not there:", err)
	}
	want(t, list(t, p, ""))
	put(t, p, "default/a/@1.X.reprise", "hello")
	put(t, p, "default/a/@1.X.reprise", "hello, world")
	put(t, p, "default/a/b/@1.X.reprise", "x")
	for name, text := range map[string]string{
		"default/a/@1.X.reprise":   "hello, world",
		"default/a/b/@1.X.reprise": "x",
	} {
		if got, err := content(p, name); err != nil || got != text {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
	want(t, list(t, p, ""), "default/a/@1.X.reprise", "default/a/b/@1.X.reprise")
	f, err := p.Open(t.Context(), "default/a/@1.X.reprise")
	check(t, err)
	defer f.Close()
	b := make([]byte, 5)
	if n, err := f.ReadAt(b, 7); n != 5 || err != nil && !errors.Is(err, io.EOF) || string(b) != "world" {
		t.Fatalf("%d, %v: %q", n, err, b)
	}
	if n, err := f.ReadAt(b, 10); n != 2 || !errors.Is(err, io.EOF) || string(b[:n]) != "ld" {
		t.Fatalf("at the end: %d, %v: %q", n, err, b[:n])
	}
}

// names: every letter that there is in names of files, and the longest.
func names(t *testing.T, p archive.Place) {
	all := []string{
		"%2E/a/@1.X.reprise", "%2E%2E/a/@1.X.reprise", "t-_.9Z/execution:x/y.z-_/@1.X.reprise", "T/a+b/@1.X.reprise",
		strings.Repeat("t", 64) + "/" + strings.Repeat("n", 255) + "/@1700000000123.7ZK3M9Q2VTX4WB8A.reprise",
		"d/" + strings.Repeat("n/", 127) + "n/@1.X.reprise", "d/...a/@1.X.reprise",
	}
	for _, name := range all {
		put(t, p, name, name)
	}
	want(t, list(t, p, ""), slices.Clone(all)...)
	for _, name := range all {
		if got, err := content(p, name); err != nil || got != name {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
}

func prefixes(t *testing.T, p archive.Place) {
	for _, name := range []string{"a/s/@1.X", "a/s/@2.Y", "a/s/t/@1.Z", "a/st/@1.X", "ab/s/@1.X"} {
		put(t, p, name, name)
	}
	want(t, list(t, p, "a/"), "a/s/@1.X", "a/s/@2.Y", "a/s/t/@1.Z", "a/st/@1.X")
	want(t, list(t, p, "a/s/@"), "a/s/@1.X", "a/s/@2.Y")
	want(t, list(t, p, "a/s/t/@"), "a/s/t/@1.Z")
	want(t, list(t, p, "a/nobody/@"))
	want(t, list(t, p, "nobody/"))
	for _, err := range p.List(t.Context(), "") {
		check(t, err)
		break // and nothing is left behind
	}
}

// failures: what was not written to its end is not there, and what was there before stays.
func failures(t *testing.T, p archive.Place) {
	torn := errors.New("torn")
	put(t, p, "d/old/@1.X", "old")
	for _, name := range []string{"d/old/@1.X", "d/new/@1.X"} {
		for _, size := range []int{0, 10, 40 << 20} {
			err := p.Create(t.Context(), name, func(w io.Writer) error {
				for left := size; left > 0; left -= 1 << 20 {
					if _, err := w.Write(make([]byte, min(left, 1<<20))); err != nil {
						return err
					}
				}
				return torn
			})
			if !errors.Is(err, torn) {
				t.Fatal(err)
			}
		}
	}
	want(t, list(t, p, ""), "d/old/@1.X")
	if got, err := content(p, "d/old/@1.X"); err != nil || got != "old" {
		t.Fatalf("%q, %v", got, err)
	}
}

func cancelled(t *testing.T, p archive.Place) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := p.Create(ctx, "d/a/@1.X", func(io.Writer) error { return nil }); !errors.Is(err, why) {
		t.Error("create:", err)
	}
	if _, err := p.Open(ctx, "d/a/@1.X"); !errors.Is(err, why) {
		t.Error("open:", err)
	}
	put(t, p, "d/a/@1.X", "x")
	for _, err := range p.List(ctx, "") {
		if !errors.Is(err, why) {
			t.Error("list:", err)
		}
	}
}

// replaced: a file that is made again and again is whole for whoever reads it, or cannot be read.
func replaced(t *testing.T, p archive.Place) {
	version := func(i int) string { return strings.Repeat(fmt.Sprintln("version", i), 1000+i) }
	put(t, p, "d/a/@1.X", version(0))
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(done)
		for i := range 20 {
			if err := p.Create(context.Background(), "d/a/@1.X", func(w io.Writer) error {
				_, err := io.WriteString(w, version(i))
				return err
			}); err != nil {
				t.Error(err)
			}
		}
	})
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got, err := content(p, "d/a/@1.X")
		if errors.Is(err, reprise.ErrUnavailable) {
			continue // replaced in the middle, and says so
		}
		var i int
		if _, errScan := fmt.Sscanf(got, "version %d\n", &i); err != nil || errScan != nil || got != version(i) {
			t.Errorf("%d bytes of version %d: %v", len(got), i, err)
		}
	}
	writer.Wait()
}

// large: a file of several parts, read in the middle.
func large(t *testing.T, p archive.Place) {
	text := make([]byte, 40<<20)
	for i := range text {
		text[i] = byte(i ^ i>>8 ^ i>>16)
	}
	put(t, p, "d/a/@1.X", string(text))
	f, err := p.Open(t.Context(), "d/a/@1.X")
	check(t, err)
	defer f.Close()
	for _, at := range []int{0, 1, 16<<20 - 100, 16 << 20, 33 << 20, len(text) - 1000} {
		b := make([]byte, 1000)
		if n, err := f.ReadAt(b, int64(at)); n != len(b) || err != nil && !errors.Is(err, io.EOF) ||
			!bytes.Equal(b, text[at:at+len(b)]) {
			t.Fatalf("at %d: %d, %v", at, n, err)
		}
	}
}
