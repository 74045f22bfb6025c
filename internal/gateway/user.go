package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"reprise"
	"reprise/internal/gateway/credential"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// user identifies the user of a connection: a slot and a credential. A connection is used with one credential only; a
// user of the same slot with another credential gets another connection.
type user struct {
	key        slotKey
	credential *credential.Filled
}

// credentialFor returns the credential for the upstream of the principal that sent r. If the error, a *wire.Failure, is
// not nil, the upstream is not called.
func (g *Gateway) credentialFor(tenant reprise.Tenant, principal string, r *http.Request) (*credential.Filled, error) {
	if g.fixed != nil {
		return g.fixed, nil
	}
	who := &credential.Principal{Tenant: string(tenant), Name: principal}
	if g.opts.Claims != nil {
		who.Claims = g.opts.Claims(r, tenant, principal)
	}
	filled, err := g.templates.Fill(who, g.opts.Secrets)
	if lacks, ok := errors.AsType[*credential.MissingError](err); ok {
		g.logMissing(who, lacks)
		return nil, missing(g.up.Name, lacks)
	}
	for _, lacks := range filled.Missing {
		g.logMissing(who, lacks)
	}
	return filled, nil
}

// missing returns the error response for a client that lacks a value for an upstream.
func missing(upstream string, err *credential.MissingError) *wire.Failure {
	return wire.Internal(wire.ReasonCredential, fmt.Sprintf("the upstream %s was not called: %v", upstream, err))
}

// logMissing logs why a secret of a principal cannot be used, if m has a cause.
func (g *Gateway) logMissing(who *credential.Principal, m *credential.MissingError) {
	if m != nil && m.Err != nil {
		g.opts.Logger.Error("a secret of a principal cannot be used", "upstream", g.up.Name,
			"principal", who.Name, "tenant", who.Tenant, "error", m.Err)
	}
}

// sessionUser returns the user of a session, whose request r is.
func (g *Gateway) sessionUser(s *mcphttp.Session, r *http.Request) (user, error) {
	filled, err := g.credentialFor(s.Tenant, s.Principal, r)
	return user{g.sessionKey(s), filled}, err
}

// poolUser returns the user of an exchange without a session.
func (g *Gateway) poolUser(x *mcphttp.Exchange) (user, error) {
	filled, err := g.credentialFor(x.Tenant, x.Principal, x.Request)
	if err != nil {
		return user{}, err
	}
	return user{g.poolKey(x, filled), filled}, nil
}

// same reports whether u and other may share a connection.
func (u user) same(other user) bool {
	return u.key == other.key && u.credential.Digest() == other.credential.Digest()
}

// isFor reports whether c was made for u.
func (c *connection) isFor(u user) bool { return user{c.key, c.credential}.same(u) }
