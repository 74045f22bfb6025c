package node

import (
	"cmp"
	"net"
	"net/http"

	"reprise"
	"reprise/internal/audit"
	"reprise/internal/gateway"
	"reprise/internal/gateway/wire"
	"reprise/internal/identity"
	"reprise/mcp/mcphttp"
)

// claimsOf are the claims of a principal by the token that a request has shown.
func claimsOf(r *http.Request, tenant reprise.Tenant, principal string) map[string]string {
	if who := identity.FromContext(r.Context()); who != nil && who.Tenant == tenant && who.Name == principal {
		return who.Claims
	}
	return nil
}

// remoteOf is the address of the sender of a request.
func remoteOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// recordPassed records what is asked of an upstream.
func (n *Node) recordPassed(r *http.Request, messages []mcphttp.Message, upstream string) error {
	if n.audit == nil {
		return nil
	}
	e := audit.Entry{Remote: remoteOf(r)}
	if who := identity.FromContext(r.Context()); who != nil {
		e.Principal, e.Tenant = who.Name, who.Tenant
	}
	for i := range messages {
		m := &messages[i]
		if m.Method == "" || m.ID == "" {
			continue
		}
		e.Act, e.Object = "MCP "+m.Method, upstream
		if name := cmp.Or(wire.Text(m.Params, "name"), wire.Text(m.Params, "uri")); name != "" {
			e.Object += " " + name
			if name == gateway.CallTool {
				e.Object += " " + gateway.CalledTool(m.Params)
			}
		}
		if err := n.recordMCP(r.Context(), e, m.Method == wire.MethodCall); err != nil {
			return err
		}
	}
	return nil
}
