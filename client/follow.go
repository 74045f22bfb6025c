package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/ssefollow"
	"reprise/sse"
)

// FollowOptions are the settings for following a stream. The zero value of each field means its default.
type FollowOptions struct {
	// After is the start: a cursor; "earliest", the first kept event;
	// "tail", new events only; or "" for the first event of all. With "", missing
	// events at the beginning are a gap.
	After string
	// Cursors, if not nil, stores the position. A stored cursor has precedence over After.
	Cursors CursorStore
	// SaveEvery is the minimum time between two saves. A process that is killed gets the events again that it has
	// handled since the last save. The cursor is also saved when a connection is lost and when the loop ends for any
	// reason. Default: 100 ms; negative: save after each event.
	SaveEvery time.Duration
	// Types are the event types to yield; the end event, gaps and errors come as well.
	// Default: all.
	Types []string
	// OnGap selects the reaction to events that are no longer kept.
	OnGap GapPolicy
	// IdleTimeout is the silence after which the client gives up a connection: three
	// heartbeats of the server. Default: 45 s.
	IdleTimeout time.Duration
	// GiveUp is how long a lost connection is retried before the loop
	// ends with the error. Default: no limit once the server has answered this Client, and 10 s before; negative: no
	// retry; math.MaxInt64: no limit. Answers that do not come from
	// the server and are not temporary statuses, such as a proxy's 404, are
	// retried for 60 s at most, and only if the server has answered this Client before.
	GiveUp time.Duration
	// OnDrop, if not nil, is called with each failure before the wait that
	// follows. It is called by the goroutine of the loop.
	OnDrop func(Drop)
	// OnConnected, if not nil, is called when a connection has delivered its first
	// event or heartbeat, because a response alone does not show that events get through. It
	// is called by the goroutine of the loop, before the loop gets the event.
	OnConnected func()
	// Detach lets a command go on that Client.Run has started, if the loop is left before its end. Other loops do not
	// use it.
	Detach bool
}

// GapPolicy is the reaction of a loop to a gap.
type GapPolicy uint8

const (
	// GapYield yields an event of type "gap" and continues after its Cursor: from the fork if the epoch has changed,
	// otherwise from the earliest event.
	GapYield GapPolicy = iota
	// GapFail ends the loop with a *GapError and leaves the saved cursor alone.
	GapFail
)

// Drop describes a connection that was lost or could not be made.
type Drop struct {
	Err error
	// Since is the time of the first consecutive failure, Tries the number of consecutive failures.
	Since time.Time
	Tries int
	// Wait is the time until the next attempt. It is 0 for the first one after a connection that
	// delivered an event or a heartbeat.
	Wait time.Duration
	// Seq is the seq of the last received event, or 0 if there is none or it is not known.
	Seq uint64
	// Met is true once the server has answered this Client. Earlier answers may
	// come from another program.
	Met bool
}

func (o *FollowOptions) withDefaults() FollowOptions {
	var d FollowOptions
	if o != nil {
		d = *o
	}
	d.SaveEvery = cmp.Or(d.SaveEvery, defaultSaveEvery)
	d.IdleTimeout = cmp.Or(d.IdleTimeout, 45*time.Second)
	return d
}

// Follow yields the events of an execution in order, each once, until its end; see
// the package comment. opts may be nil. Each range over the result starts over.
func (c *Client) Follow(ctx context.Context, id string, opts *FollowOptions) iter.Seq2[Event, error] {
	return c.follow(ctx, "follow execution "+id, id, executionPath(id, ""), nil, opts)
}

// FollowStream is like Follow for a stream that is not an execution.
func (c *Client) FollowStream(ctx context.Context, name string, opts *FollowOptions) iter.Seq2[Event, error] {
	return c.follow(ctx, "follow stream "+name, name, streamPath(name, ""), nil, opts)
}

