package mcpserver

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPlainTextHasNoEscapes(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"},
		{"\x1b[31mred\x1b[0m", "red"},
		{"\x1b[38;2;1;2;3mtrue\x1b[m", "true"},
		{"a\x1b[2K\x1b[1Gb", "ab"},
		{"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"},
		{"\x1b(Bcharset\x1b=\x1b>", "charset"},
		{"\x1bPdevice\x1b\\control", "control"},
		{"\x1b[31", ""},
		{"\x1b[31\nnext", "\nnext"},
		{"\x1b]open\nnext", "\nnext"},
		{"\x1b[3é", "é"},
		{"\x1b\x1b[31mtwice", "twice"},
		{"\x1b[\x1b[31mtwice", "twice"},
		{"tab\tand\rreturn", "tab\tand\rreturn"},
	} {
		var p plainer
		if got := string(p.plain([]byte(c.in))); got != c.want {
			t.Errorf("%q is %q, want %q", c.in, got, c.want)
		}
	}
}

// TestPlainInPieces: it makes no difference how the output is cut, no escape is left, and text between is kept.
func TestPlainInPieces(t *testing.T) {
	pieces := []string{"text", "é", "\n", "\x1b[0;1m", "\x1b]0;t\x07", "\x1b(B", "\x1b", "[", "31m", "\x1b\\", "]", ";"}
	rapid.Check(t, func(t *rapid.T) {
		whole := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "text"), "")
		var one, many plainer
		want := string(one.plain([]byte(whole)))
		var got strings.Builder
		for rest := []byte(whole); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			got.Write(many.plain(rest[:n]))
			rest = rest[n:]
		}
		if got.String() != want || strings.Contains(want, "\x1b") ||
			strings.Count(want, "\n") != strings.Count(whole, "\n") {
			t.Fatalf("%q is %q at once and %q in pieces", whole, want, got.String())
		}
	})
}
