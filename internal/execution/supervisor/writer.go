package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"reprise/internal/execution/command"
)

const (
	// segmentBytes is when a segment is full.
	segmentBytes = 8 << 20
	// fullRetry is the time between two tries to write to a full disk.
	fullRetry = 100 * time.Millisecond
)

// ErrRemoved is returned for a spool whose directory was removed.
var ErrRemoved = errors.New("the directory of the run was removed")

// Writer writes a spool. Append must not be called concurrently; the other methods are safe for concurrent use.
type Writer struct {
	dir string
	max int64
	// OnFull, if set before the first Append, is called when Progress.FullSince has changed.
	OnFull func()

	mu       sync.Mutex
	changed  sync.Cond
	segments []segment // the last one is written to; the others are full
	tail     uint64    // the last frame that is written
	acked    uint64
	totals   command.Bytes
	kept     int64 // bytes in all segments
	stalled  time.Duration
	full     time.Time // since when the disk refuses what Append writes, zero if it does not
	closed   bool

	file *os.File // of the last segment
	// first is an empty file that becomes the first segment, or nil.
	first *os.File
	buf   []byte
}

type segment struct {
	first, last uint64
	bytes       int64
}

// NewWriter returns a Writer of an empty spool in dir. Its unacknowledged frames take at most about maxBytes.
func NewWriter(dir string, maxBytes int64) *Writer {
	w := &Writer{dir: dir, max: max(maxBytes, 2*segmentBytes)}
	w.changed.L = &w.mu
	return w
}

// Reuse makes an empty file, which Recycle has returned, the first segment. It is called before the first Append.
func (w *Writer) Reuse(first *os.File) { w.first = first }

// Recycle returns the file of the first segment, emptied, for the Reuse of another Writer. ok is false if the spool
// has, or has had, other files, or much in this one. first is nil if nothing was written. No Append may follow.
func (w *Writer) Recycle() (first *os.File, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.tail == 0 && w.file == nil:
		first, w.first = w.first, nil
		return first, true
	case len(w.segments) != 1 || w.segments[0].first != 1 || w.segments[0].bytes > recycledBytes:
		return nil, false
	case w.file.Truncate(0) != nil:
		return nil, false
	}
	first, w.file = w.file, nil
	return first, true
}

// recycledBytes is the largest file that is used again. Emptying a larger one takes longer than removing it.
const recycledBytes = 256 << 10

// FirstSegment is the name of the file that Recycle returns.
var FirstSegment = filepath.Base(segmentName("", 1))

// segmentName is the file of the segment that begins with a frame.
func segmentName(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x.spool", first))
}

// Append writes chunks as the next frames, in one piece. It waits while the spool is full, and
// while the disk is. The error is ErrRemoved, or fs.ErrClosed after Close.
func (w *Writer) Append(chunks []command.Chunk) error {
	w.await()
	w.mu.Lock()
	tail, totals := w.tail, w.totals
	at := int64(0)
	if n := len(w.segments); n > 0 && w.segments[n-1].bytes < segmentBytes {
		at = w.segments[n-1].bytes
	}
	w.mu.Unlock()

	w.buf = w.buf[:0]
	first := tail + 1
	for i := range chunks {
		tail++
		w.buf = appendFrame(w.buf, &Frame{Index: tail, Before: totals, Chunk: chunks[i]})
		chunks[i].Kind.Count(&totals, len(chunks[i].Data))
	}
	roll, err := w.write(at, first)
	if err != nil {
		return err
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if roll {
		w.segments = append(w.segments, segment{first: first, bytes: segmentHeader})
		w.kept += segmentHeader
	}
	last := &w.segments[len(w.segments)-1]
	last.last = tail
	last.bytes += int64(len(w.buf))
	w.kept += int64(len(w.buf))
	w.tail, w.totals = tail, totals
	if cap(w.buf) > segmentBytes/4 {
		w.buf = nil
	}
	w.changed.Broadcast()
	return nil
}

// await returns when there is room.
func (w *Writer) await() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept < w.max || w.closed {
		return
	}
	since := time.Now()
	for w.kept >= w.max && !w.closed {
		w.changed.Wait()
	}
	w.stalled += time.Since(since)
}

