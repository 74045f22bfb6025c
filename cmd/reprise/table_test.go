package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
)

// TestControlCharactersOfServerAreReplaced: names, reasons and codes that a server sends cannot move the cursor or
// reverse the direction of text.
func TestControlCharactersOfServerAreReplaced(t *testing.T) {
	const evil = "a\x1b[2J\x9b1m\a\r\u202Eb\u2066c\u200Fd\u061Ce\u2028f\x7f"
	const want = "a\uFFFD[2J\uFFFD1m\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFDd\uFFFDe\uFFFDf\uFFFD"
	wide := strings.ToValidUTF8(strings.ReplaceAll(evil, "\x9b", "\u009b"), "?")
	for name, print := range map[string]func(*bytes.Buffer){
		"table": func(b *bytes.Buffer) {
			rows := newTable(b)
			rows.row(wide)
			_ = rows.flush()
		},
		"error": func(b *bytes.Buffer) { report(b, errors.New(wide), nil) },
		"gap":   func(b *bytes.Buffer) { _ = printGap(b, &client.Gap{Code: wide, Missed: 1}) },
	} {
		var b bytes.Buffer
		print(&b)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: %q, want %q in it", name, b.String(), want)
		}
	}
	if got := printable.Text("two\nlines\tof é 漢\U0001F600\u200D"); got != "two\nlines\tof é 漢\U0001F600\u200D" {
		t.Errorf("%q", got)
	}
}
