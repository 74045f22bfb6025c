package execution

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"reprise"
)

// pump reads one channel of a command into the spool.
type pump struct {
	channel string
	file    *os.File
	spool   *spool
	// admit returns how many of n more bytes of output are kept; see Limits.OutputBytes.
	admit func(n int) int
	// masker masks secrets; nil if there are none.
	masker *masker
	// last is set when the pump is to stop at the first pause.
	last atomic.Bool
	// cut is set if the pump stopped before the end of the channel.
	cut bool
}

const (
	// readBytes is the size of a read.
	readBytes = 4 * chunkBytes
	// runeWait limits how long an incomplete rune is held back for its remaining bytes.
	runeWait = 500 * time.Millisecond
	// lastWait is the pause at which a pump stops that was told to.
	lastWait = 250 * time.Millisecond
	// lastReads is the number of reads after which it stops without a pause, because a process that prints could not be
	// killed. A full pipe or terminal takes fewer.
	lastReads = 256
)

// pumpBuffers are used again, for short commands.
var pumpBuffers = sync.Pool{New: func() any {
	buf := make([]byte, readBytes)
	return &buf
}}

// run reads until the end of the channel.
func (p *pump) run() {
	defer p.end()
	kept := pumpBuffers.Get().(*[]byte)
	defer pumpBuffers.Put(kept)
	buf := *kept
	held := 0 // bytes of an incomplete rune at the start of buf
	for left := lastReads; ; {
		p.await(held > 0)
		n, err := p.read(buf[held:])
		if n > 0 {
			n += held
			held = incompleteRune(buf[:n])
			p.give(buf[:n-held])
			copy(buf, buf[n-held:n])
		}
		if err == nil {
			if p.last.Load() {
				left--
			}
			if left > 0 {
				continue
			}
		}
		p.give(buf[:held])
		held = 0
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // the end, or EIO from a terminal that nobody holds any more
		}
		if p.last.Load() {
			p.cut = true
			return
		}
	}
}

// read reads within the time that await has set. It also reads data that is available once the time is over, since a
// process that was not scheduled finds both at once. The error is os.ErrDeadlineExceeded if there is no data.
func (p *pump) read(buf []byte) (n int, err error) {
	if n, err = p.file.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	_ = p.file.SetReadDeadline(time.Time{}) // await sets the next one
	failed := raw.Read(func(fd uintptr) bool {
		n, err = readFile(fd, buf)
		return true // does not wait
	})
	if failed != nil {
		return 0, failed
	}
	return n, err
}

// await sets the deadline of the next read.
func (p *pump) await(rune bool) {
	var deadline time.Time
	switch {
	case p.last.Load():
		deadline = time.Now().Add(lastWait)
	case rune:
		deadline = time.Now().Add(runeWait)
	}
	_ = p.file.SetReadDeadline(deadline)
	if p.last.Load() && (rune || deadline.IsZero()) { // finish was called in between
		_ = p.file.SetReadDeadline(time.Now().Add(lastWait))
	}
}

// finish lets the pump read the available data and then stop.
func (p *pump) finish() {
	p.last.Store(true)
	_ = p.file.SetReadDeadline(time.Now().Add(lastWait))
}

// give puts data into the spool, without secrets.
func (p *pump) give(data []byte) {
	if p.masker != nil {
		data = p.masker.feed(data)
	}
	p.put(data)
}

// end puts the held-back bytes into the spool.
func (p *pump) end() {
	if p.masker != nil {
		p.put(p.masker.rest())
	}
}

// put puts data into the spool in chunks that split no rune.
func (p *pump) put(data []byte) {
	data = data[:p.admit(len(data))]
	for len(data) > 0 {
		n := min(len(data), chunkBytes)
		if n < len(data) {
			n -= incompleteRune(data[:n])
		}
		p.spool.add(p.channel, reprise.FormatBytes, data[:n])
		data = data[n:]
	}
}

// incompleteRune returns the number of bytes at the end of b that begin a rune without completing it.
func incompleteRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
