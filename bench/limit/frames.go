package limit

import (
	"strconv"
	"sync"
)

// Frames is a log of frames in memory that any number of readers follow with a
// cursor each. It keeps the newest max bytes in one piece, and moves them to
// another when that is full.
type Frames struct {
	max int

	mu   sync.Mutex
	buf  []byte
	base int64 // position of buf[0]
	seq  uint64
	wake chan struct{} // closed when something is appended
}

// NewFrames makes a log that keeps at least the newest max bytes.
func NewFrames(max int) *Frames {
	return &Frames{max: max, buf: make([]byte, 0, 2*max), wake: make(chan struct{})}
}

// AppendFrame appends an event as Server-Sent Events frame it.
func AppendFrame(dst []byte, seq uint64, data []byte) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, seq, 10)
	dst = append(dst, "\nevent: message\ndata: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// Append frames an event and wakes the readers.
func (f *Frames) Append(data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cap(f.buf)-len(f.buf) < len(data)+64 {
		old := f.buf[len(f.buf)-f.max:]
		f.base += int64(len(f.buf) - len(old))
		f.buf = append(make([]byte, 0, 2*f.max), old...)
	}
	f.seq++
	f.buf = AppendFrame(f.buf, f.seq, data)
	close(f.wake)
	f.wake = make(chan struct{})
}

// End is the position behind the newest frame.
func (f *Frames) End() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base + int64(len(f.buf))
}

// After returns all frames after a position and the position behind them, and a channel that is
// closed when there are more.
func (f *Frames) After(at int64) (frames []byte, end int64, wake <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end = f.base + int64(len(f.buf))
	if at < f.base {
		at = f.base
	}
	return f.buf[at-f.base:], end, f.wake
}
