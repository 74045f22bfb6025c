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
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.web.NoSuchMethod(w, r, http.MethodGet, http.MethodHead, http.MethodOptions)
		return
	}
	text, ok := s.opts.Issuers.Metadata(strings.TrimPrefix(r.URL.Path, oidc.MetadataPath))
	if !ok {
		s.web.NoSuchPath(w, r)
		return
	}
	_ = s.web.Exchange(w, r).AnswerJSON(http.StatusOK, text) // which never fails
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
