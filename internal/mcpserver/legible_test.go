package mcpserver

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readable is s as a legible makes it in pieces, which have the lengths that cut returns.
func readable(s string, cut func(left int) int) (string, *legible) {
	var l legible
	var got strings.Builder
	out := func(_ uint64, text []byte) { got.Write(text) }
	for seq := uint64(1); len(s) > 0; seq++ {
		n := cut(len(s))
		l.take(seq, []byte(s[:n]), out)
		s = s[n:]
	}
	l.flush(out)
	return got.String(), &l
}

func whole(left int) int { return left }

func TestLegibleOutput(t *testing.T) {
	bar := strings.Repeat("[=====>    ] compiling\r", 100)
	for _, c := range []struct{ in, want string }{
		{"plain\ntext", "plain\ntext"},
		{"a\r\nb\r\n", "a\nb\n"},
		{"a\r\r\nb", "a\nb"},
		{"10%\r20%\r30%\ndone\n", "10%\n20%\n30%\ndone\n"},
		{"\r10%\r20%", "10%\n20%"},
		{"10%\r", "10%"},
		{bar + "finished\n", "[100 overwritten states of this line are left out]\nfinished\n"},
		{"caf\xe9 au lait\n", "caf\\xe9 au lait\n"},
		{"one\x00two\n", "one\\x00two\n"},
		{"cut rune \xe2\x82", "cut rune \\xe2\\x82"},
		{"a€😀", "a€😀"},
	} {
		for name, cut := range map[string]func(int) int{"whole": whole, "bytes": func(int) int { return 1 }} {
			if got, _ := readable(c.in, cut); got != c.want {
				t.Errorf("%.40q in %s is %q, want %q", c.in, name, got, c.want)
			}
		}
	}
}

// TestLegibleOutputInPieces: it makes no difference how the output is cut, and no line of it is lost.
func TestLegibleOutputInPieces(t *testing.T) {
	pieces := []string{"text", "€", "\n", "\r", "\r\n", "\xff", "\x00", strings.Repeat("x", 3000)}
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "text"), "")
		want, one := readable(s, whole)
		got, many := readable(s, func(left int) int { return rapid.IntRange(1, left).Draw(t, "n") })
		if got != want || one.binary() != many.binary() {
			t.Fatalf("%q is %q at once and %q in pieces", s, want, got)
		}
		if strings.ContainsAny(got, "\r\x00") || !isText([]byte(got)) ||
			strings.Count(got, "\n") < strings.Count(s, "\n") {
			t.Fatalf("%q is %q", s, got)
		}
	})
}

// TestLegibleSeq: a text comes with the seq of the event in which it begins, or an earlier one.
func TestLegibleSeq(t *testing.T) {
	var l legible
	var seqs []uint64
	out := func(seq uint64, _ []byte) { seqs = append(seqs, seq) }
	for i, s := range []string{"be", "gin\nnext", " line\n", "\xe2", "\x82\xac\n"} {
		l.take(uint64(i+1), []byte(s), out)
	}
	for i, want := range []uint64{1, 2, 4} {
		if len(seqs) != 3 || seqs[i] != want {
			t.Fatalf("seqs %v, want 1 2 4", seqs)
		}
	}
}

func TestBinaryIsNotShown(t *testing.T) {
	for s, want := range map[string]bool{
		"\xff": true, "a\x00b\xff": true, "": false, "text\n": false, "nul\x00 in a line\n": false,
		"latin-1: caf\xe9\n": false, "a€😀": false,
	} {
		for _, cut := range []func(int) int{whole, func(int) int { return 1 }} {
			if _, l := readable(s, cut); l.binary() != want {
				t.Errorf("%q is binary: %v", s, !want)
			}
		}
		if isBinary([]byte(s)) != want {
			t.Errorf("%q alone is binary: %v", s, !want)
		}
	}
}
