package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"reprise/internal/gateway/wire"
)

// era is the kind of version that an upstream speaks.
type era int

const (
	eraUnknown era = iota
	eraSessions
	eraStateless // version 2026-07-28, perhaps besides older ones
)

// upstreamVersions are the known versions of an upstream. Its methods are safe for concurrent use.
type upstreamVersions struct {
	mu         sync.Mutex
	era        era
	noSessions bool // the upstream has refused initialize
}

func (v *upstreamVersions) known() era {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.era
}

func (v *upstreamVersions) learn(e era) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.era = e
}

func (v *upstreamVersions) lackSessions() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.noSessions
}

func (v *upstreamVersions) learnNoSessions() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.noSessions = true
}

// probeTimeout limits the answer to server/discover. An upstream that is slower is assumed not to support it.
const probeTimeout = 10 * time.Second

// errOtherEra: the upstream does not speak version 2026-07-28.
var errOtherEra = wire.Internal(wire.ReasonUnavailable, "the upstream does not speak version "+wire.Version20260728)

// clientInfo identifies the gateway itself as a client of upstreams.
var clientInfo = map[string]string{"name": "reprise-gateway", "version": "1"}

// ownMeta returns the _meta of a request of the gateway's own on version 2026-07-28.
func ownMeta() map[string]any {
	return map[string]any{
		wire.MetaVersion:      wire.Version20260728,
		wire.MetaClientInfo:   clientInfo,
		wire.MetaCapabilities: map[string]any{},
	}
}

// probe opens a connection to an upstream that supports version 2026-07-28. The error is errOtherEra if the upstream
// does not.
func (g *Gateway) probe(ctx context.Context, u user) (*connection, error) {
	c, err := g.openConnection(u)
	if err != nil {
		return nil, err
	}
	c.link.Agree(wire.Version20260728)
	asking, cancel := context.WithTimeout(ctx, min(probeTimeout, g.up.StartTimeout/2))
	defer cancel()
	m, err := c.ask(asking, wire.MethodDiscover, wire.Compact(map[string]any{"_meta": ownMeta()}))
	if err == nil && discoversStateless(m.Result) {
		g.versions.learn(eraStateless)
		c.agree(m.Result, wire.Version20260728)
		c.initialized.Store(true)
		return c, nil
	}
	c.link.Close()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case isFailure(err):
		return nil, err
	}
	g.versions.learn(eraSessions)
	return nil, errOtherEra
}

// discoversStateless reports whether the result of server/discover names version 2026-07-28.
func discoversStateless(result json.RawMessage) bool {
	var discovered struct {
		Versions []string `json:"supportedVersions"`
	}
	return result != nil && json.Unmarshal(result, &discovered) == nil &&
		slices.Contains(discovered.Versions, wire.Version20260728)
}
