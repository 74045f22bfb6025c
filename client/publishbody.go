package client

import (
	"context"
	"io"
	"time"
)

// publishBody is the body of a request of a PublishStream: the unacknowledged events, followed by new ones.
type publishBody struct {
	s   *PublishStream
	ctx context.Context // the request's

	// PublishStream.mu guards these.
	at     *segment
	offset int
	closed bool
	ping   bool // nothing was sent for a while
}

// body returns the body of a request, the number of its first event, and the time limit for the first acknowledgement.
func (s *PublishStream) body(ctx context.Context) (_ *publishBody, number uint64, patience time.Duration) {
	context.AfterFunc(ctx, s.wake)
	s.mu.Lock()
	defer s.mu.Unlock()
	patience = s.p.c.opts.Timeout
	if !s.short {
		patience = min(patience, firstAnswer)
	}
	return &publishBody{s: s, ctx: ctx, at: s.head}, s.head.first, patience
}

// Close implements io.Closer. It ends a Read that waits.
func (b *publishBody) Close() error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.closed = true
	b.s.changed.Broadcast()
	return nil
}

// Read implements io.Reader. It waits for events, and brings a blank line when none have come for a while.
func (b *publishBody) Read(p []byte) (int, error) {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := b.copy(p); n > 0 {
		return n, nil
	}
	ping := time.AfterFunc(min(maxPing, s.p.c.opts.Timeout/3), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.ping = true
		s.changed.Broadcast()
	})
	defer ping.Stop()
	for {
		switch {
		case b.closed:
			return 0, io.ErrClosedPipe
		case b.ctx.Err() != nil:
			return 0, context.Cause(b.ctx)
		}
		if n := b.copy(p); n > 0 {
			return n, nil
		}
		switch {
		case s.closing || s.short:
			return 0, io.EOF
		case b.ping:
			b.ping = false
			return copy(p, "\n"), nil
		}
		s.starving = true
		s.changed.Wait()
	}
}

// copy copies the next bytes to p. It returns 0 if no event is waiting.
func (b *publishBody) copy(p []byte) (n int) {
	for {
		n = copy(p, b.at.lines[b.offset:])
		b.offset += n
		if n > 0 || b.at.next == nil {
			return n
		}
		b.at, b.offset = b.at.next, 0
	}
}
