package oidc

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"reprise"
	"reprise/internal/identity"
)

// Resource describes the server to OAuth: a protected resource, of which some paths are resources of their own. A token
// whose audience is the URL of a path is valid only for requests of that path.
type Resource struct {
	// URL is the URL by which clients reach the server: scheme and host, for example "https://reprise.example.org".
	URL string
	// Paths maps paths that are resources of their own, such as "/mcp", to their scopes.
	Paths map[string]PathScopes
}

// PathScopes are the scopes of a path.
type PathScopes struct {
	// First are the scopes that a client without a token requests, All the scopes that exist.
	First, All []identity.Scope
}

// Validate checks the URL. The error wraps reprise.ErrInvalid.
func (r *Resource) Validate() error {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Scheme+"://"+u.Host != r.URL {
		return fmt.Errorf("%w: %.200q is not a URL such as https://reprise.example.org", reprise.ErrInvalid, r.URL)
	}
	return nil
}

// paths returns the paths for which a token with these audiences is valid: nil for all. ok is false if it is valid for
// none. general lists the audiences of tokens that are valid for all paths.
func (r *Resource) paths(audiences, general []string) (paths []string, ok bool) {
	for _, audience := range audiences {
		if audience == "" {
			continue
		}
		bare := strings.TrimSuffix(audience, "/") // URL libraries append a slash to a host
		if slices.Contains(general, audience) || r.URL != "" && bare == r.URL {
			return nil, true
		}
		if path, ours := strings.CutPrefix(bare, r.URL); ours && r.URL != "" {
			if _, known := r.Paths[path]; known {
				paths = append(paths, path)
			}
		}
	}
	return paths, paths != nil
}

// MetadataPath is the path of the metadata of the server as a whole. The metadata of a path is below it (RFC 9728,
// section 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the information that a client needs to obtain a token (RFC 9728, section 2).
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

// Metadata returns as JSON the metadata of a path that is a resource of its own or, for "", of the server as a whole.
// It returns false for other paths.
func (v *Verifier) Metadata(path string) ([]byte, bool) {
	scopes := identity.AllScopes()
	if path != "" {
		known, ok := v.opts.Resource.Paths[path]
		if !ok {
			return nil, false
		}
		scopes = known.All
	}
	m := metadata{
		Resource: v.opts.Resource.URL + path, Methods: []string{"header"}, Name: "Reprise",
		Scopes: v.scopeTexts(scopes),
	}
	for url := range v.issuers {
		m.Servers = append(m.Servers, url)
	}
	slices.Sort(m.Servers)
	text, err := json.Marshal(m)
	return text, err == nil
}

// scopeTexts returns scopes in the form in which clients request them, without those that no issuer may grant.
func (v *Verifier) scopeTexts(scopes []identity.Scope) (texts []string) {
	for _, scope := range scopes {
		for _, i := range v.issuers {
			if text := i.ScopePrefix + string(scope); slices.Contains(i.Allow, scope) && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// Challenge returns WWW-Authenticate for a request of path without a credential or, if wrong is true, with an invalid
// one (RFC 6750, section 3; RFC 9728, section 5.1).
func (v *Verifier) Challenge(path string, wrong bool) string {
	known, ok := v.opts.Resource.Paths[path]
	if !ok {
		path = ""
	}
	code := ""
	if wrong {
		code = "invalid_token"
	}
	return v.challenge(path, code, v.scopeTexts(known.First))
}

// StepUp returns WWW-Authenticate for a request of path that needs more scopes than its principal has (RFC 6750,
// section 3.1). It requests the present scopes too, so that the next token has both. It is "" if no other token would
// help: for a principal without an issuer, for one whose issuer may not grant the scopes, and for one that has them
// all.
func (v *Verifier) StepUp(path string, p *identity.Principal, needed ...identity.Scope) string {
	i := v.issuers[p.Issuer]
	if i == nil {
		return ""
	}
	if _, ok := v.opts.Resource.Paths[path]; !ok {
		path = ""
	}
	var texts []string
	has := len(p.Grants)
	for _, g := range p.Grants {
		texts = append(texts, i.ScopePrefix+g.String())
	}
	for _, scope := range needed {
		if !slices.Contains(i.Allow, scope) {
			return ""
		}
		if text := i.ScopePrefix + string(scope); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == has {
		return ""
	}
	return v.challenge(path, "insufficient_scope", texts)
}

func (v *Verifier) challenge(path, code string, scopes []string) string {
	text := "Bearer"
	if code != "" {
		text += fmt.Sprintf(" error=%q,", code)
	}
	text += fmt.Sprintf(" resource_metadata=%q", v.opts.Resource.URL+MetadataPath+path)
	if len(scopes) > 0 {
		text += fmt.Sprintf(", scope=%q", strings.Join(scopes, " "))
	}
	return text
}
