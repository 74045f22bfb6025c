package artifact

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReceiveTakesNothingForGranted: what is not files within the bounds is refused, and so is what has no end.
func TestReceiveTakesNothingForGranted(t *testing.T) {
	whole, part := make([]byte, ChunkBytes), make([]byte, 3)
	file := func(path string, size int64) File { return File{Path: path, Size: size} }
	done := func(files ...File) Report { return Report{Done: true, Files: files} }
	many := make([]File, MaxFiles+1)
	for i := range many {
		many[i] = file("f", 0)
	}
	for name, c := range map[string]struct {
		reports []Report
		taken   bool
	}{
		"nothing": {[]Report{done()}, true},
		"files": {[]Report{
			{Chunk: whole}, {Chunk: part}, {Chunk: part}, done(file("a", ChunkBytes+3), file("d/e", 0), file("b", 3)),
		}, true},
		"no end":                    {[]Report{{Chunk: part}}, false},
		"an error":                  {[]Report{{Done: true, Error: "slow"}}, false},
		"more bytes than announced": {[]Report{{Chunk: part}, done()}, false},
		"fewer bytes":               {[]Report{done(file("a", 3))}, false},
		"chunks that are cut":       {[]Report{{Chunk: part}, {Chunk: part}, done(file("a", 6))}, false},
		"a chunk of two files":      {[]Report{{Chunk: make([]byte, 6)}, done(file("a", 3), file("b", 3))}, false},
		"an empty chunk":            {[]Report{{}, done()}, false},
		"a large chunk": {[]Report{
			{Chunk: make([]byte, ChunkBytes+1)}, done(file("a", ChunkBytes+1)),
		}, false},
		"more than there is room for": {[]Report{
			{Chunk: whole}, {Chunk: whole}, {Chunk: whole}, done(file("a", 3*ChunkBytes)),
		}, false},
		"a path that leads out": {[]Report{done(file("../a", 0))}, false},
		"an absolute path":      {[]Report{done(file("/a", 0))}, false},
		"a negative size":       {[]Report{done(file("a", -1))}, false},
		"too many files":        {[]Report{done(many...)}, false},
		"too many notes":        {[]Report{{Done: true, Notes: make([]string, 1000)}}, false},
	} {
		left := c.reports
		receive := func(v any) error {
			if len(left) == 0 {
				return io.EOF
			}
			*v.(*Report), left = left[0], left[1:]
			return nil
		}
		of := &Collection{MaxBytes: 2*ChunkBytes + 100}
		if _, _, err := of.Receive(receive, func([]byte) error { return nil }); (err == nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
	}
	full := errors.New("full")
	receive := func(v any) error { *v.(*Report) = Report{Chunk: part}; return nil }
	_, _, err := (&Collection{MaxBytes: 9}).Receive(receive, func([]byte) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("keep has failed: %v", err)
	}
}

// TestServeIsCollect: a collector sends what Collect finds in its working directory, if that is the directory that was
// opened, or a root.
func TestServeIsCollect(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte(strings.Repeat("x", ChunkBytes+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Collection{Dir: dir, Patterns: []string{"f", "none"}, MaxBytes: 1 << 20}
	c.Open()
	defer c.Close()
	if c.dir == nil {
		t.Skip(c.lacks)
	}
	for where, want := range map[string]struct {
		dir   string
		files int
		note  string
	}{"there": {dir, 1, "none: no such file"}, "elsewhere": {t.TempDir(), 0, "is not the same"}} {
		t.Chdir(want.dir)
		reports := make(chan Report, 10)
		of := Collection{Dir: c.Dir, Place: c.Place, Patterns: c.Patterns, MaxBytes: c.MaxBytes}
		if err := of.Serve(t.Context(), func(v any) error { reports <- v.(Report); return nil }); err != nil {
			t.Fatal(err)
		}
		bytes := 0
		files, notes, err := c.Receive(func(v any) error { *v.(*Report) = <-reports; return nil },
			func(chunk []byte) error { bytes += len(chunk); return nil })
		if err != nil || len(files) != want.files || bytes != want.files*(ChunkBytes+1) ||
			!slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, want.note) }) {
			t.Errorf("%s: %+v, %d bytes, %q, %v", where, files, bytes, notes, err)
		}
	}
}
