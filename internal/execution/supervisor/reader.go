package supervisor

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Reader reads a spool that may still be written to. It is not safe for concurrent use.
type Reader struct {
	dir  string
	next uint64 // the index of the frame to return next

	file   *os.File // nil before the first segment
	first  uint64   // the first frame of the segment
	offset int64    // in the segment, of buf
	buf    []byte   // bytes that were read and not returned yet
	memory []byte
	size   int // of the next read; 0 before the first one
}

const (
	// firstRead is the size of the first read. Most runs print little.
	firstRead = 16 << 10
	// readBytes is the size that reads grow to.
	readBytes = 1 << 20
)

// NewReader returns a Reader that begins with the frame of index next.
func NewReader(dir string, next uint64) *Reader { return &Reader{dir: dir, next: next} }

// Unbounded is the argument of Read for a spool without a writer.
const Unbounded = math.MaxUint64

// Batch is the result of a read.
type Batch struct {
	// Frames have contiguous indexes. Their data is good until the next call.
	Frames []Frame
	// Skipped is the number of unreadable frames before them, damaged or missing.
	Skipped uint64
}

// Read returns frames up to the index last, which the writer has written, about maxBytes at a time. At the end it
// returns an empty Batch. With Unbounded, the end is the last readable frame.
//
// The error is one of the file system. Damaged and missing frames are not an error but are skipped.
func (r *Reader) Read(last uint64, maxBytes int) (Batch, error) {
	var b Batch
	size := 0
	for r.next <= last && size < maxBytes {
		f, skipped, found, err := r.read(last, size > 0)
		switch {
		case err != nil && len(b.Frames) > 0:
			return b, nil // it comes again
		case err != nil:
			return b, err
		case !found || skipped > 0 && len(b.Frames) > 0:
			return b, nil
		}
		b.Skipped += skipped
		r.next += skipped
		if f.Index == 0 { // all the rest was skipped
			return b, nil
		}
		b.Frames = append(b.Frames, f)
		r.buf = r.buf[frameHeader+len(f.Data):]
		r.offset += int64(frameHeader + len(f.Data))
		r.next++
		size += len(f.Data)
	}
	return b, nil
}

// read finds the frame next, or the first readable one after it, at the beginning of buf. With keep, it does not change
// memory that contains frames, and returns found as false if it would have to.
func (r *Reader) read(last uint64, keep bool) (f Frame, skipped uint64, found bool, err error) {
	for {
		f, state := r.parse(last)
		switch {
		case state == frameFound && f.Index >= r.next:
			return f, f.Index - r.next, true, nil
		case state == frameFound: // before the requested one
			r.skip(frameHeader + len(f.Data))
			continue
		case state == frameDamaged:
			r.skip(r.resync())
			continue
		case keep:
			return Frame{}, 0, false, nil
		}
		more, err := r.fill()
		switch {
		case err != nil:
			return Frame{}, 0, false, err
		case more:
			continue
		case len(r.buf) >= frameHeader: // its length is wrong, or it was cut
			r.skip(1)
			continue
		}
		if opened, err := r.open(); err != nil || !opened {
			return r.missing(last, err)
		}
	}
}

// resync returns the number of bytes to skip after an invalid frame. A frame with a plausible header was damaged in its
// data. The data are skipped without a search, because they belong to the command and may look like frames.
func (r *Reader) resync() int {
	n, ok := frameLength(r.buf)
	index := binary.LittleEndian.Uint64(r.buf[8:])
	if ok && n <= len(r.buf) && index == r.next {
		return n
	}
	return 1
}

// missing is the answer where nothing more can be read up to last.
func (r *Reader) missing(last uint64, err error) (Frame, uint64, bool, error) {
	if err != nil || last == Unbounded {
		return Frame{}, 0, false, err
	}
	return Frame{}, last + 1 - r.next, true, nil
}

type frameState int

const (
	frameFound frameState = iota
	frameDamaged
	frameShort // more has to be read
)

// parse decodes the frame at the beginning of buf.
func (r *Reader) parse(last uint64) (Frame, frameState) {
	if len(r.buf) < frameHeader {
		return Frame{}, frameShort
	}
	n, ok := frameLength(r.buf)
	index := binary.LittleEndian.Uint64(r.buf[8:])
	switch {
	case !ok || index < r.first || index > last:
		return Frame{}, frameDamaged
	case len(r.buf) < n:
		return Frame{}, frameShort
	}
	f, ok := parseFrame(r.buf[:n:n])
	if !ok {
		return Frame{}, frameDamaged
	}
	return f, frameFound
}

func (r *Reader) skip(n int) {
	r.buf = r.buf[n:]
	r.offset += int64(n)
}

// fill reads more of the segment behind buf; more is false at its end.
func (r *Reader) fill() (more bool, err error) {
	if r.file == nil {
		return false, nil
	}
	r.size = max(r.size, firstRead)
	had := len(r.buf)
	if len(r.memory) < had+r.size {
		grown := make([]byte, 2*(had+r.size))
		copy(grown, r.buf)
		r.memory = grown
	} else {
		copy(r.memory, r.buf)
	}
	n, err := r.file.ReadAt(r.memory[had:had+r.size], r.offset+int64(had))
	r.buf = r.memory[:had+n]
	if n == r.size {
		r.size = min(8*r.size, readBytes)
	}
	if n > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// open opens the segment with the frame next, or the first one after it, but none that was read before.
func (r *Reader) open() (opened bool, err error) {
	if r.next > r.first { // usually it begins with the frame
		if opened, err := r.openSegment(r.next); opened || err != nil {
			return opened, err
		}
	}
	firsts, err := segments(r.dir)
	first := uint64(0)
	for _, f := range firsts {
		if f > r.first && (first == 0 || f <= r.next) {
			first = f
		}
	}
	if err != nil || first == 0 {
		return false, err
	}
	return r.openSegment(first)
}

// openSegment opens the segment that begins with a frame, if there is one.
func (r *Reader) openSegment(first uint64) (opened bool, err error) {
	file, err := os.Open(segmentName(r.dir, first))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	header := make([]byte, segmentHeader)
	if _, err := file.ReadAt(header, 0); err == nil && string(header[:len(magic)]) == magic {
		if v := binary.LittleEndian.Uint32(header[len(magic):]); v > Version {
			_ = file.Close()
			return false, &VersionError{Version: int(v)}
		}
		if isOfAnotherRun(header, r.dir) {
			_ = file.Close()
			return false, nil
		}
	} // a damaged header says nothing; the frames have checksums of their own
	r.Close()
	r.file, r.first, r.offset, r.buf = file, first, segmentHeader, nil
	return true, nil
}

// segments are the first frames of the segments in dir, in order.
func segments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var firsts []uint64
	for _, e := range entries {
		text, ok := strings.CutSuffix(e.Name(), ".spool")
		if first, err := strconv.ParseUint(text, 16, 64); ok && err == nil {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	return firsts, err
}

// Next is the index of the frame that is returned next.
func (r *Reader) Next() uint64 { return r.next }

// Close closes the file. No Read may follow.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.buf = nil, nil
}
