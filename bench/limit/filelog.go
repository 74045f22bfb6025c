package limit

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// FileLog is a preallocated file to which concurrent appends are written together, with one
// fdatasync for all of them.
type FileLog struct {
	file *os.File
	size int64
	at   int64

	mu      sync.Mutex
	busy    bool
	waiting *group
}

type group struct {
	buf  []byte
	turn chan struct{} // receives when the first member is to write
	done chan struct{}
	err  error
}

// CreateFileLog makes a file of size bytes, all of them written once. When it is
// full, writing begins at its start again.
func CreateFileLog(path string, size int64) (*FileLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return nil, err
		}
	}
	return &FileLog{file: f, size: size}, f.Sync()
}

// Close closes the file.
func (l *FileLog) Close() error { return l.file.Close() }

// Append returns when the event is durable.
func (l *FileLog) Append(event []byte) error {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		err := l.write(event)
		l.next()
		return err
	}
	g := l.waiting
	first := g == nil
	if first {
		g = &group{turn: make(chan struct{}, 1), done: make(chan struct{})}
		l.waiting = g
	}
	g.buf = append(g.buf, event...)
	l.mu.Unlock()
	if !first {
		<-g.done
		return g.err
	}
	<-g.turn
	l.mu.Lock()
	l.waiting = nil
	l.mu.Unlock()
	g.err = l.write(g.buf)
	close(g.done)
	l.next()
	return g.err
}

func (l *FileLog) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.busy = false
		return
	}
	l.waiting.turn <- struct{}{}
}

func (l *FileLog) write(b []byte) error {
	if l.at+int64(len(b)) > l.size {
		l.at = 0
	}
	if _, err := l.file.WriteAt(b, l.at); err != nil {
		return err
	}
	l.at += int64(len(b))
	return unix.Fdatasync(int(l.file.Fd()))
}
