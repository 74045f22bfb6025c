package api

import (
	"net/http"
	"net/url"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// sessionBody is how a session is shown.
type sessionBody struct {
	execution.Session
	// Executions stands in the place of the embedded member, with links.
	Executions []executionBody `json:"executions,omitempty"`
	Links      sessionLinks    `json:"links"`
}

type sessionLinks struct {
	Self       string `json:"self"`
	Executions string `json:"executions"`
}

func showSession(session execution.Session) sessionBody {
	return sessionBody{session, showExecutions(session.Executions), sessionLinks{
		Self:       "/v1/sessions/" + url.PathEscape(session.ID),
		Executions: "/v1/executions?session=" + url.QueryEscape(session.ID),
	}}
}

func (s *Server) listSessions(x *exchange) error {
	limit, cursor, err := x.query.page()
	if err != nil {
		return err
	}
	page, err := s.host.Sessions(x.r.Context(), x.who.Tenant,
		execution.SessionQuery{Limit: limit, After: cursor, Allowed: x.sessionFilter()})
	if err != nil {
		return x.query.listError(err)
	}
	shown := make([]sessionBody, 0, len(page.Sessions))
	for _, session := range page.Sessions {
		shown = append(shown, showSession(session))
	}
	return s.answer(x, http.StatusOK, struct {
		Sessions   []sessionBody `json:"sessions"`
		NextCursor string        `json:"next_cursor"`
	}{shown, page.Next})
}

func (s *Server) showSession(x *exchange) error {
	id := x.r.PathValue("id")
	if !x.who.MayOn(identity.ScopeRead, id) {
		return reprise.ErrNotFound
	}
	session, err := s.host.Session(x.r.Context(), x.who.Tenant, id)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showSession(session))
}

func (s *Server) removeSession(x *exchange) error {
	id, err := x.id()
	if err != nil {
		return err
	}
	if !x.who.MayOn(identity.ScopeControl, id) {
		return x.done() // as for one that does not exist
	}
	if err := s.host.RemoveSession(x.r.Context(), x.who.Tenant, id); err != nil {
		return err
	}
	return x.done()
}
