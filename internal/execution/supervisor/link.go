package supervisor

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"reprise/internal/execution/command"
)

// Link is how a server hears of the command of a supervisor: over the connection by which the supervisor got the
// command, if this server has started it, and otherwise over its socket. It holds the latest news: one goroutine puts
// them, and another one, which calls all methods except Close and IsJudged, takes them.
type Link struct {
	// send sends a call that has no answer.
	send func(call) error
	// end ends the news. It may be called more than once, and concurrently.
	end func()

	latest chan *News
	newest atomic.Pointer[News]
	failed chan struct{} // closed when no more news will come
	fails  sync.Once
	err    error

	// A supervisor needs acknowledgements only to free the disk, so small ones are sent together.
	acked uint64
	bytes int
	due   *time.Timer // nil while nothing is to be acknowledged
}

// newLink returns a Link without news. end is nil for one that only fail ends.
func newLink(send func(call) error, end func()) *Link {
	l := &Link{send: send, end: end, latest: make(chan *News, 1), failed: make(chan struct{})}
	if end == nil {
		l.end = func() { l.fail(errNoMoreNews) }
	}
	return l
}

// put replaces the news that were not taken yet: the newer ones contain them.
func (l *Link) put(n *News) {
	l.newest.Store(n)
	select {
	case <-l.latest:
	default:
	}
	l.latest <- n
}

// fail ends the news; the first error counts.
func (l *Link) fail(err error) {
	l.fails.Do(func() {
		l.err = err
		close(l.failed)
	})
}

// errNoMoreNews ends the news of a supervisor that is done with a run.
var errNoMoreNews = io.EOF

// IsJudged reports whether the newest news say that the command is being ended, or was.
func (l *Link) IsJudged() bool {
	n := l.newest.Load()
	if n == nil || n.Stopping || n.Ended == nil {
		return n != nil && n.Stopping
	}
	switch n.Ended.Outcome {
	case command.TimedOut, command.Cancelled, command.LimitExceeded:
		return true
	}
	return false
}

// Take waits for news that were not taken yet. Meanwhile it sends acknowledgements that are due.
func (l *Link) Take() (*News, error) {
	for {
		select {
		case n := <-l.latest:
			return n, nil
		default:
		}
		var due <-chan time.Time
		if l.due != nil {
			due = l.due.C
		}
		select {
		case n := <-l.latest:
			return n, nil
		case <-due:
			if err := l.ack(); err != nil {
				return nil, err
			}
			continue
		case <-l.failed:
		}
		select {
		case n := <-l.latest: // put just before
			return n, nil
		default:
			return nil, l.err
		}
	}
}

const (
	// ackBytes is how much output is acknowledged at once.
	ackBytes = 1 << 20
	// ackAfter is how long less than that waits.
	ackAfter = 50 * time.Millisecond
)

// Kept notes that the frames up to last are kept, which has taken n bytes since the previous call.
func (l *Link) Kept(last uint64, n int) error {
	l.acked = last
	if l.bytes += n; l.bytes >= ackBytes {
		return l.ack()
	}
	if l.due == nil {
		l.due = time.NewTimer(ackAfter)
	}
	return nil
}

// ack acknowledges what was noted.
func (l *Link) ack() error {
	l.stop()
	l.bytes = 0
	c := callOf(callAck)
	c.Ack = l.acked
	return l.send(c)
}

func (l *Link) stop() {
	if l.due != nil {
		l.due.Stop()
		l.due = nil
	}
}

// Forget reports that the end is kept, and waits until the supervisor has forgotten the run, which ends the news.
func (l *Link) Forget() {
	l.stop()
	_ = l.send(callOf(callForget))
	select {
	case <-l.failed:
	case <-time.After(callPatience):
	}
	l.Close()
}

// Close ends the news. It may be called more than once, and concurrently.
func (l *Link) Close() { l.end() }
