package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/web"
)

const (
	// maxFoundBytes and maxFoundEvents limit the events that were read from a body and are not being appended yet.
	// Above them, reading stops. One read may exceed both.
	maxFoundBytes, maxFoundEvents = 1 << 20, 10_000
	// minReadRoom and maxReadRoom are the sizes of the first and of later buffers for a body.
	minReadRoom, maxReadRoom = 4 << 10, 64 << 10
	// maxThrownAway limits how much of a body is read and dropped after a refusal.
	maxThrownAway = 4 << 20
)

// errWholeBody ends the events of a body that has come to its end.
var errWholeBody = errors.New("the body has ended")

// foundEvents are the events in a body of lines. One goroutine reads the body while another takes the found events.
type foundEvents struct {
	maxLine int64
	pause   time.Duration // the longest in the body
	ended   chan struct{} // closed when the body is no longer being read

	mu      sync.Mutex
	changed sync.Cond // broadcast when one of the fields below changes
	waiting []reprise.Event
	bytes   int             // that the waiting events were read from
	taken   []reprise.Event // the events that are being appended
	asked   bool            // a blank line requests the state of the publish
	err     error           // the reason why no more events follow
}

func newFoundEvents(maxLine int64, pause time.Duration) *foundEvents {
	f := &foundEvents{maxLine: maxLine, pause: pause, ended: make(chan struct{})}
	f.changed.L = &f.mu
	return f
}

// take waits for events and returns all waiting ones, or none if a blank line has arrived. With the last events it
// returns the reason of the end: errWholeBody, or the error in the body. The events are valid until the next call.
func (f *foundEvents) take() ([]reprise.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.taken)
	spare := f.taken[:0]
	for len(f.waiting) == 0 && !f.asked && f.err == nil {
		f.changed.Wait()
	}
	f.taken, f.waiting, f.bytes, f.asked = f.waiting, spare, 0, false
	f.changed.Broadcast()
	return f.taken, f.err
}

// stop ends the events, unless they have ended: further input is dropped. It reports whether the body is still being
// read.
func (f *foundEvents) stop(cause error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = cause
	}
	f.changed.Broadcast()
	select {
	case <-f.ended:
		return false
	default:
		return true
	}
}

// add passes on the events found in size bytes, and the reason why nothing follows, or nil. It blocks while too much
// waits, and returns the reason if no more events are accepted.
func (f *foundEvents) add(events []reprise.Event, size int, wrong error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.err == nil && (f.bytes > maxFoundBytes || len(f.waiting) > maxFoundEvents) {
		f.changed.Wait()
	}
	if f.err != nil || size == 0 {
		return f.err
	}
	f.waiting, f.bytes, f.err = append(f.waiting, events...), f.bytes+size, wrong
	f.asked = f.asked || len(events) == 0 && wrong == nil
	f.changed.Broadcast()
	return wrong
}

// read reads body to its end, whatever becomes of its events.
func (f *foundEvents) read(body io.Reader) {
	defer close(f.ended)
	defer func() {
		if v := recover(); v != nil { // which would end the process
			f.stop(fmt.Errorf("reading a body panicked: %v", v))
		}
	}()
	err := f.readEvents(body)
	f.stop(err)
	if !errors.Is(err, errWholeBody) { // what else comes, so that the client can read why
		_, _ = io.CopyN(io.Discard, body, maxThrownAway)
	}
}

// readEvents finds events until the body ends or is invalid. An incomplete last line counts if the body ends normally,
// and not if the body is cut off.
func (f *foundEvents) readEvents(body io.Reader) error {
	in := newLineBuffer()
	lines := lineScanner{next: 1, maxLine: f.maxLine}
	for {
		n, failure := body.Read(in.room())
		ended := errors.Is(failure, io.EOF)
		block := in.lines(n, ended)
		events, wrong := lines.scan(block)
		if wrong == nil && ended {
			wrong = errWholeBody // together with the last events, so that they are acknowledged in the last line
		}
		if stopped := f.add(events, len(block), wrong); stopped != nil {
			return stopped
		}
		switch {
		case ended:
			return errWholeBody
		case errors.Is(failure, os.ErrDeadlineExceeded):
			return errPause(f.pause)
		case failure != nil:
			return web.BodyError(failure)
		case int64(in.unfinished()) > f.maxLine:
			return lines.tooLong()
		}
	}
}

// lineBuffer is where a body is read to. The lines that it has returned are not touched again.
type lineBuffer struct {
	buf  []byte // from the first unfinished line on
	size int    // of the newest memory
}

func newLineBuffer() *lineBuffer {
	return &lineBuffer{buf: make([]byte, 0, minReadRoom), size: minReadRoom}
}

func (b *lineBuffer) unfinished() int { return len(b.buf) }

// room returns the space for the next bytes.
func (b *lineBuffer) room() []byte {
	if cap(b.buf)-len(b.buf) < b.size/4 {
		b.size = max(min(2*b.size, maxReadRoom), 2*len(b.buf))
		b.buf = append(make([]byte, 0, b.size), b.buf...)
	}
	return b.buf[len(b.buf):cap(b.buf)]
}

// lines returns the lines that have ended, now that n bytes have come, or all that is left if the body has ended.
func (b *lineBuffer) lines(n int, ended bool) []byte {
	b.buf = b.buf[:len(b.buf)+n]
	end := len(b.buf)
	if !ended {
		end = bytes.LastIndexByte(b.buf, '\n') + 1
	}
	lines := b.buf[:end:end]
	b.buf = b.buf[end:]
	return lines
}

// lineScanner finds the events of lines.
type lineScanner struct {
	maxLine  int64
	next     int // number of the next line
	lastType string
	events   []reprise.Event
}

// scan returns the events of lines, those before a bad line too. They are valid until the next call.
func (l *lineScanner) scan(lines []byte) ([]reprise.Event, error) {
	if int64(len(lines)) > l.maxLine {
		return l.scanLong(lines)
	}
	return l.scanLines(lines)
}

// scanLong is scan for lines, one of them possibly too long.
func (l *lineScanner) scanLong(lines []byte) ([]reprise.Event, error) {
	good := 0
	for line := range bytes.Lines(lines) {
		if int64(len(bytes.TrimRight(line, "\r\n"))) > l.maxLine {
			events, err := l.scanLines(lines[:good])
			if err == nil {
				err = l.tooLong()
			}
			return events, err
		}
		good += len(line)
	}
	return l.scanLines(lines)
}

func (l *lineScanner) scanLines(lines []byte) (events []reprise.Event, err error) {
	ok := false
	if utf8.Valid(lines) {
		s := eventScanner{body: lines, lastType: l.lastType}
		events, ok = s.lines(l.events[:0])
		l.lastType = s.lastType
	}
	if !ok {
		events, err = decodeLinesFrom(l.events[:0], l.next, lines)
	}
	l.events = events
	l.next += bytes.Count(lines, []byte{'\n'})
	return events, err
}

// tooLong refuses the next line.
func (l *lineScanner) tooLong() error {
	p := problem.PayloadTooLarge(l.maxLine)
	p.Detail = fmt.Sprintf("line %d: %s", l.next, p.Detail)
	return p
}
