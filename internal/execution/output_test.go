package execution_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

// TestOutputIsExact runs commands whose output has broken those who read lines or text.
func TestOutputIsExact(t *testing.T) {
	dir := t.TempDir()
	everyByte := make([]byte, 0, 256*64)
	for i := range 256 * 64 {
		everyByte = append(everyByte, byte(i*7+i/256))
	}
	files := map[string][]byte{
		"binary":     everyByte,
		"nul":        []byte("a\x00b\x00\x00"),
		"no-newline": []byte("no newline at the end"),
		"empty":      {},
		"one-line":   bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16),
		"crlf":       []byte("a\r\nb\rc\n\n"),
		"bad-utf8":   []byte("ok \xff\xfe \xe2\x82 \xf0\x9f\x98"),
	}
	h := newHost(t, execution.Options{})
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, want, 0o600); err != nil {
				t.Fatal(err)
			}
			x := start(t, h, execution.Request{Argv: []string{"sh", "-c", `cat "$0"; cat "$0" >&2`, file}})
			x = finish(t, h, x.ID)
			for _, channel := range []string{execution.Stdout, execution.Stderr} {
				if got := output(t, h, x.ID, channel); !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, want %d; sha256 %x, want %x",
						channel, len(got), len(want), sha256.Sum256(got), sha256.Sum256(want))
				}
			}
			if x.OutputTruncated {
				t.Error("said to be truncated")
			}
		})
	}
}

// TestWindowIsFilled: of output that comes at once, a stream keeps as much as it was told to, less one part.
func TestWindowIsFilled(t *testing.T) {
	const kept = 512 << 10
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{
		Argv: []string{"sh", "-c", `head -c 4000000 /dev/zero`}, Retention: execution.Retention{MaxBytes: kept},
	})
	s, err := h.Stream(t.Context(), reprise.DefaultTenant, x.ID)
	if err != nil {
		t.Fatal(err)
	}
	for !errors.Is(err, reprise.ErrEnded) { // the window passes by this reader
		reader, err2 := s.Reader(t.Context(), reprise.Tail())
		if err2 != nil {
			t.Fatal(err2)
		}
		_, err = reader.Next(t.Context())
		reader.Close()
	}
	out, err := h.Output(t.Context(), reprise.DefaultTenant, x.ID, execution.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if n := out.Size() - out.First(); out.Size() != 4000000 || n > kept || n < kept*3/4 {
		t.Errorf("%d of %d bytes are kept, of at most %d", n, out.Size(), kept)
	}
}

