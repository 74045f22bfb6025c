package merge

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// Member is an upstream that is merged with others.
type Member struct {
	// Name is the prefix of the member's items: 1 to 32 letters, digits and "-", beginning with a letter.
	Name string
	// Open returns a Link to the member that is not started.
	Open func() (link.Link, error)
	// Refused, if not nil, is the error response to all requests for the member, which is then never opened.
	Refused *wire.Failure
}

// Options are the settings of a Link.
type Options struct {
	// Name is how the merged server calls itself.
	Name string
	// StartTimeout limits the initialization of a member. The client's initialize is answered after at most half of it,
	// without the members that are not ready.
	StartTimeout time.Duration
	Logger       *slog.Logger
	// Up is called when a session with a member has begun, and Down when it has ended, with link.Link.Lost.
	Up   func(member string)
	Down func(member string, lost bool)
}

// Link is a link.Link to several upstreams, which are started when initialize is sent.
type Link struct {
	opts    Options
	members []*member // in the order of their names
	to      link.Receiver
	life    context.Context // ends when Close is called
	end     context.CancelCauseFunc
	ended   chan struct{}

	requests    requestTable
	initialized atomic.Bool // the client has sent notifications/initialized

	mu     sync.Mutex
	work   sync.WaitGroup // begun while closed is false
	closed bool
	params []byte          // of the client's initialize
	told   map[string]bool // members that the answer to initialize was made of
	level  string          // of the log
}

var _ link.Link = (*Link)(nil)

var errClosed = fmt.Errorf("%w: the link", reprise.ErrClosed)

// Open returns a Link to members, whose order is kept in lists.
func Open(members []Member, opts Options) *Link {
	l := &Link{opts: opts, ended: make(chan struct{})}
	for _, m := range members {
		l.members = append(l.members, newMember(l, m))
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// Start implements link.Link.
func (l *Link) Start(r link.Receiver) {
	l.to = r
	l.run(func() { <-l.life.Done() })
	go func() {
		l.work.Wait()
		close(l.ended)
	}()
}

// run runs f in a goroutine that the end of the link waits for. It reports false if the link is ending.
func (l *Link) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(f)
	return true
}

// Close implements link.Link. It closes the links of all members.
func (l *Link) Close() {
	l.mu.Lock()
	already := l.closed
	l.closed = true
	l.mu.Unlock()
	if already {
		return
	}
	l.end(errClosed)
	for _, m := range l.members {
		if s := m.current(); s != nil {
			s.link.Close()
		}
	}
}

// Ending implements link.Link.
func (l *Link) Ending() bool { return l.life.Err() != nil }

// Done implements link.Link.
func (l *Link) Done() <-chan struct{} { return l.ended }

// Err implements link.Link.
func (l *Link) Err() error { return errClosed }

// Lost implements link.Link. The end of members does not end the link.
func (l *Link) Lost() bool { return false }

// Agree implements link.Link. Each member has agreed on a version of its own.
func (l *Link) Agree(string) {}

// Drop implements link.Link. The request stays known, for a cancellation may follow.
func (l *Link) Drop(id int64) {
	if r := l.requests.find(id); r != nil {
		r.to.link.Drop(id)
	}
}

// Send implements link.Link. It waits for the member of the request. It returns nil if the member has not accepted the
// request, which is then answered with an error.
func (l *Link) Send(ctx context.Context, m link.Message) error {
	if l.Ending() {
		return link.ErrEnded
	}
	switch {
	case m.Method == "":
		return l.reply(ctx, m)
	case m.ID == 0:
		l.notify(ctx, m)
		return nil
	}
	l.serve(ctx, m)
	return nil
}

// serve answers a request, or sends it to the member that it is for.
func (l *Link) serve(ctx context.Context, m link.Message) {
	switch m.Method {
	case wire.MethodInitialize:
		l.run(func() { l.initialize(m) })
	case wire.MethodPing:
		l.succeed(m.ID, emptyResult)
	case wire.MethodSetLevel:
		l.setLevel(wire.Text(m.Params, "level"))
		l.succeed(m.ID, emptyResult)
	default:
		if kind := listed(m.Method); kind != nil {
			l.run(func() { l.list(m, kind) })
			return
		}
		l.route(ctx, m)
	}
}

var emptyResult = []byte("{}")

// succeed answers a request.
func (l *Link) succeed(id int64, result []byte) {
	raw := wire.Response(wire.ID(id), result, nil)
	l.to.Receive(mcphttp.Message{Raw: raw, ID: wire.ID(id), Result: result}, 0)
}

// refuse answers a request with an error.
func (l *Link) refuse(id int64, why *wire.Failure) {
	failed := why.JSON()
	raw := wire.Response(wire.ID(id), nil, failed)
	l.to.Receive(mcphttp.Message{Raw: raw, ID: wire.ID(id), Err: failed}, 0)
}

// reply hands the client's answer to the member that has asked.
func (l *Link) reply(ctx context.Context, m link.Message) error {
	answer, err := mcphttp.ParseMessage(m.Raw)
	if err != nil {
		return nil //nolint:nilerr // the gateway makes no such message
	}
	q, ok := l.requests.answered(wire.ParseID([]byte(answer.ID)))
	if !ok {
		return nil // the caller is gone
	}
	return q.from.link.Send(ctx, link.Message{Raw: wire.Response(q.id, answer.Result, answer.Err)})
}

// notify hands a notification of the client to the members that it is for.
func (l *Link) notify(ctx context.Context, m link.Message) {
	switch m.Method {
	case wire.NoteInitialized:
		l.clientInitialized()
	case wire.NoteCancelled:
		id := wire.ParseID(wire.Members(m.Params)["requestId"])
		if r := l.requests.find(id); r != nil {
			time.AfterFunc(cancelPatience, func() { l.requests.take(id) })
			_ = r.to.link.Send(ctx, m) // a member that has ended needs no cancellation
		}
	default:
		for _, member := range l.members {
			if s := member.current(); s != nil {
				_ = s.link.Send(ctx, m)
			}
		}
	}
}

// cancelPatience is the time in which a member may still answer a cancelled request.
const cancelPatience = 10 * time.Second
