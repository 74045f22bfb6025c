package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/mcphttp"
)

const (
	// maxWaiting is how many bytes wait for an exchange at most before its upstream has to.
	maxWaiting = 4 << 20
	// maxUnread is how many wait for a client that is not kept for, before it is given up.
	maxUnread = 16 << 20
	// cancelPatience is how long a request that was cancelled may be answered by the upstream itself.
	cancelPatience = 2 * time.Second
)

// flight is an exchange that is being served.
type flight struct {
	g  *Gateway
	x  *mcphttp.Exchange
	to client // who gets the messages
	// prepare changes a response for the client; may be nil.
	prepare func(c *call, m *mcphttp.Message)

	open   int          // calls without an answer; of the goroutine that serves
	asking atomic.Int64 // questions that the client has not answered
	asked  atomic.Int64 // when it has answered the last one, in nanoseconds since 1970

	mu    sync.Mutex
	room  sync.Cond
	queue []arrival
	bytes int
	over  bool // nobody takes any more
	// parked is true while what comes waits for the flight after this one.
	parked bool
	next   *flight
	more   chan struct{}

	only *call // without a session there is one
	logs bool  // the client wants log messages, without a session
}

// client is who asked for something; an *mcphttp.Exchange is one.
type client interface {
	Notify(message []byte) error
	Respond(id mcphttp.ID, message []byte) error
	Ask(id mcphttp.ID, message []byte, answer func([]byte)) error
}

// arrival is what has come for a flight: the response to a call, a notification or a request to the client.
type arrival struct {
	call   *call
	m      mcphttp.Message
	result CallResult // of a response
	peer   *peer      // of a request
	again  bool       // the call is to be sent once more: it was not carried out
	// retry are the params with which the call is to be sent once more: the upstream has asked for it.
	retry json.RawMessage
}

func (g *Gateway) newFlight(x *mcphttp.Exchange) *flight {
	f := &flight{g: g, x: x, to: x, more: make(chan struct{}, 1)}
	f.room.L = &f.mu
	return f
}

// push hands over what has come. It blocks while the store is slow. It reports false when the flight is over.
func (f *flight) push(a arrival) bool {
	f.mu.Lock()
	if next := f.next; next != nil {
		f.mu.Unlock()
		return next.push(a.of(next.only))
	}
	defer f.mu.Unlock()
	for f.bytes > maxWaiting && !f.over && !f.x.Stateless() && a.m.Method != "" {
		f.room.Wait()
	}
	if f.over {
		return false
	}
	if f.bytes > maxUnread && a.m.Method != "" {
		return true // a client that reads no notifications gets the response alone
	}
	f.queue = append(f.queue, a)
	f.bytes += len(a.m.Raw) + len(a.m.Result)
	select {
	case f.more <- struct{}{}:
	default:
	}
	return true
}

func (f *flight) take() []arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue := f.queue
	f.queue, f.bytes = nil, 0
	f.room.Broadcast()
	return queue
}

func (f *flight) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parked { // what comes is for the next one
		return
	}
	f.over, f.queue = true, nil
	f.room.Broadcast()
}

// run hands to the client what comes, until each call has its answer, ctx ends, or pause says that the rest is for another
// flight.
func (f *flight) run(ctx context.Context, calls []*call) error {
	defer f.finish()
	var silence <-chan time.Time
	var timer *time.Timer
	if d := f.g.up.Timeout; d > 0 {
		timer = time.NewTimer(d)
		defer timer.Stop()
		silence = timer.C
	}
	for f.open > 0 {
		select {
		case <-f.more:
		case <-silence:
			if left := f.patience(); left > 0 {
				timer.Reset(left)
				continue
			}
			f.abandon(calls, TimedOut, "the upstream said nothing about the request for "+f.g.up.Timeout.String())
			return nil
		case <-ctx.Done():
			f.abandon(calls, Cancelled, "")
			return context.Cause(ctx)
		}
		for _, a := range f.take() {
			if err := f.deliver(ctx, a); err != nil && ctx.Err() == nil {
				f.g.opts.Logger.Debug("a message of an MCP upstream is not delivered", "upstream", f.g.up.Name, "method", a.m.Method, "error", err)
			}
		}
		if timer != nil {
			timer.Reset(f.g.up.Timeout)
		}
	}
	return nil
}

// patience is how much longer the upstream may say nothing, because it was the client that did.
func (f *flight) patience() time.Duration {
	if f.asking.Load() > 0 {
		return f.g.up.Timeout
	}
	return f.g.up.Timeout - time.Since(time.Unix(0, f.asked.Load()))
}

