package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
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

// issuerFlags name the identity providers whose tokens are taken.
type issuerFlags struct {
	OIDCIssuer   []string `name:"oidc-issuer" placeholder:"URL" help:"Identity provider (OpenID Connect) whose access tokens are accepted, with the scopes that they name. May be repeated."`
	OIDCAudience []string `name:"oidc-audience" placeholder:"NAME" help:"Audience of tokens for this server, in addition to its --public-url. May be repeated."`
	OIDCConfig   string   `name:"oidc-config" placeholder:"FILE" help:"YAML file with identity providers, each with its own rule for tenants, names and scopes; docs/security.md describes it."`
	PublicURL    string   `name:"public-url" placeholder:"URL" help:"URL by which clients reach the server, and for which they get tokens, such as https://reprise.example.org. Default: the address that it listens on."`
}

// issuers are the providers that the flags name.
func (f *issuerFlags) issuers() ([]oidc.Issuer, error) {
	var issuers []oidc.Issuer
	for _, url := range f.OIDCIssuer {
		issuers = append(issuers, oidc.Issuer{URL: url, Audiences: f.OIDCAudience})
	}
	if f.OIDCConfig == "" {
		return issuers, nil
	}
	file, err := os.Open(f.OIDCConfig)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	more, err := oidc.ReadConfig(file)
	if err != nil {
		return nil, usage("--oidc-config %s: %w", f.OIDCConfig, err)
	}
	for i := range more {
		more[i].Audiences = append(more[i].Audiences, f.OIDCAudience...)
	}
	return append(issuers, more...), nil
}

// open makes the verifier of the providers, nil if there are none. url is where the server listens. What else opts has
// stays: its resource has the paths that are resources of their own.
func (f *issuerFlags) open(url, listen, auth string, opts *oidc.Options) (*oidc.Verifier, error) {
	resource := opts.Resource
	resource.URL = strings.TrimSuffix(f.PublicURL, "/")
	if f.PublicURL != "" {
		if err := resource.Validate(); err != nil {
			return nil, usage("--public-url: %w", err)
		}
	}
	issuers, err := f.issuers()
	if err != nil || len(issuers) == 0 {
		return nil, err
	}
	if auth == "none" {
		return nil, usage("--auth none lets everybody in: there is no use for tokens of an identity provider")
	}
	if f.PublicURL == "" {
		if host, _, err := net.SplitHostPort(listen); err == nil && (host == "" || net.ParseIP(host).IsUnspecified()) {
			return nil, usage("--listen %s is no address under which clients reach the server: name that with --public-url, "+
				"for tokens are issued for it", listen)
		}
		resource.URL = url
	}
	if err := resource.Validate(); err != nil {
		return nil, usage("--public-url: %w", err)
	}
	verifier, err := oidc.New(issuers, opts)
	if err != nil {
		return nil, usage("%w", err)
	}
	return verifier, nil
}

// toolScopes are those of the endpoint /mcp: what a client begins with, and what it may come back for.
var toolScopes = oidc.PathScopes{
	First: []identity.Scope{identity.ScopeRead, identity.ScopeRun},
	All:   []identity.Scope{identity.ScopeRead, identity.ScopeRun, identity.ScopeControl},
}

// passScopes are those of an endpoint of a gateway, whose tools are not ours.
var passScopes = oidc.PathScopes{First: []identity.Scope{identity.ScopeRun}, All: []identity.Scope{identity.ScopeRun}}

// knowIssuers adds the tokens of identity providers to what a verifier knows. A nil one lets everybody in.
func (s *server) knowIssuers(verifier identity.Verifier) identity.Verifier {
	if s.issuers == nil || verifier == nil {
		return verifier
	}
	return notingVerifier{s.issuers.Before(verifier), &s.quotas.bearers}
}

// challenged adds to a refusal of MCP where the client gets another token. issuers may be nil.
func challenged(issuers *oidc.Verifier, r *http.Request, who *identity.Principal, err error) error {
	if issuers == nil {
		return problem.From(err)
	}
	return problem.From(api.Challenged(issuers, r, who, err))
}

// allowTools refuses messages for which a token has too few scopes, so that the client can get another one (step-up).
// Principals without an issuer get no other: the tool tells them.
func (s *server) allowTools(gate *identity.Gate) func(*http.Request, []mcphttp.Message) error {
	if s.issuers == nil {
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
		if p.Challenge = s.issuers.StepUp(r.URL.Path, &who, missing...); p.Challenge == "" {
			return nil
		}
		e := audit.Entry{Principal: who.Name, Tenant: who.Tenant, Act: "MCP " + r.Method, Result: string(p.Code)}
		if err := s.recordMCP(r.Context(), e, false); err != nil {
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
