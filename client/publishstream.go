package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/jsonscan"
	"reprise/internal/problem"
	"reprise/internal/ssefollow"
)

const linesType = "application/x-ndjson"

const (
	// maxUnacknowledged is the number of bytes of unacknowledged events above which Publish waits.
	maxUnacknowledged = 4 << 20
	// segmentBytes is the approximate number of bytes of events that share one piece of memory.
	segmentBytes = 64 << 10
	// maxPing is the longest silence in the body of a request.
	maxPing = 10 * time.Second
	// firstAnswer limits the time until the first acknowledgement. After it, a proxy is suspected of buffering the
	// body.
	firstAnswer = 5 * time.Second
)

// errHeldBack is the reason for giving up a request without any sign of progress.
var errHeldBack = errors.New("no acknowledgement came: something on the way collects bodies")

// PublishStreamOptions are the settings of Producer.Stream. The zero value of each field means its default.
type PublishStreamOptions struct {
	// Acknowledged is called after each commit with the added events, in order and from one goroutine. First is 0 if
	// the commit added nothing new. It must not call the PublishStream. Default: no call.
	Acknowledged func(Published)
}

// PublishStream publishes events one by one over a continuous request. Events that arrive while the server commits
// share the next commit, so a program need not batch them. When the connection is lost, another request continues with
// the unacknowledged events, and each event is published once. If a proxy buffers the body of a request until its end,
// the client makes short requests. It is safe for concurrent use.
type PublishStream struct {
	p    *Producer
	opts PublishStreamOptions
	ctx  context.Context // the life of the stream
	stop context.CancelCauseFunc
	done chan struct{} // closed when nothing of the stream is left

	mu       sync.Mutex
	changed  sync.Cond // broadcast when one of the fields below changes
	head     *segment  // the oldest that is not acknowledged as a whole, or the last one
	tail     *segment
	size     int    // bytes in all segments
	queued   uint64 // number of the next event
	acked    uint64 // number of the next event that is to be acknowledged
	kept     Published
	starving bool // a request waits for events
	closing  bool
	short    bool // requests end when nothing is left to send
	err      error
}

// segment is consecutive events as lines.
type segment struct {
	first uint64 // number of the first event
	count uint64
	lines []byte
	next  *segment
}

