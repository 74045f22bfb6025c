package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"reprise"
	"reprise/internal/gateway/credential"
	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/internal/spawn"
	"reprise/mcp/mcphttp"
)

// Gateway is the mcphttp.Backend of an upstream. It is safe for concurrent use. It must be closed after the Handler
// whose backend it is.
type Gateway struct {
	up        Upstream
	opts      Options
	templates credential.Set     // of the upstream, or of those that are merged
	fixed     *credential.Filled // the values for all principals, or nil if the templates refer to principals
	spawn     *spawn.Spawner
	versions  upstreamVersions
	parked    parkings
	tasks     *taskServer // nil without Options.Tasks
	admitted  sync.Map    // of *mcphttp.Exchange to *admission, while the exchange is served

	life context.Context // ends with the Gateway
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	slots  map[slotKey]*slot
	links  int
}

var _ mcphttp.Backend = (*Gateway)(nil)

var errClosed = fmt.Errorf("%w: the gateway", reprise.ErrClosed)

// New returns a Gateway to an upstream. It connects to the upstream when the first client arrives. opts may be nil. The
// error is reprise.ErrInvalid for an invalid Upstream.
func New(u *Upstream, opts *Options) (*Gateway, error) {
	g := &Gateway{up: u.withDefaults(), slots: map[slotKey]*slot{}}
	if err := g.up.validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.templates, _ = g.up.templates() // they are valid
	if !g.templates.Refer() {
		g.fixed, _ = g.templates.Fill(&credential.Principal{}, nil) // nothing is missing
	}
	if err := g.up.checkCommands(); err != nil {
		return nil, fmt.Errorf("gateway: %w: upstream %w", reprise.ErrInvalid, err)
	}
	if len(g.up.Merge) > 0 {
		g.versions.learn(eraSessions)
	}
	if opts != nil {
		g.opts = *opts
	}
	g.opts.Mark = cmp.Or(g.opts.Mark, rand.Text())
	g.opts.TaskAfter = cmp.Or(g.opts.TaskAfter, 5*time.Second)
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if g.opts.Hooks == nil {
		g.opts.Hooks = &Hooks{}
	}
	var err error
	if g.tasks, err = g.newTaskServer(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.life, g.end = context.WithCancelCause(context.Background())
	g.spawn = spawn.New()
	g.background(g.closeIdlePools)
	return g, nil
}

// background runs f in a goroutine that Close waits for. It reports false if the Gateway is closed.
func (g *Gateway) background(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.work.Go(f)
	return true
}

// Close ends all connections, and waits until no process is left. It takes a few seconds if a process does not end by
// itself. Closing again does nothing.
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

// countLink counts a link that is about to be made. Close waits for uncountLink.
func (g *Gateway) countLink() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	if most := g.up.MaxConnections; g.links >= most {
		message := fmt.Sprintf("there are %d connections to the upstream, which is the most that there may be", most)
		return wire.Internal(wire.ReasonLimit, message)
	}
	g.links++
	g.work.Add(1)
	return nil
}

func (g *Gateway) uncountLink() {
	g.mu.Lock()
	g.links--
	g.mu.Unlock()
	g.work.Done()
}

// Serve implements mcphttp.Backend.
func (g *Gateway) Serve(ctx context.Context, x *mcphttp.Exchange) error {
	g.up.resolveCalls(x.Messages)
	if slices.ContainsFunc(x.Messages, func(m mcphttp.Message) bool { return m.ID != "" }) {
		leave, refused := g.admit(x)
		if refused != nil {
			d := g.newDelivery(x)
			d.refuse(refused)
			return d.run(ctx)
		}
		defer leave()
	}
	switch {
	case x.Stateless():
		return g.serveStateless(ctx, x)
	case x.Messages[0].Method == wire.MethodInitialize:
		return g.serveInitialize(ctx, x)
	}
	return g.serveSession(ctx, x)
}

// connectionFor returns the connection for an exchange.
func (g *Gateway) connectionFor(ctx context.Context, x *mcphttp.Exchange) (*connection, error) {
	if x.Stateless() {
		return g.poolConnection(ctx, x)
	}
	return g.sessionConnection(ctx, x.Session, x.Request)
}

// Cancel implements mcphttp.Backend.
func (g *Gateway) Cancel(x *mcphttp.Exchange, notification mcphttp.Message) {
	if x.Stateless() {
		return // the end of the exchange cancels
	}
	for _, c := range g.connections(g.sessionKey(x.Session)) {
		if k := c.calls.findRequest(x, wire.Members(notification.Params)["requestId"]); k != nil {
			c.cancelForClient(k, wire.Text(notification.Params, "reason"))
			return
		}
	}
}

// Attach implements mcphttp.Backend. An initialized session gets a connection, on which its upstream may say something.
func (g *Gateway) Attach(ctx context.Context, s *mcphttp.Session, r *http.Request) error {
	if c := g.live(g.sessionKey(s)); c != nil {
		c.attached.Store(true)
		return nil
	}
	if s.Initialized() {
		g.background(func() { // what is kept is read without it
			if c, err := g.sessionConnection(ctx, s, r); err == nil {
				c.attached.Store(true)
			}
		})
	}
	return nil
}

// Detach implements mcphttp.Backend.
func (g *Gateway) Detach(s *mcphttp.Session) {
	if !g.up.Shared {
		g.dropSlot(slotKey{session: s})
	} else if c := g.live(slotKey{}); c != nil {
		c.leave(s)
	}
}

// KillMarked kills the processes of a Gateway whose Options.Mark was mark and whose own process was killed, and all
// that they have started. It reports whether none is left.
func KillMarked(mark string) bool { return link.KillMarked(mark) }
