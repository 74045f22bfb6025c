package storewrap_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// compilerOutput is what the go command prints while it plans to build a program, and, where there is one, what a
// C compiler says of a program that is full of mistakes.
func compilerOutput(tb testing.TB) []byte {
	tb.Helper()
	dir := tb.TempDir()
	write := func(name, text string) {
		check(tb, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/app\n\ngo 1.26\n")
	write("main.go", "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\nfunc main() { fmt.Println(http.StatusOK) }\n")
	build := exec.CommandContext(tb.Context(), "go", "build", "-n", "-a", ".") // -n is -x without doing it
	build.Dir = dir
	out, err := build.CombinedOutput()
	if err != nil || len(out) < 100_000 {
		tb.Fatalf("go build -n: %v, %d bytes", err, len(out))
	}
	if gcc, err := exec.LookPath("gcc"); err == nil {
		var c strings.Builder
		c.WriteString("#include <stdio.h>\n#include <string.h>\n")
		for i := range 100 {
			fmt.Fprintf(&c,
				"static int count_%d(char *s, int n) { int unused; char buf[4]; if (n = %d) strcpy(buf, s); return printf(\"%%s\", n); }\n",
				i, i)
		}
		write("mistakes.c", c.String())
		compile := exec.CommandContext(tb.Context(), gcc, "-Wall", "-Wextra", "-O2", "-c", "mistakes.c", "-o",
			os.DevNull)
		compile.Dir = dir
		said, _ := compile.CombinedOutput() // it fails or not, as the version sees fit
		out = append(out, said...)
	}
	return out
}

// TestCompilerOutputGetsFourTimesSmaller as an execution appends it: chunks of some KiB as they come from a pipe, or
// line by line, a batch for each while there is little to do.
func TestCompilerOutputGetsFourTimesSmaller(t *testing.T) {
	out := compilerOutput(t)
	lines := bytes.SplitAfter(out, []byte("\n"))
	for _, test := range []struct {
		name   string
		events [][]byte
		batch  int // events in a batch
		least  float64
	}{
		{"chunks of 32 KiB", slices.Collect(slices.Chunk(out, 32<<10)), 1, 4},
		{"chunks of 4 KiB", slices.Collect(slices.Chunk(out, 4<<10)), 1, 4},
		{"100 lines a batch", lines, 100, 4},
		{"10 lines a batch", lines, 10, 2.5},
		{"a line a batch", lines, 1, 1.5},
	} {
		inner := memstore.New(nil)
		s := compress(t, inner)
		mustCreate(t, s, key("s"))
		req := request(key("s"), 1, "")
		total := 0
		at := created
		for batch := range slices.Chunk(test.events, test.batch) {
			req.Bytes, req.Count = nil, len(batch)
			for _, data := range batch {
				at = at.Add(3 * time.Millisecond)
				var err error
				req.Bytes, err = reprise.AppendRecord(req.Bytes, &reprise.Event{Time: at, Type: "stdout", Data: data})
				check(t, err)
			}
			mustAppend(t, s, req)
			total += len(req.Bytes)
			req.First += uint64(req.Count)
		}
		stored := 0
		page, err := inner.Read(t.Context(), key("s"), 0, 1<<30)
		check(t, err)
		for _, b := range page.Batches {
			stored += len(b.Bytes)
		}
		ratio := float64(total) / float64(stored)
		t.Logf("%s: %d bytes in %d batches are stored in %d: %.1f times smaller", test.name, total, len(page.Batches),
			stored, ratio)
		if ratio < test.least {
			t.Errorf("%s: %.1f times smaller, want %v", test.name, ratio, test.least)
		}
		check(t, s.Close())
	}
}
