package clienttest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// hostile are bytes that line readers often mishandle.
var hostile = []string{
	"", "\r", "\n", "\r\n", "\n\n", "a\rb\nc\r\nd", "\x00", "a\x00b", "\uFEFF", "\uFEFFa", "\u2028",
	"a\u2028b\u2029c\u0085d",
	"\xff\xfe", "a\xc3", "\xa9b", "\xed\xa0\x80", "\xf5", ":", ": comment", " leading", "trailing ",
	"\ttab\v\f\x1b[31m\x7f",
	"data: x\n\n", "id: 5\n", "event: end\ndata: {}\n\n", "retry: 99999999\n", `{"seq":1}`, `"\u0000"`, "\\",
	"</script>",
	"\U0001F600", "e\u0301", strings.Repeat("x", 1000), strings.Repeat("\n", 1000), strings.Repeat("\U0001F600", 1000),
}

// recordingOf returns a recording of the given data, with invented cursors.
func recordingOf(data ...string) (*recording, []Event) {
	rec := &recording{end: "\n"}
	var want []Event
	for i, d := range append(data, "") {
		seq, kind := i+1, "note"
		cursor := fmt.Sprintf("%d.%s.%s", seq, strings.Repeat("A", 16), strings.Repeat("0", 13))
		e := Event{Seq: uint64(seq), Cursor: cursor, Type: kind}
		if i == len(data) {
			e.Type, d = "end", `"outcome":"completed"`
			e.JSON = json.RawMessage(`{"outcome":"completed"}`)
		} else {
			e.JSON = json.RawMessage(strings.TrimPrefix(strings.TrimSpace(d), `"data":`))
		}
		object := fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T09:30:00.000Z",%s}`, seq, d)
		text := "id: " + cursor + "\nevent: " + e.Type + "\n"
		for line := range strings.SplitSeq(object, "\n") {
			text += "data: " + line + "\n"
		}
		rec.blocks = append(rec.blocks, block{cursor, text + "\n"})
		want = append(want, e)
	}
	return rec, want
}

// deep returns data that decoders of some languages refuse.
func deep() []string {
	nested := func(open, inside, end string, levels int) string {
		return `"data":` + strings.Repeat(open, levels) + inside + strings.Repeat(end, levels)
	}
	digits := `"data":{"n":` + strings.Repeat("9", 5000) + `}`
	return []string{
		nested("[", "", "]", 9990), digits, nested(`{"[":`, "1", "}", 9990), `"data":"flat"`,
		nested("[", "", "]", 5000), nested(`{"a":`, `"}"`, "}", 3000), nested("[", "", "]", 1000), digits,
	}
}

// longLine returns an event of 5 MiB in one line, manyLines one of 5,120 lines.
func longLine() string { return `"data":"` + strings.Repeat("0123456789abcdef", 5<<20/16) + `"` }

func manyLines() string {
	return "\"data\":[\n" + strings.Repeat("\"a line\",\n", 5118) + `"the last line"]`
}
