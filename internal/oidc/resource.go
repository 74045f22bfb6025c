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

// Resource is the server as OAuth sees it: a protected resource, of which some paths are resources of their own. A
// token whose audience is the URL of a path is good for requests of that path alone.
type Resource struct {
	// URL is under which clients reach the server: scheme and host, for example "https://reprise.example.org".
	URL string
	// Paths are the paths that are resources of their own, such as "/mcp", and the scopes that each knows.
	Paths map[string]PathScopes
}

// PathScopes are the scopes of a path.
type PathScopes struct {
	// First are those that a client without a token asks for, All those that there are.
	First, All []identity.Scope
}

// Validate reports whether the URL is one. The error wraps reprise.ErrInvalid.
func (r *Resource) Validate() error {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Scheme+"://"+u.Host != r.URL {
		return fmt.Errorf("%w: %.200q is no URL such as https://reprise.example.org", reprise.ErrInvalid, r.URL)
	}
	return nil
}

// paths are the paths for which a token with some audiences is good: nil for all, and none at all where ok is false.
// general are the audiences of tokens that are for all.
func (r *Resource) paths(audiences, general []string) (paths []string, ok bool) {
	for _, audience := range audiences {
		if audience == "" {
			continue
		}
		bare := strings.TrimSuffix(audience, "/") // URL libraries put one behind a host
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

// MetadataPath is where clients find the metadata of the server as a whole; that of a path is below it (RFC 9728,
// section 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is what a client needs to know to get a token (RFC 9728, section 2).
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

// Metadata is the metadata of a path that is a resource of its own, or with "" that of the server as a whole, in JSON.
// It reports false for another path.
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

// scopeTexts are scopes as clients ask for them, those alone that an issuer may grant.
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

// Challenge is the value of WWW-Authenticate for a request of path that has shown nothing, or nothing good if wrong is
// true (RFC 6750, section 3; RFC 9728, section 5.1).
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

// StepUp is the value of WWW-Authenticate for a request of path that needs more scopes than its principal has (RFC
// 6750, section 3.1). What the principal has is asked for again, so that the next token can do both. It is "" for a
// principal without an issuer, for one whose issuer may not grant them, and for one that has them all: no other token
// would help.
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
