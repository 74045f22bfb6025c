package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"reprise/internal/spawn"
	"reprise/mcphttp"
)

// Gateway is the mcphttp.Backend of an upstream. It is safe for concurrent use. It must be closed after the
// Handler that it answers for.
type Gateway struct {
	up    Upstream
	opts  Options
	spawn *spawn.Spawner

	life context.Context // of everything
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	slots   map[slotKey]*slot
	links   int
	flights map[*mcphttp.Exchange]*flight
	parked  map[string]*parking
	schemas map[slotKey]*toolSchemas
	era     era
	refuses bool    // the upstream is known to have no sessions
	tasked  *tasked // nil where there are no tasks
}

var _ mcphttp.Backend = (*Gateway)(nil)

// New makes a Gateway to an upstream, which is first connected to when a client comes. opts may be nil. The error is
// reprise.ErrInvalid for an upstream that makes no sense.
func New(u *Upstream, opts *Options) (*Gateway, error) {
	g := &Gateway{
		up: u.withDefaults(), slots: map[slotKey]*slot{}, flights: map[*mcphttp.Exchange]*flight{},
		schemas: map[slotKey]*toolSchemas{}, parked: map[string]*parking{},
	}
	if err := g.up.validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if opts != nil {
		g.opts = *opts
	}
	orDefault(&g.opts.Mark, rand.Text())
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if g.opts.Hooks == nil {
		g.opts.Hooks = &Hooks{}
	}
	orDefault(&g.opts.TaskAfter, 5*time.Second)
	var err error
	if g.tasked, err = g.newTasked(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.life, g.end = context.WithCancelCause(context.Background())
	g.spawn = spawn.New()
	g.begin(g.endIdle)
	return g, nil
}

// begin runs f in a goroutine that Close waits for. It reports false if the Gateway is closed.
func (g *Gateway) begin(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.work.Go(f)
	return true
}

// Close ends all connections, and waits until no process is left. It takes a few seconds where
// one does not end by itself. Closing again does nothing.
func (g *Gateway) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	slots := g.slots
	g.slots = map[slotKey]*slot{}
	g.mu.Unlock()
	g.end(errClosed)
	for _, s := range slots {
		s.close()
	}
	g.work.Wait()
	g.spawn.Close()
	return nil
}

// open makes a link, of which there are so many at most.
func (g *Gateway) open(p *peer) error {
	g.makeRoom()
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosed
	}
	if g.links >= g.up.MaxConnections {
		g.mu.Unlock()
		return &failure{codeInternal, fmt.Sprintf("there are %d connections to the upstream, which is the most that there may be", g.up.MaxConnections), "limit"}
	}
	g.links++
	g.work.Add(1)
	g.mu.Unlock()
	var err error
	logger := g.opts.Logger.With("upstream", g.up.Name)
	if g.up.URL != "" {
		p.link = openHTTP(g, p, logger)
	} else {
		p.link, err = startProcess(g.spawn, &g.up, g.opts.Mark+"/"+rand.Text(), logger, p.receive, g.garbage)
	}
	if err != nil {
		g.closedLink()
		return &failure{codeInternal, "the upstream cannot be started: " + err.Error(), "upstream_unavailable"}
	}
	close(p.linked)
	if hook := g.opts.Hooks.Connected; hook != nil {
		hook(g.up.Name)
	}
	go func() {
		<-p.link.done()
		if hook := g.opts.Hooks.Disconnected; hook != nil {
			hook(g.up.Name, p.link.lost())
		}
		g.closedLink()
		close(p.freed)
	}()
	return nil
}

func (g *Gateway) closedLink() {
	g.mu.Lock()
	g.links--
	g.mu.Unlock()
	g.work.Done()
}

func (g *Gateway) garbage() {
	if hook := g.opts.Hooks.Garbage; hook != nil {
		hook(g.up.Name)
	}
}

func (g *Gateway) called(result CallResult, began time.Time) {
	if hook := g.opts.Hooks.Called; hook != nil {
		hook(g.up.Name, result, time.Since(began))
	}
}

// Serve implements mcphttp.Backend.
func (g *Gateway) Serve(ctx context.Context, x *mcphttp.Exchange) error {
	if x.Stateless() {
		return g.serveStateless(ctx, x)
	}
	f := g.newFlight(x)
	g.mu.Lock()
	g.flights[x] = f
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.flights, x)
		g.mu.Unlock()
	}()
	if x.Messages[0].Method == methodInitialize {
		return g.initialize(ctx, f)
	}
	if !slices.ContainsFunc(x.Messages, func(m mcphttp.Message) bool { return m.ID != "" }) {
		return g.takeNotes(ctx, x)
	}
	p, err := g.connected(ctx, x.Session)
	return g.pass(ctx, f, p, err)
}

