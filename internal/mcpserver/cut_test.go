package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
		got := c.show(n, 1, func(o omission) string { return fmt.Sprintf("[%d %d]", o.omitted, o.after) })
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

// TestClipTellsWhatIsGone: of what is left out, the events before the first that is kept are gone.
func TestClipTellsWhatIsGone(t *testing.T) {
	c := newClip(20)
	for seq := range uint64(100_000) {
		c.add(seq+1, []byte("0123456789"))
	}
	if len(c.marks) > 10_000 {
		t.Fatalf("%d marks", len(c.marks))
	}
	for _, x := range []struct{ earliest, after uint64 }{{1, 1}, {2, 1}, {3, 2}, {50_000, 49_999}, {99_999, 99_998}} {
		got := c.show(20, x.earliest, func(omission) string { return "" })
		gone := max(0, 10*(int64(x.earliest)-1)-10) // after the first event, which is shown
		if got.omitted != 999_980 || got.after != x.after || got.gone < gone || got.gone > gone+c.total/512 {
			t.Errorf("from %d: %+v, want %d gone", x.earliest, got.omission, gone)
		}
	}
	if got := c.show(20, 100_001, func(omission) string { return "" }); got.gone != got.omitted {
		t.Errorf("nothing is kept: %+v", got.omission)
	}
}

// TestLongestWaitIsSaid: a call that asks for a longer wait than any call has gets the longest, and is told so.
func TestLongestWaitIsSaid(t *testing.T) {
	wait, err := longestWait("wait", 120)
	if err != nil || wait != maxWait {
		t.Fatalf("%v, %v", wait, err)
	}
	for until, want := range map[string]string{
		untilEnd:   `[goes on after 50s, the longest wait of a call; cursor "c"]`,
		untilMatch: `[goes on after 50s, the longest wait of a call, no match; cursor "c"]`,
	} {
		p := &page{q: &outputQuery{wait: wait, until: until}, facts: outputFacts{Cursor: "c"}, deadline: time.Now()}
		var b strings.Builder
		p.writeEnd(&b)
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
	s := &Server{}
	out := &executeOutput{runStatus: runStatus{ID: "x"}, Cursor: "c", goesOn: true, waited: wait}
	text := s.executed(t.Context(), "", out).Content[0].(*mcp.TextContent).Text
	want := `[execution x goes on after 50s, the longest wait of a call; get_execution_output with cursor "c" reads on]`
	if text != want {
		t.Errorf("%q, want %q", text, want)
	}
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
