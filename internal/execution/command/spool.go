package command

import (
	"sync"
	"time"
)

// spool holds the output of a command until it is appended. Readers of the pipes fill it, in the order in which they
// read, and wait while it is full: this slows the command down, and nothing is lost. One writer takes the whole content
// at a time.
type spool struct {
	mu      sync.Mutex
	changed sync.Cond
	// filling is the next batch for the writer; spare is the memory of the previous one.
	filling, spare batch
	// most is the number of bytes above which readers wait.
	most int
	// enough is the number of bytes that the writer takes without waiting for more.
	enough int
	closed bool // nothing more will come
	broken bool // nothing more will be taken
	// stalled is how long readers have waited for space.
	stalled time.Duration
	taken   time.Time // when the writer last took something
}

const (
	// chunkBytes is the most output in a chunk.
	chunkBytes = 32 << 10
	// WriteBytes is the most data that is given to one call of Output.Write.
	WriteBytes = 1 << 20
	// writeEvery is the minimum time between two small writes. Single output is written immediately. Frequent lines
	// are combined into fewer chunks, since a stream keeps a limited number of events.
	writeEvery = 2 * time.Millisecond
	// gatherBytes is the size from which a write is not small.
	gatherBytes = 256 << 10
	// keptBytes is how much memory an idle spool keeps.
	keptBytes = 64 << 10
)

// batch is a sequence of chunks, their data end to end in buf.
type batch struct {
	buf   []byte
	spans []span
}

type span struct {
	kind Kind
	time time.Time
	end  int // in batch.buf
}

func newSpool(most int) *spool {
	s := &spool{most: most, enough: min(gatherBytes, most/2)}
	s.changed.L = &s.mu
	return s
}

// add puts a chunk at the end. Output that follows output of the same channel while both still wait goes into one
// chunk, up to chunkBytes. It blocks while the spool is full.
func (s *spool) add(kind Kind, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.filling.buf) >= s.most && !s.broken {
		since := time.Now()
		for len(s.filling.buf) >= s.most && !s.broken {
			s.changed.Wait()
		}
		s.stalled += time.Since(since)
	}
	if s.broken {
		return
	}
	before := len(s.filling.buf)
	s.filling.add(kind, data)
	if before == 0 || before < s.enough && len(s.filling.buf) >= s.enough {
		s.changed.Broadcast() // at other times the writer is not waiting for this
	}
}

func (b *batch) add(kind Kind, data []byte) {
	b.buf = append(b.buf, data...)
	if last := len(b.spans) - 1; last >= 0 && kind != Started && b.spans[last].kind == kind {
		begin := 0
		if last > 0 {
			begin = b.spans[last-1].end
		}
		if len(b.buf)-begin <= chunkBytes {
			b.spans[last].end = len(b.buf)
			return
		}
	}
	b.spans = append(b.spans, span{kind: kind, time: time.Now(), end: len(b.buf)})
}

// close ends the input of the spool.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.changed.Broadcast()
}

// abandon releases the waiting readers and drops all further output.
func (s *spool) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
	s.changed.Broadcast()
}

// take returns the output since the previous call, and frees the previous result. It waits for output; ok is false at
// the end of the output.
func (s *spool) take() (b batch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.filling.spans) == 0 && !s.closed && !s.broken {
		s.changed.Wait()
	}
	s.gather()
	if len(s.filling.spans) == 0 || s.broken {
		return batch{}, false
	}
	s.taken = time.Now()
	b = s.filling
	s.filling, s.spare = s.spare, b
	if cap(s.filling.buf) > keptBytes && len(b.buf) <= keptBytes {
		s.filling = batch{} // the rush is over
	}
	s.filling.buf, s.filling.spans = s.filling.buf[:0], s.filling.spans[:0]
	s.changed.Broadcast()
	return b, true
}

// gather waits for more while the last write was just now. The caller holds mu.
func (s *spool) gather() {
	due := s.taken.Add(writeEvery)
	for !s.closed && !s.broken && len(s.filling.buf) < s.enough {
		wait := time.Until(due)
		if wait <= 0 {
			return
		}
		timer := time.AfterFunc(wait, s.wake)
		s.changed.Wait()
		timer.Stop()
	}
}

func (s *spool) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// stall returns how long readers have waited since its last call.
func (s *spool) stall() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.stalled
	s.stalled = 0
	return d
}

// drain gives everything to out, up to WriteBytes at a time and in order, until the spool is closed and empty. After an
// error of Write, it releases the waiting readers and drops the rest.
func (s *spool) drain(out *Output) error {
	var chunks []Chunk
	for {
		b, ok := s.take()
		if !ok {
			return nil
		}
		if d := s.stall(); d > 0 && out.Stalled != nil {
			out.Stalled(d)
		}
		begin, size := 0, 0
		for i, sp := range b.spans {
			chunks = append(chunks, Chunk{Time: sp.time, Kind: sp.kind, Data: b.buf[begin:sp.end:sp.end]})
			size += sp.end - begin
			begin = sp.end
			if i+1 < len(b.spans) && size+b.spans[i+1].end-begin <= WriteBytes {
				continue
			}
			if err := out.Write(chunks); err != nil {
				s.abandon()
				return err
			}
			clear(chunks)
			chunks, size = chunks[:0], 0
		}
	}
}
