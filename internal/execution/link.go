package execution

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"reprise/internal/supervisor"
)

// link is how a run hears of its supervisor: over the connection by which the supervisor got the command, if this
// server has started it, and otherwise over its socket.
type link struct {
	news *mailbox
	// send sends a call that has no answer.
	send func(call) error
	// close ends the news. It may be called more than once, and concurrently.
	close func()
}

// dialLink connects to the socket of a supervisor.
func dialLink(ctx context.Context, m *remote) (*link, error) {
	conn, err := supervisor.Dial(ctx, m.dir, m.secret)
	if err != nil {
		return nil, err
	}
	if err := conn.Send(call{Op: callFollow}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	box := newMailbox()
	go func() {
		for {
			n := &news{}
			if err := conn.Receive(n); err != nil {
				box.fail(err)
				return
			}
			box.put(n)
		}
	}()
	return &link{news: box, send: func(c call) error { return conn.Send(c) }, close: func() { _ = conn.Close() }}, nil
}

// mailbox holds the latest news of a supervisor. One goroutine puts them, and another one takes them.
type mailbox struct {
	latest chan *news
	newest atomic.Pointer[news]
	failed chan struct{} // closed when no more news will come
	fails  sync.Once
	err    error
}

func newMailbox() *mailbox {
	return &mailbox{latest: make(chan *news, 1), failed: make(chan struct{})}
}

// put replaces the news that were not taken yet: the newer ones contain them.
func (b *mailbox) put(n *news) {
	b.newest.Store(n)
	select {
	case <-b.latest:
	default:
	}
	b.latest <- n
}

// isJudged reports whether the newest news say that the command is being ended, or was.
func (b *mailbox) isJudged() bool {
	n := b.newest.Load()
	if n == nil || n.Stopping || n.Ended == nil {
		return n != nil && n.Stopping
	}
	switch n.Ended.Outcome {
	case TimedOut, Cancelled, LimitExceeded:
		return true
	}
	return false
}

// fail ends the news; the first error counts.
func (b *mailbox) fail(err error) {
	b.fails.Do(func() {
		b.err = err
		close(b.failed)
	})
}

// take waits for news that were not taken yet. It returns nil without an error when due fires first.
func (b *mailbox) take(due <-chan time.Time) (*news, error) {
	select {
	case n := <-b.latest:
		return n, nil
	default:
	}
	select {
	case n := <-b.latest:
		return n, nil
	case <-due:
		return nil, nil
	case <-b.failed:
	}
	select {
	case n := <-b.latest: // put just before
		return n, nil
	default:
		return nil, b.err
	}
}

// awaitForgotten waits until the supervisor has forgotten the run, which ends the news.
func (l *link) awaitForgotten() {
	select {
	case <-l.news.failed:
	case <-time.After(callPatience):
	}
	l.close()
}

// errNoMoreNews ends the news of a supervisor that is done with a run.
var errNoMoreNews = io.EOF

// receipts are the acknowledgements of a run to its supervisor. A supervisor needs them only to free the disk, so small
// ones are sent together.
type receipts struct {
	link  *link
	acked uint64
	bytes int
	due   *time.Timer // nil while nothing is to be acknowledged
}

const (
	// ackBytes is how much output is acknowledged at once.
	ackBytes = 1 << 20
	// ackAfter is how long less than that waits.
	ackAfter = 50 * time.Millisecond
)

// timer fires when something is to be acknowledged that has waited.
func (a *receipts) timer() <-chan time.Time {
	if a.due == nil {
		return nil
	}
	return a.due.C
}

// add notes that the frames up to last are kept, which has taken n bytes since the previous call.
func (a *receipts) add(last uint64, n int) error {
	a.acked = last
	a.bytes += n
	if a.bytes >= ackBytes {
		return a.send()
	}
	if a.due == nil {
		a.due = time.NewTimer(ackAfter)
	}
	return nil
}

// send acknowledges what was noted.
func (a *receipts) send() error {
	a.stop()
	a.bytes = 0
	return a.link.send(call{Op: callAck, Ack: a.acked})
}

// stop forgets what was noted.
func (a *receipts) stop() {
	if a.due != nil {
		a.due.Stop()
		a.due = nil
	}
}