// write writes buf at an offset of the last segment, or into a new one if that is 0, until the disk takes it. It
// reports whether it has written into a new one.
func (w *Writer) write(at int64, first uint64) (rolled bool, err error) {
	for {
		err := w.tryWrite(at, first)
		w.tellFull(err)
		switch {
		case err == nil:
			return at == 0, nil
		case errors.Is(err, fs.ErrNotExist):
			return false, ErrRemoved
		case w.isClosed():
			return false, fs.ErrClosed
		}
		if _, err := os.Stat(w.dir); errors.Is(err, fs.ErrNotExist) {
			return false, ErrRemoved
		}
		time.Sleep(fullRetry)
		if w.makeRoom() {
			at = 0
		}
	}
}

// tellFull records whether the disk refuses to take what Append writes.
func (w *Writer) tellFull(refused error) {
	w.mu.Lock()
	changed := w.full.IsZero() == (refused != nil)
	if changed {
		w.full = time.Time{}
	}
	if changed && refused != nil {
		w.full = time.Now()
	}
	w.mu.Unlock()
	if changed && w.OnFull != nil {
		w.OnFull()
	}
}

// makeRoom removes even the last segment if all of it is acknowledged, because a full disk has no other space.
func (w *Writer) makeRoom() (removed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled += fullRetry
	if w.acked != w.tail {
		return false
	}
	for _, s := range w.segments {
		_ = os.Truncate(segmentName(w.dir, s.first), 0) // the reader may have it open still
		_ = os.Remove(segmentName(w.dir, s.first))
		w.kept -= s.bytes
	}
	w.segments = nil
	return true
}

// tryWrite is one attempt of write. It does not look at the segments, which an Ack may change meanwhile.
func (w *Writer) tryWrite(at int64, first uint64) error {
	if at > 0 {
		_, err := w.file.WriteAt(w.buf, at) // over the remains of a failed attempt
		return err
	}
	file := w.first
	w.first = nil
	if file == nil {
		var err error
		if file, err = os.OpenFile(segmentName(w.dir, first), createFlags, 0o600); err != nil {
			return err
		}
	}
	if w.file != nil {
		_ = w.file.Close()
	}
	w.file = file
	if _, err := file.WriteAt(w.buf, segmentHeader); err != nil {
		return err
	}
	_, err := file.WriteAt(appendSegmentHeader(nil, w.dir), 0)
	return err
}

const createFlags = os.O_WRONLY | os.O_CREATE | syscall.O_CLOEXEC

func (w *Writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// Ack reports that the frames up to last are kept elsewhere. Their segments are removed.
func (w *Writer) Ack(last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = max(w.acked, min(last, w.tail))
	for len(w.segments) > 0 {
		s := w.segments[0]
		if s.last > w.acked || len(w.segments) == 1 && s.bytes < segmentBytes {
			break
		}
		_ = os.Remove(segmentName(w.dir, s.first))
		w.kept -= s.bytes
		w.segments = w.segments[1:]
	}
	w.changed.Broadcast()
}

// Progress is the progress of a Writer.
type Progress struct {
	// Tail is the last frame, and Totals is what all of them hold.
	Tail   uint64        `json:"tail"`
	Totals command.Bytes `json:"totals"`
	// Stalled is how long Append has waited in total.
	Stalled time.Duration `json:"stalled,omitempty"`
	// FullSince is since when the disk refuses what Append writes. It is zero if it does not.
	FullSince time.Time `json:"full_since,omitzero"`
}

// Progress returns the progress of the spool.
func (w *Writer) Progress() Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Progress{Tail: w.tail, Totals: w.totals, Stalled: w.stalled, FullSince: w.full}
}

// Close releases a waiting Append. The spool is kept.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
}

// Release closes the files. No Append may follow.
func (w *Writer) Release() {
	for _, f := range []*os.File{w.file, w.first} {
		if f != nil {
			_ = f.Close()
		}
	}
}
