package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTerminalFile(f)
}

// table writes rows in columns. People get a heading; without a terminal there is none,
// so that the output can be cut up.
type table struct {
	w *tabwriter.Writer
}

func newTable(out io.Writer, heading ...string) *table {
	t := &table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if isTerminal(out) {
		t.row(heading...)
	}
	return t
}

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable(cell)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// printable keeps what others have named from moving the cursor of a terminal, and from showing in another order than
// it has.
func printable(s string) string { return strings.Map(printableRune, s) }

// printableText is printable for a text of several lines.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printableRune(r)
	}, s)
}

// printableRune replaces controls (C0, DEL, C1), the marks that change the direction of text, and the separators that
// some terminals take for a new line.
func printableRune(r rune) rune {
	switch {
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
		return '\uFFFD'
	}
	return r
}

// printObject writes v as a line of JSON.
func printObject(v any) error {
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// moment is a time for people: of day today, or the date.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func durationMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// clip cuts a cell to a width.
func clip(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	return string(runes[:width-1]) + "…"
}