// Stream begins to publish events one by one. Until the PublishStream is closed, other calls of p wait. If ctx is
// cancelled, unacknowledged events may or may not have been published. opts may be nil.
func (p *Producer) Stream(ctx context.Context, opts *PublishStreamOptions) (*PublishStream, error) {
	if err := checkName("publish to "+p.name, p.name); err != nil {
		return nil, err
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	s := &PublishStream{p: p, done: make(chan struct{}), queued: p.seq, acked: p.seq}
	if opts != nil {
		s.opts = *opts
	}
	s.changed.L = &s.mu
	s.ctx, s.stop = context.WithCancelCause(ctx)
	context.AfterFunc(s.ctx, s.wake)
	go s.run()
	return s, nil
}

// wake lets everybody look whether the stream or a request has been cancelled.
func (s *PublishStream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// Publish queues an event. It waits while more than 4 MiB are not acknowledged. The error wraps reprise.ErrInvalid if
// the data is not JSON; otherwise it is the reason why the stream has failed.
func (s *PublishStream) Publish(event NewEvent) error {
	line, err := appendLine(make([]byte, 0, len(event.Data)+len(event.Type)+32), &event)
	if err != nil {
		return fmt.Errorf("publish to %s: %w: %w", s.p.name, reprise.ErrInvalid, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > maxUnacknowledged && s.failure() == nil {
		s.changed.Wait()
	}
	switch {
	case s.failure() != nil:
		return s.failure()
	case s.closing:
		return fmt.Errorf("publish to %s: %w", s.p.name, reprise.ErrClosed)
	}
	if s.tail == nil || len(s.tail.lines)+len(line) > segmentBytes {
		s.add(&segment{first: s.queued})
	}
	s.tail.lines = append(s.tail.lines, line...)
	s.tail.count++
	s.size += len(line)
	s.queued++
	if s.starving {
		s.starving = false
		s.changed.Broadcast()
	}
	return nil
}

// failure returns the error that prevents further publishing. The caller holds mu.
func (s *PublishStream) failure() error {
	if s.err == nil && s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return s.err
}

func (s *PublishStream) add(next *segment) {
	if s.tail == nil {
		s.head = next
	} else {
		s.tail.next = next
	}
	s.tail = next
	s.drop()
}

// drop forgets segments that are acknowledged. A request may still stand in the last one.
func (s *PublishStream) drop() {
	for s.head.next != nil && s.head.next.first <= s.acked {
		s.size -= len(s.head.lines)
		s.head = s.head.next
	}
}

// Flush waits until all queued events are kept, and returns the newest append. The error is the reason why the
// stream has failed. Events since the last acknowledgement may or may not have been published then.
func (s *PublishStream) Flush() (Published, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for until := s.queued; s.acked < until && s.failure() == nil; {
		s.changed.Wait()
	}
	return s.kept, s.failure()
}

// Close flushes and ends the request. Then other calls of the Producer continue. Closing again does nothing.
func (s *PublishStream) Close() (Published, error) {
	s.mu.Lock()
	s.closing = true
	s.changed.Broadcast()
	s.mu.Unlock()
	<-s.done
	return s.kept, s.err
}

// run makes requests until the stream is closed or fails.
func (s *PublishStream) run() {
	err := s.publishAll()
	s.stop(fmt.Errorf("publish to %s: %w", s.p.name, reprise.ErrClosed))
	s.mu.Lock()
	s.err = err
	s.changed.Broadcast()
	s.mu.Unlock()
	if err == nil {
		s.p.seq = s.queued
	} else { // it is unknown what was appended: see Producer.send
		s.p.epoch, s.p.seq = s.p.epoch+1, 0
	}
	<-s.p.turn
	close(s.done)
}

func (s *PublishStream) publishAll() error {
	c := s.p.c
	wait := c.failures()
	var spell foreignSpell
	for s.hasWork() {
		before := s.acknowledged()
		err := s.request()
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if s.acknowledged() > before {
			wait.Succeeded()
		}
		if err == nil || errors.Is(err, errHeldBack) {
			continue
		}
		pause := wait.Next(askedWait(err))
		again := spell.allows(err, c.met.Load(), c.foreignGiveUp, pause) ||
			Retryable(err) && !wait.Outlasts(c.giveUp(), pause)
		if !again {
			return &Error{Op: "publish to " + s.p.name, Err: err, Tries: wait.Tries()}
		}
		if err := backoff.Sleep(s.ctx, pause); err != nil {
			return err
		}
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

func (s *PublishStream) acknowledged() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// hasWork waits for an event that is not acknowledged. It is false when there will be none.
func (s *PublishStream) hasWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.acked == s.queued && !s.closing && s.ctx.Err() == nil {
		s.starving = true
		s.changed.Wait()
	}
	return s.acked < s.queued && s.ctx.Err() == nil
}

// request sends one request, which lasts until it is cut, refused or, if the stream is closed, complete.
func (s *PublishStream) request() error {
	c := s.p.c
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	body, number, patience := s.body(ctx)
	defer body.Close()
	silence := time.AfterFunc(patience, func() { cancel(errHeldBack) })
	defer silence.Stop()
	res, err := c.send(ctx, &request{
		op: "publish to " + s.p.name, method: http.MethodPost, path: streamPath(s.p.name, "/events"), stream: body,
		header: http.Header{
			"Content-Type": {linesType}, "Accept": {linesType}, "Producer-Id": {s.p.id},
			"Producer-Epoch": {strconv.FormatUint(s.p.epoch, 10)}, "Producer-Seq": {strconv.FormatUint(number, 10)},
		},
	})
	if err != nil {
		return s.cutOff(ctx, err)
	}
	defer res.Body.Close()
	if err := c.refusal(res); err != nil {
		return err
	}
	if !hasType(res, linesType) {
		return notOurs(res)
	}
	c.met.Store(true)
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return s.cutOff(ctx, &ssefollow.TransportError{Err: err})
		}
		silence.Reset(c.opts.Timeout)
		if done, err := s.note(line, number); done || err != nil {
			return err
		}
	}
}

// cutOff is why a request has failed with err. A first acknowledgement that does not come makes requests short.
func (s *PublishStream) cutOff(ctx context.Context, err error) error {
	if !errors.Is(context.Cause(ctx), errHeldBack) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.short {
		return errTimeout
	}
	s.short = true
	return errHeldBack
}

// note processes a line of the answer to a request whose first event has the given number.
func (s *PublishStream) note(line []byte, number uint64) (done bool, err error) {
	var a struct {
		Events uint64           `json:"events"`
		First  uint64           `json:"first"`
		Last   uint64           `json:"last"`
		Cursor string           `json:"cursor"`
		Done   bool             `json:"done"`
		Error  *problem.Problem `json:"error"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return false, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	published := Published{First: a.First, Last: a.Last, Cursor: a.Cursor}
	s.mu.Lock()
	news := number+a.Events > s.acked
	switch {
	case number+a.Events > s.queued:
		s.mu.Unlock()
		return false, fmt.Errorf("%w: %d events are acknowledged", ErrProtocol, a.Events)
	case news:
		s.acked, s.kept = number+a.Events, published
		s.drop()
		s.changed.Broadcast()
	}
	s.mu.Unlock()
	if news && s.opts.Acknowledged != nil {
		s.opts.Acknowledged(published)
	}
	if a.Error != nil {
		return false, *a.Error
	}
	return a.Done, nil
}

// appendLine appends an event as a line.
func appendLine(dst []byte, e *NewEvent) ([]byte, error) {
	end, compact, ok := jsonscan.Value(e.Data, 0)
	if !ok || !compact || end != len(e.Data) || !isPlainType(e.Type) {
		text, err := json.Marshal(e) // which says what is wrong
		if err != nil {
			return nil, err
		}
		return append(append(dst, text...), '\n'), nil
	}
	dst = append(dst, '{')
	if e.Type != "" {
		dst = append(append(append(dst, `"type":"`...), e.Type...), `",`...)
	}
	return append(append(append(dst, `"data":`...), e.Data...), "}\n"...), nil
}

// isPlainType reports whether a type needs no escapes in JSON.
func isPlainType(t string) bool {
	for i := range len(t) {
		if c := t[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}