func (c *Client) follow(
	ctx context.Context, op, name, path string, start *request, opts *FollowOptions,
) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := checkName(op, name); err != nil {
			yield(Event{}, err)
			return
		}
		f := c.follower(op, path, start, opts, yield)
		if err := f.run(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

func (c *Client) follower(
	op, path string, start *request, opts *FollowOptions, yield func(Event, error) bool,
) *follower {
	return &follower{
		c: c, op: op, path: path, start: start, opts: opts.withDefaults(), yield: yield, wait: c.failures(),
	}
}

// follower is one loop over the events of a stream.
type follower struct {
	c     *Client
	op    string
	path  string   // of the execution or stream
	start *request // sent in place of the first GET, until an event has come
	opts  FollowOptions
	yield func(Event, error) bool

	plain bool   // an answer in gzip was damaged
	hold  string // names us as the one for whom output is held back
	// receipts are sent to a server that holds output back and requests them; nil for other servers. withReceipts
	// starts them if the header of an answer requests them.
	receipts     *receipts
	withReceipts func(head http.Header) *receipts

	started bool // a request was sent
	ended   bool // the end of the stream was read
	refused bool // the server has refused the request

	track  track
	saver  saver
	wait   backoff.Failures
	faults int // in a row against the protocol
	spell  foreignSpell
	begun  time.Time // when the present answer began
	live   bool      // it has brought an event or a heartbeat
	held   holding
	tail   uint64 // the seq of its Stream-Tail, until that has been reached
	// fromFirst is true for a reader that has requested all events since the first one.
	fromFirst bool
}

// maxFaults is the number of consecutive answers that may violate the protocol before the loop gives up. A single fault
// may be a damaged line, but a permanent fault must not be retried forever.
const maxFaults = 3

// The ways in which a loop ends without an error.
var (
	errEnded   = fmt.Errorf("the stream has ended: %w", ssefollow.ErrStop)
	errStopped = fmt.Errorf("the caller has left the loop: %w", ssefollow.ErrStop)
)

// run yields events until the stream ends or an error occurs, and returns that error.
func (f *follower) run(ctx context.Context) (err error) {
	if err := f.begin(ctx); err != nil {
		return err
	}
	stopped := false
	defer func() {
		saveErr := f.saver.flush(ctx)
		if err == nil && !stopped { // who has left the loop cannot be told
			err = saveErr
		}
	}()
	defer func() {
		if f.receipts != nil {
			f.receipts.stop()
		}
	}()
	f.held.wait = min(f.opts.IdleTimeout/3, maxPoll)
	f.withReceipts = func(head http.Header) *receipts { return startReceipts(ctx, f, head) }
	loop := ssefollow.Loop{IdleTimeout: f.opts.IdleTimeout}
	err = loop.Run(ctx, f)
	stopped = errors.Is(err, errStopped)
	f.state(stateEnded, "reason", err)
	if errors.Is(err, ssefollow.ErrStop) {
		return nil
	}
	return err
}

// begin determines the position to begin at.
func (f *follower) begin(ctx context.Context) error {
	f.saver.store, f.saver.every = f.opts.Cursors, f.opts.SaveEvery
	after, err := f.saver.load(ctx)
	if err != nil {
		return &Error{Op: f.op, Err: err}
	}
	if after == "" && f.start == nil {
		after = f.opts.After
	}
	f.track.filtered = len(f.opts.Types) > 0
	switch after {
	case "", "0":
		f.fromFirst = true
		return nil
	case "earliest":
		return nil
	case "tail":
		return f.beginAtTail(ctx)
	}
	if !isCursorText(after) {
		return &Error{Op: f.op, Err: reprise.ErrCursorMalformed}
	}
	f.track.begin(after)
	return nil
}

// beginAtTail requests the cursor of the tail. Without it, a connection that is lost before its first event would have
// no position to resume from.
func (f *follower) beginAtTail(ctx context.Context) error {
	page, err := f.c.page(ctx, f.op, f.path, &PageOptions{After: "tail", Limit: 1})
	if err != nil {
		return err
	}
	f.track.begin(page.NextCursor)
	if err := f.saver.handled(ctx, page.NextCursor); err != nil {
		return err
	}
	return f.saver.flush(ctx)
}

// Failed handles a failed connection. It returns how long to wait, or the error that ends the loop.
func (f *follower) Failed(ctx context.Context, err error, retry time.Duration) (time.Duration, error) {
	if errors.Is(err, sse.ErrTooLong) {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if gap := f.asGap(err); gap != nil {
		return 0, gap
	}
	f.plain = f.plain || ssefollow.IsDamaged(err)
	polled := f.held.failed(err, f.live)
	older := f.held.refused(err)
	met := f.c.met.Load()
	fault := errors.Is(err, ErrProtocol) && !(met && isForeign(err))
	if fault {
		f.faults++
	}
	pause := f.wait.Next(max(askedWait(err), retry))
	again := f.spell.allows(err, met, f.opts.GiveUp, pause) || Retryable(err) || fault && f.faults < maxFaults || older
	if !met && f.opts.GiveUp == 0 && isLost(err) && f.wait.Outlasts(firstContact, pause) {
		return 0, f.unreached(err)
	}
	if !again || f.wait.Outlasts(f.opts.GiveUp, pause) {
		return 0, &Error{Op: f.op, Err: err, Tries: f.wait.Tries()}
	}
	if polled {
		return pause, f.saver.flush(ctx)
	}
	f.state(stateWaiting, "wait", pause, "tries", f.wait.Tries(), "err", err)
	if f.opts.OnDrop != nil {
		f.opts.OnDrop(Drop{
			Err: err, Since: f.wait.Since(), Tries: f.wait.Tries(), Wait: pause, Seq: f.track.seq, Met: met,
		})
	}
	return pause, f.saver.flush(ctx) // the wait may be a long one
}

// firstContact is how long a loop without FollowOptions.GiveUp tries to reach a server that has never answered.
const firstContact = 10 * time.Second

// isLost reports whether a connection has failed or was silent, so that no server may be there.
func isLost(err error) bool { return isTransport(err) || errors.Is(err, ssefollow.ErrIdle) }

// unreached is the error of a loop whose server was never reached.
func (f *follower) unreached(err error) error {
	return &Error{Op: f.op, Tries: f.wait.Tries(), Err: fmt.Errorf(
		"%s was not reached in %d attempts and %v: check the URL and that the server runs; GiveUp sets how long to wait for it: %w",
		f.c.base, f.wait.Tries(), time.Since(f.wait.Since()).Round(time.Second), err)}
}

// request returns the request for the next events.
func (f *follower) request() *request {
	if f.start != nil && f.track.cursor == "" && !f.held.polls() {
		f.wantEvents(f.start.header)
		return f.start
	}
	r := &request{
		op: f.op, method: http.MethodGet, path: f.path + "/events", query: map[string][]string{},
		header: http.Header{},
	}
	r.header.Set("Accept", eventStreamType)
	r.header.Set("Cache-Control", "no-cache")
	f.wantEvents(r.header)
	if f.track.cursor != "" {
		r.header.Set("Last-Event-ID", f.track.cursor)
	} else if !f.fromFirst { // what is kept, without a gap for what is not
		r.query.Set("after", "earliest")
	}
	if f.hold != "" {
		r.header.Set("Execution-Hold", f.hold)
	}
	if f.receipts != nil {
		r.header.Set(receiptsHeader, "yes")
	}
	if f.held.polls() {
		r.query.Set("wait", f.held.wait.String())
	}
	if f.opts.OnGap == GapYield {
		r.query.Set("gap", "event")
	}
	if len(f.opts.Types) > 0 {
		types := f.opts.Types
		if !slices.Contains(types, reprise.TypeEnd) {
			types = append(slices.Clip(types), reprise.TypeEnd) // the loop must know it
		}
		r.query.Set("types", strings.Join(types, ","))
	}
	return r
}

// wantEvents calls Client.wantEvents, unless an answer in gzip was damaged.
func (f *follower) wantEvents(h http.Header) {
	if f.plain {
		h.Del("Accept-Encoding")
		return
	}
	f.c.wantEvents(h)
}

// wanted reports whether events of a type are to be yielded.
func (f *follower) wanted(eventType string) bool {
	return len(f.opts.Types) == 0 || eventType == reprise.TypeEnd || eventType == reprise.TypeGap ||
		slices.Contains(f.opts.Types, eventType)
}
