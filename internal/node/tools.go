package node

import (
	"context"
	"errors"
	"net/http"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/mcpapi"
	"reprise/internal/mcpmetrics"
	"reprise/internal/mcpserver"
	"reprise/internal/metrics"
	"reprise/internal/oidc"
	"reprise/internal/problem"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// mcpEndpoint is what answers at /mcp.
type mcpEndpoint struct {
	tools   *mcpserver.Server
	handler *mcphttp.Handler
	windows *windows // nil where there can be none
}

// openTools opens the endpoint.
func openTools(_ context.Context, n *Node) (err error) {
	n.tools = &mcpEndpoint{}
	n.onClose(n.tools.close)
	n.tools.tools, err = mcpserver.New(n.log, n.host, &mcpserver.Options{
		Replica: n.member, Version: n.Version, Logger: n.Logger,
		Tasks:     &mcptask.Options{Hooks: n.mcp.Tasks(), Life: n.lives()},
		Principal: principalBy(n.gate), Audit: n.recordMCP, CallGrace: n.CallGrace,
	})
	if err != nil {
		return err
	}
	n.tools.handler, err = mcphttp.New(n.log, limitedBackend{n.tools.tools.Backend(), n.quotas}, &mcphttp.Options{
		KeepAlive: n.Heartbeat, Versions: n.MCPVersions, ResponseAge: n.ResponseAge,
		Identify: identifyFor(n.gate, n.issuers), Allow: n.allowTools(n.gate), Admit: n.quotas.admitMCP,
		Life: n.lives(), Replica: n.member, Hooks: n.mcp.HTTP(), Logger: n.Logger,
		AllowedHosts: []string{"*"}, AllowedOrigins: n.AllowOrigins, // the API has checked the host
	})
	return err
}

// openWindows lets other processes use the tools through the data directory. A file system without sockets is no
// reason not to serve.
func openWindows(_ context.Context, n *Node) (err error) {
	if n.tools.windows, err = listenWindows(n, n.Heartbeat); err != nil {
		n.Logger.Warn("other processes cannot use this one through the data directory", "error", err)
	}
	if n.tools.handler != nil { // else there is nothing over HTTP
		watchSessions(n.mcp, n.metrics.Registry(), n.tools.endpoints())
		n.routes = append(n.routes, n.tools.endpoints(), n.tools.tasks())
	}
	return nil
}

// watchSessions exports how many sessions endpoints have in use.
func watchSessions(counted *mcpmetrics.Metrics, registry *metrics.Registry, endpoints mcpapi.Sessions) {
	watched := map[string]*mcphttp.Handler{}
	for _, e := range endpoints {
		watched[e.Name] = e.Handler
	}
	counted.Watch(registry, watched)
}

// mcpName is the name of the endpoint at /mcp.
const mcpName = "mcp"

// endpoints are those whose sessions are shown.
func (m *mcpEndpoint) endpoints() mcpapi.Sessions {
	endpoints := mcpapi.Sessions{{Name: mcpName, Handler: m.handler}}
	if m.windows != nil {
		endpoints = append(endpoints, mcpapi.Endpoint{Name: windowsName, Handler: m.windows.handler})
	}
	return endpoints
}

// tasks are those that are shown.
func (m *mcpEndpoint) tasks() mcpapi.Tasks {
	return mcpapi.Tasks{{Name: mcpName, Tasks: m.tools.Tasks(), Execution: mcpserver.ExecutionOf}}
}

// principalBy says what who was identified may do. Who uses the data directory is "", and may do everything. What else
// a request shows is looked up again: what the bearer of a token may do is in that token alone.
func principalBy(gate *identity.Gate) func(context.Context, reprise.Tenant, string) (identity.Principal, error) {
	return func(ctx context.Context, tenant reprise.Tenant, name string) (identity.Principal, error) {
		if name == "" {
			return identity.Principal{Tenant: tenant, Grants: identity.AllGrants()}, nil
		}
		if x := mcptask.Exchange(ctx); x != nil {
			if who, err := gate.Known(x.Request); err == nil && who.Tenant == tenant && who.Name == name {
				return who, nil
			}
		}
		return gate.Named(ctx, tenant, name)
	}
}

// identifyFor lets in who may use a tool.
func identifyFor(gate *identity.Gate, issuers *oidc.Verifier) func(*http.Request) (reprise.Tenant, string, error) {
	return func(r *http.Request) (reprise.Tenant, string, error) {
		p, err := gate.Identify(r)
		if err != nil {
			return "", "", challenged(issuers, r, &p, err)
		}
		if !p.May(identity.ScopeRun) && !p.May(identity.ScopeRead) && !p.May(identity.ScopeControl) {
			refusal := problem.New(problem.CodeForbidden, "each tool needs one of the scopes run, read and control")
			if issuers != nil {
				refusal.Challenge = issuers.StepUp(r.URL.Path, &p, identity.ScopeRun)
			}
			return "", "", refusal
		}
		httpserver.Authenticated(r)
		return p.Tenant, p.Name, nil
	}
}

// close ends what the endpoint has under way. Executions go on.
func (m *mcpEndpoint) close() (err error) {
	err = m.windows.close()
	if m.handler != nil {
		err = errors.Join(err, m.handler.Close())
	}
	if m.tools != nil {
		err = errors.Join(err, m.tools.Close())
	}
	return err
}