// pass sends the messages of an exchange to a peer, and serves what comes back. failed is why there is no peer.
func (g *Gateway) pass(ctx context.Context, f *flight, p *peer, failed error) error {
	calls := make([]*call, 0, len(f.x.Messages))
	for _, m := range f.x.Messages {
		if m.ID == "" {
			if failed == nil {
				g.passNote(ctx, p, m)
			}
			continue
		}
		c := &call{f: f, id: m.ID, method: m.Method, began: time.Now()}
		f.open++
		calls = append(calls, c)
		if failed != nil {
			f.fail(c, Refused, failureOf(failed))
			continue
		}
		if p.translates {
			f.prepare = func(_ *call, m *mcphttp.Message) { inOldForm(m) }
		}
		if p.answerHere(c, &m) {
			continue
		}
		params, header := f.paramsFor(p, &m)
		g.start(ctx, p, c, params, header)
	}
	return f.run(ctx, calls)
}

// takeNotes passes notifications on, to an upstream that is there: they are nothing to begin one for.
func (g *Gateway) takeNotes(ctx context.Context, x *mcphttp.Exchange) error {
	p := g.slot(g.keyOf(x.Session)).live()
	if p == nil {
		return nil
	}
	for _, m := range x.Messages {
		g.passNote(ctx, p, m)
	}
	return nil
}

func (g *Gateway) passNote(ctx context.Context, p *peer, m mcphttp.Message) {
	if p.translates && m.Method == noteInitialized {
		p.hear(everything)
	}
	if g.up.Shared || p.translates || m.Method == noteInitialized && p.told.Swap(true) {
		return
	}
	if err := p.note(ctx, m.Method, m.Params); err != nil && ctx.Err() == nil {
		g.opts.Logger.Debug("a notification of an MCP client is not delivered", "upstream", g.up.Name, "method", m.Method, "error", err)
	}
}

// Cancel implements mcphttp.Backend.
func (g *Gateway) Cancel(x *mcphttp.Exchange, notification mcphttp.Message) {
	g.mu.Lock()
	f := g.flights[x]
	g.mu.Unlock()
	params := members(notification.Params)
	if f == nil {
		return
	}
	for _, s := range g.peersOf(x) {
		s.cancelOf(f, params)
	}
}

// cancelOf passes on that the client does not want the answer to a request. If none comes, one is made up.
func (p *peer) cancelOf(f *flight, params map[string]json.RawMessage) {
	p.mu.Lock()
	var c *call
	for _, one := range p.calls {
		if one.f == f && sameID(one.id, params["requestId"]) {
			c = one
		}
	}
	p.mu.Unlock()
	if c == nil {
		return
	}
	p.cancel(c, stringOf(params["reason"]))
	p.g.begin(func() {
		select {
		case <-time.After(cancelPatience):
		case <-p.link.done():
		case <-p.g.life.Done():
		}
		if p.forget(c) {
			f.fail(c, Cancelled, &failure{codeInternal, "the request was cancelled", "cancelled"})
		}
	})
}

func stringOf(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // of another type it is ""
	return s
}

// sameID compares an id with one as it came.
func sameID(id mcphttp.ID, raw json.RawMessage) bool {
	if mcphttp.ID(raw) == id {
		return true
	}
	var a, b any
	return json.Unmarshal([]byte(id), &a) == nil && json.Unmarshal(raw, &b) == nil && a == b
}

func (g *Gateway) peersOf(x *mcphttp.Exchange) []*peer {
	if x.Session == nil {
		return nil
	}
	if p := g.slot(g.keyOf(x.Session)).live(); p != nil {
		return []*peer{p}
	}
	return nil
}

// Attach implements mcphttp.Backend.
func (g *Gateway) Attach(ctx context.Context, s *mcphttp.Session, _ *http.Request) error {
	attach := func() {
		if p, err := g.connected(ctx, s); err == nil {
			p.attached.Store(true)
		}
	}
	if p := g.slot(g.keyOf(s)).live(); p != nil {
		p.attached.Store(true)
		return nil
	}
	if s.Initialized() { // what the upstream says of itself is heard too; what is kept is read without it
		g.begin(attach)
	}
	return nil
}

// Detach implements mcphttp.Backend.
func (g *Gateway) Detach(s *mcphttp.Session) {
	if g.up.Shared {
		if p := g.slot(slotKey{}).live(); p != nil {
			p.leave(s)
		}
		return
	}
	key := slotKey{session: s}
	g.mu.Lock()
	one := g.slots[key]
	delete(g.slots, key)
	delete(g.schemas, key)
	g.mu.Unlock()
	if one != nil {
		one.close()
	}
}

// keyOf says where the connection of a session is.
func (g *Gateway) keyOf(s *mcphttp.Session) slotKey {
	if g.up.Shared {
		return slotKey{}
	}
	return slotKey{session: s}
}

// isFailure reports whether err is an answer for the client.
func isFailure(err error) bool {
	_, ok := errors.AsType[*failure](err)
	return ok
}