// answered notes that the client has answered a question.
func (f *flight) answered() {
	f.asked.Store(time.Now().UnixNano())
	f.asking.Add(-1)
}

func (f *flight) deliver(ctx context.Context, a arrival) error {
	switch {
	case a.again:
		f.sendAgain(ctx, a.call)
		return nil
	case a.retry != nil:
		f.g.start(ctx, a.call.peer, a.call, a.retry, nil)
		return nil
	case a.m.Method == "":
		return f.respond(a)
	case a.m.ID == "":
		return f.to.Notify(a.m.Raw)
	}
	if f.to == client(f.x) && f.x.Stateless() {
		return f.park(a)
	}
	f.asking.Add(1)
	err := f.to.Ask(a.m.ID, a.m.Raw, func(answer []byte) {
		f.answered()
		a.peer.reply(answer)
	})
	if err != nil {
		f.asking.Add(-1)
		a.peer.refuse(a.m.ID, &failure{codeMethodNotFound, "the client cannot be asked: " + err.Error(), "no_client"})
	}
	return err
}

func (f *flight) respond(a arrival) error {
	if a.call.done || a.call.peer != nil && a.call.peer.translates && f.askRound(a) {
		return nil
	}
	a.call.done = true
	f.open--
	f.g.called(a.result, a.call.began)
	if f.prepare != nil && a.m.Result != nil {
		f.prepare(a.call, &a.m)
	}
	return f.to.Respond(a.call.id, response(a.call.id, a.m.Result, a.m.Err))
}

// abandon cancels what has no answer. With a message the client is told.
func (f *flight) abandon(calls []*call, result CallResult, message string) {
	for _, c := range calls {
		if c.done {
			continue
		}
		c.done = true
		f.open--
		f.g.called(result, c.began)
		if c.peer != nil {
			c.peer.abandon(c, message)
		}
		if message != "" {
			e := &failure{codeInternal, message, "upstream_timeout"}
			_ = f.to.Respond(c.id, response(c.id, nil, e.json())) // or the stream has failed, which is known
		}
	}
}

// sendAgain sends a call over another connection, once.
func (f *flight) sendAgain(ctx context.Context, c *call) {
	c.again = true
	var p *peer
	var err error
	if s := f.x.Session; s != nil {
		p, err = f.g.connected(ctx, s)
	} else {
		p, err = f.g.pooled(ctx, f.x)
	}
	if err != nil {
		f.fail(c, Refused, failureOf(err))
		return
	}
	for i := range f.x.Messages {
		if m := &f.x.Messages[i]; m.ID == c.id {
			params, header := f.paramsFor(p, m)
			f.g.start(ctx, p, c, params, header)
		}
	}
}

// fail answers a call without the upstream.
func (f *flight) fail(c *call, result CallResult, e *failure) {
	f.push(arrival{call: c, m: mcphttp.Message{ID: c.id, Err: e.json()}, result: result})
}

// succeed answers a call without the upstream.
func (f *flight) succeed(c *call, value json.RawMessage) {
	f.push(arrival{call: c, m: mcphttp.Message{ID: c.id, Result: value}, result: Answered})
}

// call is a request to an upstream.
type call struct {
	peer   *peer
	up     int64      // its id there
	f      *flight    // nil for our own
	id     mcphttp.ID // as the client has it
	method string
	token  json.RawMessage // the client's progress token, nil if it has none
	began  time.Time
	answer chan mcphttp.Message // of our own
	// failure is why there is no answer of the upstream; written before answer.
	failure *failure
	again   bool // it was sent twice; of the flight's goroutine
	done    bool // of the flight's goroutine
	// listens is what a subscriptions/listen waits for that we serve; guarded by peer.mu.
	listens *filter
}

func (c *call) failed() error {
	if c.failure == nil {
		return nil
	}
	return c.failure
}

// errLost is what calls are answered with whose upstream has ended.
func errLost(why error) *failure {
	message := "the upstream ended before it had answered; whether the request was carried out is not known"
	if why != nil {
		message = fmt.Sprintf("%s (%v)", message, why)
	}
	return &failure{codeInternal, message, "upstream_lost"}
}

// failureOf is what err is to a client.
func failureOf(err error) *failure {
	if f, ok := err.(*failure); ok { //nolint:errorlint // of our own, never wrapped
		return f
	}
	return &failure{codeInternal, err.Error(), "upstream_unavailable"}
}

// errEnded: the upstream has ended, and nothing was sent.
var errEnded = &failure{codeInternal, "the upstream has ended; the request was not carried out", "upstream_unavailable"}

var errClosed = fmt.Errorf("%w: the gateway", reprise.ErrClosed)
