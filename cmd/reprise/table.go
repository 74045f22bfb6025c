package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
	"reprise/internal/screen"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	if r, ok := w.(*results); ok {
		w = r.file
	}
	f, ok := w.(*os.File)
	return ok && isTerminalFile(f)
}

// table writes rows in columns. On a terminal they have a heading and colours; otherwise there is no heading, so that
// the output is easy to parse.
type table struct {
	out     io.Writer
	palette palette
	heading []string // nil for rows of a name and a value
	rows    [][]string
}

func newTable(out io.Writer, heading ...string) *table {
	return &table{out: out, palette: paletteOf(out), heading: heading}
}

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = printable.Line(cell)
	}
	t.rows = append(t.rows, cells)
}

// flush writes the rows, with the heading above them if there are any. A list without rows is a line on stderr.
func (t *table) flush() error {
	if len(t.rows) == 0 && len(t.heading) > 0 {
		fmt.Fprintln(os.Stderr, "reprise: there is nothing to list")
		return nil
	}
	var b strings.Builder
	widths := t.widths()
	if isTerminal(t.out) {
		t.line(&b, widths, t.heading, func(int) style { return bold })
	}
	for _, row := range t.rows {
		t.line(&b, widths, row, func(column int) style { return t.style(row, column) })
	}
	t.rows = nil
	_, err := io.WriteString(t.out, b.String())
	return err
}

// widths returns the widths of columns. The last cell of a row is not padded.
func (t *table) widths() []int {
	widths := make([]int, 16)
	rows := t.rows
	if isTerminal(t.out) && len(t.heading) > 0 {
		rows = append(rows[:len(rows):len(rows)], t.heading)
	}
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			widths[i] = max(widths[i], screen.Width(cell)+2)
		}
	}
	return widths
}

// line appends a row.
func (t *table) line(b *strings.Builder, widths []int, cells []string, style func(column int) style) {
	for i, cell := range cells {
		b.WriteString(t.palette.draw(style(i), cell))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-screen.Width(cell)))
		}
	}
	if len(cells) > 0 {
		b.WriteByte('\n')
	}
}

// style returns the style of a cell if its column, or its row, holds a state.
func (t *table) style(row []string, column int) style {
	name := row[0]
	switch {
	case len(t.heading) > 0:
		name = t.heading[column]
	case column == 0:
		return dim
	}
	if strings.EqualFold(name, "status") || strings.EqualFold(name, "state") {
		return stateStyle(row[column])
	}
	return ""
}

// printObject writes v as a line of JSON.
func printObject(v any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	text := line.Bytes()
	if isTerminal(stdout) {
		text = append(printable.JSON(bytes.TrimSuffix(text, []byte("\n"))), '\n')
	}
	_, err := stdout.Write(text)
	return err
}

// moment is a time for people: of day today, or the date.
func moment(t client.Time) string {
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
