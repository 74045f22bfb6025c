package command

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"
)

// stdin writes to the stdin of a command.
type stdin struct {
	turn   chan struct{} // holds a token while a write is under way
	tty    bool
	wanted bool // the request opens it

	mu     sync.Mutex
	file   *os.File // nil before the start and after the end
	offset int64
	open   bool
	line   bool // the last byte ended a line
	closed bool // permanently: the run is over
	// writers are the named writers, ordered by their last write, the newest at the end.
	writers []stdinOf
}

// stdinOf is the number of bytes of one writer.
type stdinOf struct {
	writer string
	offset int64
}

// maxWriters is the maximum number of remembered writers.
const maxWriters = 256

// newStdin returns a stdin whose turn is taken until start has returned.
func newStdin(open, tty bool) *stdin {
	s := &stdin{turn: make(chan struct{}, 1), open: open, wanted: open, tty: tty, line: true}
	s.turn <- struct{}{}
	return s
}

// start gives the input of the request, then lets others write.
func (s *stdin) start(file *os.File, input []byte, open bool) {
	defer func() { <-s.turn }()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.file, s.open = file, true
	s.mu.Unlock()
	if len(input) > 0 {
		_, _ = s.copy(context.Background(), input) // what the command does not read is its own affair
	}
	if !open {
		s.shut()
	}
}

// end refuses all further writes and releases a waiting one.
func (s *stdin) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.open = true, false
	if s.file != nil && !s.tty {
		_ = s.file.Close()
	} else if s.file != nil {
		_ = s.file.SetWriteDeadline(time.Unix(1, 0))
	}
	s.file = nil
}

// state returns the state of stdin, or of one writer.
func (s *stdin) state(writer string) Stdin {
	s.mu.Lock()
	defer s.mu.Unlock()
	if writer == "" {
		return Stdin{Offset: s.offset, Open: s.open}
	}
	for i := range s.writers {
		if s.writers[i].writer == writer {
			return Stdin{Offset: s.writers[i].offset, Open: s.open}
		}
	}
	return Stdin{Open: s.open}
}

// count adds n bytes to the count of a named writer.
func (s *stdin) count(writer string, n int) {
	if writer == "" || n == 0 {
		return
	}
	at := stdinOf{writer: writer, offset: int64(n)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers = slices.DeleteFunc(s.writers, func(w stdinOf) bool {
		if w.writer == writer {
			at.offset += w.offset
		}
		return w.writer == writer
	})
	if len(s.writers) == maxWriters {
		s.writers = slices.Delete(s.writers, 0, 1)
	}
	s.writers = append(s.writers, at)
}

// write writes a piece. The caller holds the turn. took is the number of bytes of Data that were written or skipped.
func (s *stdin) write(ctx context.Context, p *Piece) (took int, err error) {
	if p.Offset >= 0 {
		at := s.state(p.Writer).Offset
		if p.Offset > at || p.Exact && p.Offset != at {
			return 0, refuse(Conflict, "stdin at offset %d, the command has been given %d bytes", p.Offset, at)
		}
		took = int(min(at-p.Offset, int64(len(p.Data))))
	}
	switch {
	case took < len(p.Data):
		n, err := s.copy(ctx, p.Data[took:])
		s.count(p.Writer, n)
		if took += n; err != nil {
			return took, err
		}
	case p.Data == nil && !p.EOF && !s.state("").Open:
		return 0, errStdinClosed
	}
	if p.EOF {
		s.shut()
	}
	return took, nil
}

// copy writes p and counts the written bytes. It blocks until the command reads.
func (s *stdin) copy(ctx context.Context, p []byte) (n int, err error) {
	s.mu.Lock()
	file := s.file
	ok := s.open && file != nil
	if ok {
		_ = file.SetWriteDeadline(time.Time{})
	}
	s.mu.Unlock()
	if !ok {
		return 0, errStdinClosed
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = file.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err = file.Write(p)
	if !stop() {
		<-interrupted // or it would hit the next write
	}
	s.mu.Lock()
	s.offset += int64(n)
	if n > 0 {
		s.line = p[n-1] == '\n'
	}
	s.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return n, context.Cause(ctx)
	}
	if err != nil {
		return n, refuse(Ended, "the command does not read: %w", err)
	}
	return n, nil
}

// shut lets the command find the end of its stdin.
func (s *stdin) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.file == nil {
		return
	}
	s.open = false
	if !s.tty {
		_ = s.file.Close()
		return
	}
	// A terminal has no end of file. The end-of-file character makes the reader return its pending line, and means the
	// end only if that is empty.
	const eof = "\x04"
	_ = s.file.SetWriteDeadline(time.Now().Add(time.Second)) // the terminal may be full
	_, _ = s.file.WriteString(eof)
	if !s.line {
		_, _ = s.file.WriteString(eof)
	}
}
