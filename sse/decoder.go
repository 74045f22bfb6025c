package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// ErrTooLong is wrapped by the error for a line or an event above
// DecoderOptions.MaxBytes.
var ErrTooLong = errors.New("sse: line or event too long")

// DecoderOptions are the settings of a Decoder. Zero fields mean defaults.
type DecoderOptions struct {
	// LastEventID is the initial value of Decoder.LastEventID: the id that the stream
	// was resumed from.
	LastEventID string
	// MaxBytes is the maximum size of a line, and of the data of an event. Default: 16 MiB.
	MaxBytes int
	// Comment, if not nil, is called with the text of each comment as it is
	// read, without the colon and one space. The text is valid during the call.
	Comment func(text []byte)
}

// Decoder reads an event stream. It is not safe for concurrent use.
//
// It follows the standard's algorithm, except that it returns invalid UTF-8 unchanged
// where the standard replaces it by U+FFFD.
type Decoder struct {
	r    io.Reader
	opts DecoderOptions
	err  error // of r, once what was read before it is used up, or a line too long

	buf        []byte // what has been read; its length is the size of the space
	start, end int    // buf[start:end] has not been given out as lines
	scanned    int    // buf[start:scanned] holds no line break
	begun      bool   // the first line is behind, and with it a byte order mark
	afterCR    bool   // a LF that comes next belongs to the CR before

	retry    time.Duration
	hasRetry bool
	lastID   string // set when a block is complete

	// Of the block that is being read:
	id       string
	hasID    bool
	kind     string // the event field
	data     []byte // each line ends with LF
	lastKind string // of the block before: most have the same
}

const (
	firstBuffer = 16 << 10
	defaultMax  = 16 << 20
	emptyReads  = 100 // a reader that gives nothing so often is broken
	bom         = "\xEF\xBB\xBF"
)

// NewDecoder returns a Decoder that reads from r. It reads ahead.
func NewDecoder(r io.Reader, opts *DecoderOptions) *Decoder {
	d := &Decoder{r: r}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.MaxBytes <= 0 {
		d.opts.MaxBytes = defaultMax
	}
	d.lastID = d.opts.LastEventID
	return d
}

// LastEventID returns the newest id of all complete blocks. The id of an
// incomplete block does not count.
func (d *Decoder) LastEventID() string { return d.lastID }

// Retry returns the newest reconnection time of the stream, and false if there is
// none yet. It takes effect at once, as the standard
// demands, even if its block is incomplete.
func (d *Decoder) Retry() (time.Duration, bool) { return d.retry, d.hasRetry }

// Next returns the next block that dispatches an event or has an id; the latter has
// nil Data if it dispatches nothing. It blocks as long as its reader does.
// At the end it returns the error of the reader, usually io.EOF, or an error that
// wraps ErrTooLong, and the same error at each later call. An incomplete block
// is discarded.
func (d *Decoder) Next() (Event, error) {
	for {
		line, err := d.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) > 0 {
			if err := d.field(line); err != nil {
				return Event{}, err
			}
			continue
		}
		if event, ok := d.dispatch(); ok {
			return event, nil
		}
	}
}

// dispatch ends a block. It is false for a block that says nothing.
func (d *Decoder) dispatch() (Event, bool) {
	event := Event{ID: d.id, Type: TypeMessage, LastEventID: d.lastID}
	if d.hasID {
		d.lastID = d.id
		event.LastEventID = d.id
	}
	if d.kind != "" {
		event.Type = d.kind
	}
	if n := len(d.data); n > 0 {
		event.Data = d.data[: n-1 : n-1]
	}
	said := d.hasID || event.Data != nil
	d.id, d.hasID, d.kind, d.data = "", false, "", d.data[:0]
	return event, said
}

// field takes one line that is not empty.
func (d *Decoder) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if len(d.data)+len(value) > d.opts.MaxBytes {
			return d.tooLong("event")
		}
		d.data = append(d.data, value...)
		d.data = append(d.data, '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			d.id, d.hasID = string(value), true
		}
	case "event":
		if string(value) != d.lastKind {
			d.lastKind = string(value)
		}
		d.kind = d.lastKind
	case "retry":
		if wait, ok := parseRetry(value); ok {
			d.retry, d.hasRetry = wait, true
		}
	case "":
		if d.opts.Comment != nil {
			d.opts.Comment(value)
		}
	}
	return nil
}

// parseRetry reads milliseconds: nothing but ASCII digits. What no Duration can
// hold becomes the longest.
func parseRetry(value []byte) (time.Duration, bool) {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	var ms int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = min(ms*10+int64(c-'0'), longest)
	}
	return time.Duration(ms) * time.Millisecond, len(value) > 0
}

// line returns the next line without its break. It is valid until the next call.
func (d *Decoder) line() ([]byte, error) {
	for {
		if d.afterCR && d.start < d.end {
			if d.buf[d.start] == '\n' {
				d.start++
			}
			d.afterCR = false
			d.scanned = d.start
		}
		if n := lineEnd(d.buf[d.scanned:d.end]); n >= 0 {
			n += d.scanned
			line := d.buf[d.start:n]
			// The LF that may follow a CR is not waited for: an event must not
			// be late by what comes after it.
			d.afterCR = d.buf[n] == '\r'
			d.start, d.scanned = n+1, n+1
			return d.firstLine(line), d.checkLine(len(line))
		}
		d.scanned = d.end
		if err := d.checkLine(d.end - d.start); err != nil {
			return nil, err
		}
		if d.err != nil {
			return nil, d.err
		}
		d.fill()
	}
}

// firstLine cuts the byte order mark off the first line.
func (d *Decoder) firstLine(line []byte) []byte {
	if d.begun {
		return line
	}
	d.begun = true
	return bytes.TrimPrefix(line, []byte(bom))
}

func (d *Decoder) checkLine(n int) error {
	// The bound is meant for values; a field name, a byte order mark and a space come on top.
	if n > d.opts.MaxBytes+len(bom+"event: ") {
		return d.tooLong("line")
	}
	return nil
}

func (d *Decoder) tooLong(what string) error {
	d.start, d.scanned, d.end = 0, 0, 0
	d.err = fmt.Errorf("%w: a %s of more than %d bytes", ErrTooLong, what, d.opts.MaxBytes)
	return d.err
}

// fill reads once, or until there is something. It makes room first.
func (d *Decoder) fill() {
	if d.start > 0 && (d.start == d.end || d.end == len(d.buf)) {
		n := copy(d.buf, d.buf[d.start:d.end])
		d.start, d.end, d.scanned = 0, n, d.scanned-d.start
	}
	if d.end == len(d.buf) {
		d.buf = append(d.buf, make([]byte, max(len(d.buf), firstBuffer))...)
	}
	for range emptyReads {
		n, err := d.r.Read(d.buf[d.end:])
		d.end += n
		d.err = err
		if n > 0 || err != nil {
			return
		}
	}
	d.err = io.ErrNoProgress
}
