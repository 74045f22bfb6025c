package api

import (
	"errors"
	"net/http"
	"strings"

	"reprise/internal/identity"
	"reprise/internal/oidc"
	"reprise/internal/problem"
)

// resourceMetadata answers what OAuth clients ask first: for what, and where, they get a token (RFC 9728, section 3).
func (s *Server) resourceMetadata(w http.ResponseWriter, r *http.Request) {
	recordOf(w).route = oidc.MetadataPath
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.noSuchMethod(w, r, &operations{methods: []string{http.MethodGet, http.MethodHead, http.MethodOptions}})
		return
	}
	text, ok := s.opts.Issuers.Metadata(strings.TrimPrefix(r.URL.Path, oidc.MetadataPath))
	if !ok {
		s.noSuchPath(w, r)
		return
	}
	_ = s.answerJSON(&exchange{w: w, r: r}, http.StatusOK, text) // which never fails
}

// challenged adds to a refusal the challenge for an OAuth client.
func (s *Server) challenged(x *exchange, err error) error {
	if s.opts.Issuers == nil {
		return err
	}
	return Challenged(s.opts.Issuers, x.r, &x.who, err)
}

// Challenged returns err, or its problem with a challenge that names the issuer of tokens, if the request has no valid
// token or one with insufficient scopes.
func Challenged(issuers *oidc.Verifier, r *http.Request, who *identity.Principal, err error) error {
	p := problem.From(err)
	switch p.Code {
	case problem.CodeUnauthenticated:
		p.Challenge = issuers.Challenge(r.URL.Path, r.Header.Get("Authorization") != "")
	case problem.CodeForbidden:
		if needed, ok := errors.AsType[*identity.ScopeError](err); ok {
			p.Challenge = issuers.StepUp(r.URL.Path, who, needed.Scope)
		}
	}
	if p.Challenge == "" {
		return err
	}
	return p
}
