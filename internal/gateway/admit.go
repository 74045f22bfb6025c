package gateway

import (
	"sync"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// admission is the admission of an exchange: for as long as the exchange is served, and as the call runs that has
// become a task.
type admission struct {
	release func()

	mu    sync.Mutex
	users int
}

// enter adds a user. It reports false if the admission has ended.
func (a *admission) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users == 0 {
		return false
	}
	a.users++
	return true
}

// leave removes a user. The last one ends the admission.
func (a *admission) leave() {
	a.mu.Lock()
	a.users--
	last := a.users == 0
	a.mu.Unlock()
	if last {
		a.release()
	}
}

// admit asks Options.Admit about an exchange with requests. leave must be called once the exchange is served.
func (g *Gateway) admit(x *mcphttp.Exchange) (leave func(), refused *wire.Failure) {
	if g.opts.Admit == nil {
		return func() {}, nil
	}
	release, err := g.opts.Admit(x)
	if err != nil {
		return nil, wire.Refusal(err)
	}
	a := &admission{release: release, users: 1}
	g.admitted.Store(x, a)
	return func() {
		g.admitted.Delete(x)
		a.leave()
	}, nil
}

// stay prolongs the admission of an exchange that is being served until leave is called.
func (g *Gateway) stay(x *mcphttp.Exchange) (leave func()) {
	if a, ok := g.admitted.Load(x); ok && a.(*admission).enter() {
		return a.(*admission).leave
	}
	return func() {}
}