func TestChannelsKeepTheirOrder(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{
		Command: `for i in 1 2 3 4 5; do echo "o$i"; read x; echo "e$i" >&2; read x; done`, StdinOpen: true,
	})
	want := []string{"o1", "e1", "o2", "e2", "o3", "e3", "o4", "e4", "o5", "e5"}
	for _, word := range want {
		await(t, h, x.ID, word)
		_, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Offset: -1, Data: strings.NewReader("\n")})
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range follow(t, h, x.ID) {
		if e.Type == execution.Stdout || e.Type == execution.Stderr {
			got = append(got, strings.Fields(string(e.Data))...)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestNoRuneIsSplit writes runes a byte at a time, and then half a one that never becomes whole.
func TestNoRuneIsSplit(t *testing.T) {
	h := newHost(t, execution.Options{})
	for tries := 1; ; tries++ { // a machine that stops for half a second splits a rune
		x := start(t, h, execution.Request{Argv: []string{"perl", "-e", `
			for (1..8) { for (split //, "\360\237\230\200\342\202\254x") {
				syswrite STDOUT, $_; select undef, undef, undef, 0.003;
			} }
			syswrite STDOUT, "\342\202"; select undef, undef, undef, 0.05; syswrite STDOUT, "\254";`}})
		var all []byte
		var split []string
		for _, e := range follow(t, h, x.ID) {
			if e.Type != execution.Stdout {
				continue
			}
			if !utf8.Valid(e.Data) {
				split = append(split, string(e.Data))
			}
			all = append(all, e.Data...)
		}
		if want := strings.Repeat("😀€x", 8) + "€"; string(all) != want {
			t.Errorf("got %q", all)
		}
		if len(split) == 0 {
			break
		}
		if tries == 3 {
			t.Fatalf("runes were split: %q", split)
		}
	}
	// A long text is cut into events between runes too.
	x := start(t, h, execution.Request{Command: `i=0; while [ $i -lt 2000 ]; do printf 'x€€€€€€€€€€€€€€€€€€€€€€€€€€€€€€'; i=$((i+1)); done`})
	for _, e := range follow(t, h, x.ID) {
		if e.Type == execution.Stdout && (!utf8.Valid(e.Data) || len(e.Data) > 32<<10) {
			t.Errorf("an event of %d bytes, valid %t", len(e.Data), utf8.Valid(e.Data))
		}
	}
}

// TestHalfARuneIsNotHeldBack: what might begin a rune is shown when nothing follows.
func TestHalfARuneIsNotHeldBack(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: `printf 'a\342'; read forever; echo`, StdinOpen: true})
	await(t, h, x.ID, "a\xe2")
	if err := h.Cancel(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	finish(t, h, x.ID)
}

func TestOutputByOffset(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := sh(t, h, "printf 0123456789; printf abc >&2; printf ABCDEFGHIJ")
	o, err := h.Output(within(t), tenant, x.ID, execution.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if o.First() != 0 || o.Size() != 20 || !o.Ended() {
		t.Errorf("first %d, size %d, ended %t", o.First(), o.Size(), o.Ended())
	}
	const all = "0123456789ABCDEFGHIJ"
	for offset := range 21 {
		for _, length := range []int{-1, 0, 1, 7, 100} {
			want := all[offset:]
			if length >= 0 {
				want = want[:min(length, len(want))]
			}
			var b bytes.Buffer
			n, err := o.Copy(within(t), &b, int64(offset), int64(length), false)
			if err != nil || b.String() != want || n != int64(len(want)) {
				t.Fatalf("offset %d length %d: %q, %d, %v; want %q", offset, length, b.String(), n, err, want)
			}
		}
	}
	if _, err := o.Copy(within(t), &bytes.Buffer{}, 21, -1, false); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("beyond the end: %v", err)
	}
}

func TestOutputIsFollowedToTheEnd(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: `echo one; read go; echo two; echo three`, StdinOpen: true})
	await(t, h, x.ID, "one")
	o, err := h.Output(within(t), tenant, x.ID, execution.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if o.Size() != 4 || o.Ended() {
		t.Errorf("size %d, ended %t", o.Size(), o.Ended())
	}
	if _, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{
		Offset: -1,
		Data:   strings.NewReader("go\n"),
	}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := o.Copy(within(t), &b, 2, -1, true); err != nil || b.String() != "e\ntwo\nthree\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestTrimmedOutputKeepsItsOffsets keeps a few events of many: offsets stay exact, and reads of trimmed bytes are
// refused.
func TestTrimmedOutputKeepsItsOffsets(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{})
	const lines = 20_000 // and one more, which is kept whatever the batches before it are
	x := start(t, h, execution.Request{
		Command: fmt.Sprintf(`i=0; while [ $i -lt %d ]; do printf '%%09d\n' $i; i=$((i+1)); done; read x; echo noise >&2; read x; printf '%%09d\n' $i; read x`,
			lines),
		Retention: execution.Retention{MaxBytes: 20_000}, StdinOpen: true,
	})
	const all = lines * 10
	for step, want := range []execution.Bytes{{Stdout: all}, {Stdout: all, Stderr: 6}, {Stdout: all + 10, Stderr: 6}} {
		until(t, "all is written", func() bool {
			x, err := h.Show(within(t), tenant, x.ID)
			return err == nil && x.Bytes == want
		})
		if step == 2 {
			break
		}
		_, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Offset: -1, Data: strings.NewReader("\n")})
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		o, err := h.Output(within(t), tenant, x.ID, execution.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		if o.Size() != (lines+1)*10 || o.First() == 0 || o.First() >= o.Size() {
			t.Fatalf("first %d, size %d", o.First(), o.Size())
		}
		var b bytes.Buffer
		if _, err := o.Copy(within(t), &b, o.First(), -1, false); err != nil {
			t.Fatal(err)
		}
		whole := (o.First() + 9) / 10 * 10
		if got, want := b.String()[whole-o.First():], fmt.Sprintf("%09d\n", whole/10); !strings.HasPrefix(got, want) {
			t.Errorf("at offset %d is %.10q, want %q", whole, got, want)
		}
		_, err = o.Copy(within(t), &b, o.First()-1, -1, false)
		lost, ok := errors.AsType[*execution.LostError](err)
		if !ok || lost.First != o.First() || !errors.Is(err, reprise.ErrExpired) {
			t.Errorf("one byte before: %v", err)
		}
	}
	check()
	if err := h.Cancel(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	finishCut(t, h, x.ID)
	check()
}

// finishCut waits for the end of an execution that has lost its beginning.
func finishCut(t *testing.T, h *execution.Host, id string) {
	t.Helper()
	until(t, "the execution ends", func() bool {
		x, err := h.Show(within(t), tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return x.Status == execution.StatusEnded
	})
}

// TestChattyLinesBecomeFewEvents: 10,000 events are kept by default. 12,000 lines that are written
// one by one must not go out of the window for being short.
func TestChattyLinesBecomeFewEvents(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: `i=0; while [ $i -lt 12000 ]; do echo $i; i=$((i+1)); done`})
	x = finish(t, h, x.ID)
	if got := output(t, h, x.ID, execution.Stdout); bytes.Count(got, []byte("\n")) != 12_000 {
		t.Errorf("%d lines are kept", bytes.Count(got, []byte("\n")))
	}
}

// TestCountsAreNotBehindReaders: whoever has seen output finds it counted.
func TestCountsAreNotBehindReaders(t *testing.T) {
	t.Parallel() // it waits most of the time
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "for i in $(seq 1000); do echo $i; sleep 0.001; done"})
	r := reader(t, h, x.ID)
	defer r.Close()
	var seen int64
	for e, err := range r.Events(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == execution.Stdout {
			seen += int64(len(e.Data))
		}
		shown, err := h.Show(within(t), tenant, x.ID)
		if err != nil {
			t.Fatal(err)
		}
		if shown.Bytes.Stdout < seen {
			t.Fatalf("%d bytes were seen, and %d are counted", seen, shown.Bytes.Stdout)
		}
	}
}
