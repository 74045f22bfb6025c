package node

import (
	"fmt"
	"net/http"
	"strings"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/audit"
	"reprise/internal/identity"
	"reprise/internal/mcpserver"
	"reprise/internal/oidc"
	"reprise/internal/problem"
	"reprise/mcp/mcphttp"
)

// challenged adds to a refusal of MCP where the client gets another token. issuers may be nil.
func challenged(issuers *oidc.Verifier, r *http.Request, who *identity.Principal, err error) error {
	if issuers == nil {
		return problem.From(err)
	}
	return problem.From(api.Challenged(issuers, r, who, err))
}

// allowTools refuses messages for which a token has too few scopes, so that the client can get another one (step-up).
// Principals without an issuer get no other: the tool names them.
func (n *Node) allowTools(gate *identity.Gate) func(*http.Request, []mcphttp.Message) error {
	if n.issuers == nil {
		return nil
	}
	return func(r *http.Request, messages []mcphttp.Message) error {
		who, err := gate.Known(r)
		if err != nil || who.Issuer == "" {
			return nil //nolint:nilerr // the caller has identified who sent the request, and who else may answer later
		}
		var missing []identity.Scope
		for i := range messages {
			for _, scope := range mcpserver.Needs(&messages[i]) {
				if !who.May(scope) {
					missing = append(missing, scope)
				}
			}
		}
		if missing == nil {
			return nil
		}
		p := problem.New(problem.CodeForbidden, fmt.Sprintf("this needs the scopes %v", missing))
		if p.Challenge = n.issuers.StepUp(r.URL.Path, &who, missing...); p.Challenge == "" {
			return nil
		}
		e := audit.Entry{Principal: who.Name, Tenant: who.Tenant, Act: "MCP " + r.Method, Result: string(p.Code)}
		if err := n.recordMCP(r.Context(), e, false); err != nil {
			return err
		}
		return p
	}
}

// serveMetadata answers what OAuth clients ask first of a gateway. Everybody may know it, pages of all origins too.
func serveMetadata(issuers *oidc.Verifier) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		text, ok := issuers.Metadata(strings.TrimPrefix(r.URL.Path, oidc.MetadataPath))
		if !ok {
			refuseProblem(w, reprise.ErrNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(text, '\n'))
	}
}
