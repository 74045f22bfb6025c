package command

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// pump reads one channel of a command into the spool.
type pump struct {
	kind  Kind
	file  *os.File
	spool *spool
	// admit returns how many of n more bytes of output are kept; see Limits.OutputBytes.
	admit func(n int) int
	// masker masks secrets; nil if there are none.
	masker *masker
	// last is set when the pump is to stop at the first pause.
	last atomic.Bool
	// cut is set if the pump stopped before the end of the channel.
	cut bool
	// turn is held by one of the pumps of a command while it reads and gives, where their order matters; otherwise nil.
	// before is then the pump whose data comes first, or nil.
	turn   *sync.Mutex
	before *pump

	// With a turn, only its holder uses what follows.
	buf  []byte // nil before and after run
	held int    // bytes of an incomplete rune at the start of buf
	over bool   // run has returned
}

const (
	// readBytes is the size of a read.
	readBytes = 4 * chunkBytes
	// runeWait limits how long an incomplete rune is held back for its remaining bytes.
	runeWait = 500 * time.Millisecond
	// lastWait is the pause at which a pump stops that was asked to.
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

// inOrder lets what a command has written to stdout stand before what it has written to stderr later. The channels are
// two pipes, and which one is read first is chance otherwise. A program that is talked to writes its answer to stdout,
// and then its prompt to stderr.
func inOrder(stdout, stderr *pump) {
	stdout.turn = &sync.Mutex{}
	stderr.turn, stderr.before = stdout.turn, stdout
}

// run reads until the end of the channel.
func (p *pump) run() {
	defer p.end()
	kept := pumpBuffers.Get().(*[]byte)
	defer pumpBuffers.Put(kept)
	p.inTurn(func() {
		if p.buf == nil { // otherwise catchUp came first
			p.buf = *kept
		}
	})
	defer p.inTurn(func() { p.buf, p.over = nil, true })
	for left := lastReads; ; {
		p.await()
		err := p.step()
		if err == nil {
			if p.last.Load() {
				left--
			}
			if left > 0 {
				continue
			}
		}
		p.inTurn(func() {
			p.give(p.buf[:p.held])
			p.held = 0
		})
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // the end, or EIO from a terminal that no process holds any more
		}
		if p.last.Load() {
			p.cut = true
			return
		}
	}
}

// inTurn calls f in the turn of the pump.
func (p *pump) inTurn(f func()) {
	if p.turn != nil {
		p.turn.Lock()
		defer p.turn.Unlock()
	}
	f()
}

// step reads once, within the time that await has set, and gives what was read.
func (p *pump) step() error {
	if p.turn == nil {
		n, err := p.read(p.buf[p.held:])
		p.took(n)
		return err
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	read := func(fd uintptr) bool {
		p.turn.Lock()
		defer p.turn.Unlock()
		var n int
		n, err = readFile(fd, p.buf[p.held:])
		if n > 0 && p.before != nil {
			p.before.catchUp()
		}
		p.took(n)
		return !errors.Is(err, os.ErrDeadlineExceeded) // which here means that nothing is there
	}
	if failed := raw.Read(read); failed != nil {
		err = failed
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if failed := raw.Control(func(fd uintptr) { read(fd) }); failed != nil {
			return failed
		}
	}
	return err
}

// catchUp gives what is there. The caller has the turn; run may be waiting in step, or not have begun.
func (p *pump) catchUp() {
	if p.over {
		return
	}
	if p.buf == nil {
		p.buf = make([]byte, readBytes)
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for range lastReads {
			n, err := readFile(fd, p.buf[p.held:])
			if err != nil {
				return
			}
			p.took(n)
		}
	})
	if p.held > 0 {
		_ = p.file.SetReadDeadline(time.Now().Add(runeWait))
	}
}

// took gives the n bytes that were read behind those that are held, except an incomplete rune at the end.
func (p *pump) took(n int) {
	if n <= 0 {
		return
	}
	n += p.held
	p.held = incompleteRune(p.buf[:n])
	p.give(p.buf[:n-p.held])
	copy(p.buf, p.buf[n-p.held:n])
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
func (p *pump) await() {
	var rune bool
	p.inTurn(func() { rune = p.held > 0 })
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
		p.spool.add(p.kind, data[:n])
		data = data[n:]
	}
}
