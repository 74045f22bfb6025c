package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestClipKeepsBeginningAndEnd: whatever comes in whatever pieces, what is shown is the beginning and the end, no
// longer than said, and no rune is cut.
func TestClipKeepsBeginningAndEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 64).Draw(t, "limit")
		whole := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "€", "😀", "\n"}), 0, 200).Draw(t,
			"text"), "")
		c := newClip(limit)
		seq := uint64(1)
		var starts []int // of the events
		for rest := []byte(whole); len(rest) > 0; seq++ {
			n := rapid.IntRange(1, min(len(rest), 70)).Draw(t, "piece")
			starts = append(starts, len(whole)-len(rest))
			c.add(seq, rest[:n])
			rest = rest[n:]
		}
		n := rapid.IntRange(0, limit).Draw(t, "n")
		got := c.show(n, func(omitted int64, after uint64) string { return fmt.Sprintf("[%d %d]", omitted, after) })
		if got.bytes != int64(len(whole)) {
			t.Fatalf("%+v of %q", got, whole)
		}
		if len(whole) <= n {
			if got.text != whole || got.omitted != 0 {
				t.Fatalf("%+v of %q", got, whole)
			}
			return
		}
		head, rest, _ := strings.Cut(got.text, "[")
		_, tail, _ := strings.Cut(rest, "]")
		switch {
		case !utf8.ValidString(got.text):
			t.Fatalf("%q is no text", got.text)
		case len(head)+len(tail) > n || !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail):
			t.Fatalf("%q is shown of %q, at most %d", got.text, whole, n)
		case len(head)+len(tail) < n-6:
			t.Fatalf("only %d bytes are shown of %d", len(head)+len(tail), n)
		case got.omitted != int64(len(whole)-len(head)-len(tail)):
			t.Fatalf("%d are omitted of %q", got.omitted, whole)
		case starts[got.after] > len(head) || int(got.after)+1 < len(starts) && starts[got.after+1] <= len(head):
			t.Fatalf("the first byte left out is at %d, not after event %d of %v", len(head), got.after, starts)
		}
	})
}

func TestShareOfTwoChannels(t *testing.T) {
	for _, c := range []struct{ first, second, wantFirst, wantSecond int }{
		{0, 0, 0, 0},
		{10, 0, 10, 0},
		{0, 10, 0, 10},
		{11, 0, 10, 0},
		{0, 11, 0, 10},
		{5, 5, 5, 5},
		{5, 6, 5, 5},
		{6, 5, 5, 5},
		{3, 100, 3, 7},
		{100, 3, 7, 3},
		{100, 100, 5, 5},
	} {
		first, second := share(10, int64(c.first), int64(c.second))
		if first != c.wantFirst || second != c.wantSecond {
			t.Errorf("share(10, %d, %d) = %d, %d", c.first, c.second, first, second)
		}
	}
}
