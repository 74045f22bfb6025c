package execd

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// split returns the lines of text that comes in pieces, which end at the given places.
func split(text string, at ...int) (got []string) {
	var l lines
	take := func(line []byte) { got = append(got, string(line)) }
	begun := 0
	for _, end := range append(at, len(text)) {
		l.feed([]byte(text[begun:end]), take)
		begun = end
	}
	l.end(take)
	return got
}

// TestLinesEnd: with LF, CR and CRLF, and the last one with the command.
func TestLinesEnd(t *testing.T) {
	for text, want := range map[string][]string{
		"a\n\nb\n\n\nc\n":   {"a", "", "b", "", "", "c"},
		"10%\r20%\r\n30%":   {"10%", "20%", "30%"},
		"\r\n\r\n\n\r":      {"", "", "", ""},
		"":                  nil,
		"x":                 {"x"},
		"\u2028a\u0085\n b": {"\u2028a\u0085", " b"},
	} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestLinesHoweverTheyCome: the lines of a channel do not depend on how its bytes were read.
func TestLinesHoweverTheyCome(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString([]string{"\r", "\n", "\r\n", "a", "é", "\xff", "\xe2\x82"}[random.IntN(7)])
		}
		text := b.String()
		whole := split(text)
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				if got := split(text, i, j); !slices.Equal(got, whole) {
					t.Fatalf("%q at %d and %d: %q, whole %q", text, i, j, got, whole)
				}
			}
		}
	}
}

// TestLongLines: a line is sent in pieces that are whole characters, and no piece is empty.
func TestLongLines(t *testing.T) {
	for _, n := range []int{maxLine - 1, maxLine, maxLine + 1, 3*maxLine + 7} {
		text := "x" + strings.Repeat("é", n/2) + "\nnext\n"
		got := split(text)
		if len(got) != (n/2*2+1)/maxLine+2 && len(got) != (n/2*2+1)/maxLine+1 {
			t.Errorf("%d bytes: %d pieces", n, len(got))
		}
		if last := len(got) - 1; got[last] != "next" || strings.Join(got[:last], "")+"\nnext\n" != text {
			t.Errorf("%d bytes: something is lost", n)
		}
		for _, piece := range got {
			if piece == "" || !utf8.ValidString(piece) {
				t.Errorf("%d bytes: a piece of %d bytes", n, len(piece))
			}
		}
		if cut := split(text, maxLine/3, maxLine-1); !slices.Equal(cut, got) {
			t.Errorf("%d bytes: other pieces when it comes in parts", n)
		}
	}
	if got := split(string(bytes.Repeat([]byte{0xbf}, 2*maxLine)) + "\n"); len(got) != 2 {
		t.Errorf("bytes that begin no character: %d pieces", len(got))
	}
}
