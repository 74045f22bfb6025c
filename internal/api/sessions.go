package api

import (
	"net/http"
	"net/url"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/web"
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

func (s *Server) listSessions(x *web.Exchange) error {
	limit, cursor, err := x.Query.Page()
	if err != nil {
		return err
	}
	page, err := s.host.Sessions(x.R.Context(), x.Who.Tenant,
		execution.SessionQuery{Limit: limit, After: cursor, Allowed: grants.Sessions(x)})
	if err != nil {
		return x.Query.ListError(err)
	}
	shown := make([]sessionBody, 0, len(page.Sessions))
	for _, session := range page.Sessions {
		shown = append(shown, showSession(session))
	}
	return x.Answer(http.StatusOK, struct {
		Sessions   []sessionBody `json:"sessions"`
		NextCursor string        `json:"next_cursor"`
	}{shown, page.Next})
}

func (s *Server) showSession(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if !x.Who.MayOn(identity.ScopeRead, id) {
		return reprise.ErrNotFound
	}
	session, err := s.host.Session(x.R.Context(), x.Who.Tenant, id)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showSession(session))
}

func (s *Server) removeSession(x *web.Exchange) error {
	id, err := id(x)
	if err != nil {
		return err
	}
	if !x.Who.MayOn(identity.ScopeControl, id) {
		return x.Done() // as for one that does not exist
	}
	if err := s.host.RemoveSession(x.R.Context(), x.Who.Tenant, id); err != nil {
		return err
	}
	return x.Done()
}
