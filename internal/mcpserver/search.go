package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/execution"
	"reprise/internal/pattern"
)

const (
	// defaultFound is how many bytes of lines a search shows by default, and maxAround how many lines around each.
	defaultFound  = 4000
	defaultAround = 2
	maxAround     = 20
	// shownLine is how many bytes of a line a search shows.
	shownLine = 400
)

type searchInput struct {
	ID       string `json:"execution_id"`
	Pattern  string `json:"pattern" jsonschema:"RE2 expression for a line"`
	Around   *int   `json:"around,omitempty" jsonschema:"lines around each, 0 to 20 (default 2)"`
	Cursor   string `json:"cursor,omitempty" jsonschema:"where to begin"`
	MaxBytes int    `json:"max_bytes,omitempty" jsonschema:"256 to 1048576 (default 4000)"`
}

// searchQuery validates the input.
func (s *Server) searchQuery(in *searchInput) (q outputQuery, err error) {
	if in.Pattern == "" {
		return q, &execution.FieldError{Field: "pattern", Reason: "it is empty"}
	}
	if q.wanted, err = wantedOf("", in.Pattern); err != nil {
		return q, err
	}
	room, err := s.bound(cmp.Or(in.MaxBytes, min(defaultFound, s.opts.MaxBytes)))
	if err != nil {
		return q, err
	}
	around := defaultAround
	if in.Around != nil {
		around = *in.Around
	}
	if around < 0 || around > maxAround {
		return q, &execution.FieldError{Field: "around", Reason: fmt.Sprintf("0 to %d are taken", maxAround)}
	}
	q.form, q.pages, q.limit, q.maxBytes = formSearch, true, math.MaxInt, unclipped
	q.found = &found{around: around, room: room, channels: map[string]*foundIn{}}
	q.at, err = position(in.Cursor, "")
	return q, err
}

// search shows the lines of the output that match a pattern.
func (s *Server) search(ctx context.Context, req *mcp.CallToolRequest,
	in searchInput,
) (*mcp.CallToolResult, any, error) {
	c, err := s.enterFor(ctx, req, toolSearch, in.ID)
	if err != nil {
		return nil, nil, err
	}
	q, err := s.searchQuery(&in)
	r, err := s.openQuery(ctx, req, c, in.ID, &q, err)
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	if err := r.page.read(ctx, r.Reader); err != nil {
		return nil, nil, err
	}
	if err := q.found.finish(ctx, &q.wanted); err != nil {
		return nil, nil, err
	}
	return r.page.answer(r.Reader)
}

// found is what a search has found, as a model reads it.
type found struct {
	around   int
	room     int // bytes that may still be shown
	channels map[string]*foundIn
	text     strings.Builder
	on       string // the channel of the last line in text

	lines, hidden int // that match; hidden are the ones that are not in text
}

// foundIn is the search in a channel.
type foundIn struct {
	rest   []byte // a line whose end was not there yet
	cr     bool   // the last line ended with a carriage return
	before [][]byte
	after  int  // lines that are still shown after a match
	gap    bool // lines were left out since the last one that is in the text
}

// take searches output. A line ends with a line feed or a carriage return, or when it has windowBytes.
func (f *found) take(ctx context.Context, w *wanted, channel string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	release, err := w.places.Take(ctx, w.tenant)
	if err != nil {
		return err
	}
	defer release()
	in := f.channels[channel]
	if in == nil {
		in = &foundIn{}
		f.channels[channel] = in
	}
	for len(data) > 0 {
		i := bytes.IndexAny(data, "\r\n")
		n := i
		if i < 0 {
			n = len(data)
		}
		n = min(n, windowBytes-len(in.rest))
		in.rest = append(in.rest, data[:n]...)
		switch {
		case n == i:
			skip := in.cr && data[i] == '\n' && len(in.rest) == 0
			in.cr = data[i] == '\r'
			n++
			if skip {
				break
			}
			err = f.line(ctx, w.search, channel, in)
		case len(in.rest) == windowBytes:
			err = f.line(ctx, w.search, channel, in)
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// finish searches the lines whose ends were not there.
func (f *found) finish(ctx context.Context, w *wanted) error {
	for _, channel := range []string{execution.Stdout, execution.Stderr} {
		if in := f.channels[channel]; in != nil && len(in.rest) > 0 {
			if err := f.take(ctx, w, channel, []byte{'\n'}); err != nil {
				return err
			}
		}
	}
	return nil
}

// line takes the line that in.rest holds.
func (f *found) line(ctx context.Context, search *pattern.Search, channel string, in *foundIn) error {
	end, err := search.Find(ctx, in.rest)
	if err != nil {
		return err
	}
	line := in.rest
	in.rest = in.rest[:0]
	switch {
	case end >= 0 && f.room > 0:
		f.lines++
		for _, before := range in.before {
			f.show(channel, in, "  "+excerpt(before, 0), false)
		}
		in.before = nil
		f.show(channel, in, "> "+excerpt(line, end), true)
		in.after = f.around
	case end >= 0:
		f.lines++
		f.hidden++
	case in.after > 0:
		in.after--
		f.show(channel, in, "  "+excerpt(line, 0), false)
	default:
		in.remember(line, f.around)
	}
	return nil
}

// remember keeps the newest lines that are shown if the next one matches.
func (in *foundIn) remember(line []byte, around int) {
	line = line[:min(len(line), shownLine+1)]
	if len(in.before) < around {
		in.before = append(in.before, bytes.Clone(line))
		return
	}
	in.gap = true
	if around > 0 {
		oldest := in.before[0]
		copy(in.before, in.before[1:])
		in.before[around-1] = append(oldest[:0], line...)
	}
}

// show adds a line to the text if there is room for it, or always.
func (f *found) show(channel string, in *foundIn, line string, always bool) {
	heading := ""
	switch {
	case channel != f.on && (f.on != "" || channel == execution.Stderr):
		heading = "[" + channel + "]\n"
	case in.gap && f.text.Len() > 0:
		heading = "--\n"
	}
	size := len(heading) + len(line) + 1
	if size > f.room && !always {
		in.gap = true
		return
	}
	f.text.WriteString(heading + line + "\n")
	f.room -= size
	f.on, in.gap = channel, false
}

// excerpt is a line as text, or the part of it with a match that ends at end.
func excerpt(line []byte, end int) string {
	from := max(0, min(end-shownLine*3/4, len(line)-shownLine))
	to := min(len(line), from+shownLine)
	var l legible
	text := string(l.appendText(nil, line[from:to]))
	if from > 0 {
		text = "..." + text
	}
	if to < len(line) {
		text += "..."
	}
	return text
}

// write writes what was found.
func (f *found) write(b *strings.Builder) {
	b.WriteString(f.text.String())
	if f.lines == 1 {
		b.WriteString("[1 line matches]\n")
		return
	}
	fmt.Fprintf(b, "[%d lines match", f.lines)
	if f.hidden > 0 {
		fmt.Fprintf(b, "; the last %d of them are not shown, for max_bytes", f.hidden)
	}
	b.WriteString("]\n")
}
