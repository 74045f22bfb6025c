package relay

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// cut returns the events of text that comes in pieces which end at the given places, as their types and data.
func cut(text string, at ...int) (types, data []string) {
	var s splitter
	begun := 0
	for _, end := range append(at, len(text)) {
		for _, e := range s.feed([]byte(text[begun:end])) {
			types, data = append(types, e.Type), append(data, string(e.Data))
		}
		begun = end
	}
	for _, e := range s.rest() {
		types, data = append(types, e.Type), append(data, string(e.Data))
	}
	return types, data
}

// TestBlocks: an event ends with its blank line, whatever ends lines.
func TestBlocks(t *testing.T) {
	for text, want := range map[string][]string{
		"data: 1\n\ndata: 2\n\n":          {"block data: 1\n\n", "block data: 2\n\n"},
		"data: 1\r\n\r\nid: 7\r\n\r\n":    {"block data: 1\r\n\r\n", "own id: 7\r\n\r\n"},
		"data: 1\r\rid\r\r":               {"block data: 1\r\r", "own id\r\r"},
		": beat\n\nevent: x\ndata: 1\n\n": {"block : beat\n\n", "block event: x\ndata: 1\n\n"},
		"data: 1\n\ndata: no end":         {"block data: 1\n\n", "part data: no end"},
		"ideal: no id\n\n":                {"block ideal: no id\n\n"},
		"":                                nil,
	} {
		types, data := cut(text)
		var got []string
		for i := range types {
			got = append(got, types[i]+" "+data[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestBlocksHoweverTheyCome: nothing is lost or changed, and events end at the same places.
func TestBlocksHoweverTheyCome(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString([]string{"\r", "\n", "\r\n", "a", "id: 1", ":"}[random.IntN(6)])
		}
		text := b.String()
		types, whole := cut(text)
		for i := range len(text) + 1 {
			got, data := cut(text, i)
			if strings.Join(data, "") != text {
				t.Fatalf("%q at %d: %q", text, i, data)
			}
			// An LF behind a CR may be the first byte of the next event.
			if len(got) < len(types) || !strings.HasSuffix(text, "\r") && !slices.Equal(got, types) && i > 0 &&
				text[i-1] != '\r' {
				t.Fatalf("%q at %d: %q %q, whole %q %q", text, i, got, data, types, whole)
			}
		}
	}
}

// TestLongBlock is kept in parts, and has one id, on a line of its own.
func TestLongBlock(t *testing.T) {
	for _, text := range []string{
		"data: " + strings.Repeat("x", 3*maxBlock) + "\n\n",
		strings.Repeat("data: x\n", maxBlock/4) + "\n",
		"data: " + strings.Repeat("x", maxBlock-5) + "\n\n",
	} {
		for _, step := range []int{1000, maxBlock + 1} {
			var places []int
			for at := step; at < len(text); at += step {
				places = append(places, at)
			}
			types, data := cut(text, places...)
			last := len(types) - 1
			if strings.Join(data, "") != text || types[last] != typeBlock || slices.Index(types, typeBlock) < last {
				t.Errorf("%d bytes by %d: %q", len(text), step, types)
			}
			var sent []byte
			for i := range data[:len(data)-1] {
				sent = append(sent, data[i]...)
			}
			sent = withLine(sent, []byte(data[len(data)-1]), "id: ", "1")
			if !bytes.HasSuffix(sent, []byte("x\nid: 1\n\n")) {
				t.Errorf("%d bytes by %d: ends with %q", len(text), step, sent[len(sent)-20:])
			}
		}
	}
}
