package api

import (
	"errors"
	"net/http"
	"net/url"

	"reprise"
	"reprise/internal/execution/interpreter"
	"reprise/internal/grants"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// interpreterRoutes returns the routes of interpreters and of artifacts. Code in an interpreter is run by POST
// /v1/executions.
func (s *Server) interpreterRoutes(m *web.Mux) {
	m.Handle("GET", "/v1/executions/{id}/artifacts/{path}", identity.ScopeRead, []string{"offset"}, s.readArtifact)
	m.Handle("POST", "/v1/interpreters", identity.ScopeRun, nil, s.openInterpreter)
	m.Handle("GET", "/v1/interpreters", identity.ScopeRead, nil, s.listInterpreters)
	m.Handle("GET", "/v1/interpreters/{id}", identity.ScopeRead, nil, s.showInterpreter)
	m.Handle("DELETE", "/v1/interpreters/{id}", identity.ScopeControl, nil, s.removeInterpreter)
	m.Handle("POST", "/v1/interpreters/{id}/interrupt", identity.ScopeControl, nil, s.interruptInterpreter)
}

// interpreterBody is how an interpreter is shown.
type interpreterBody struct {
	interpreter.Interpreter
	Links interpreterLinks `json:"links"`
}

type interpreterLinks struct {
	Self      string `json:"self"`
	Execution string `json:"execution"`
}

func showInterpreter(i interpreter.Interpreter) interpreterBody {
	id := url.PathEscape(i.ID)
	return interpreterBody{i, interpreterLinks{"/v1/interpreters/" + id, "/v1/executions/" + id}}
}

func (s *Server) openInterpreter(x *web.Exchange) error {
	var q interpreter.Request
	if err := x.DecodeBody(&q); err != nil {
		return err
	}
	q.IdempotencyKey = x.R.Header.Get(idempotencyKeyHeader)
	if err := x.MayMake(identity.ScopeRun, q.Session, "session"); err != nil {
		return err
	}
	i, created, err := interpreter.Open(x.R.Context(), s.host, x.Who.Holder(), q)
	if err != nil {
		return err
	}
	shown, status := showInterpreter(i), http.StatusOK
	x.W.Header().Set("Location", shown.Links.Self)
	if created {
		status = http.StatusCreated
		x.Made(shown.Links.Self)
	}
	return x.Answer(status, shown)
}

func (s *Server) listInterpreters(x *web.Exchange) error {
	list, err := interpreter.List(x.R.Context(), s.host, x.Who.Tenant, grants.Sessions(x))
	if err != nil {
		return err
	}
	shown := make([]interpreterBody, 0, len(list))
	for _, i := range list {
		shown = append(shown, showInterpreter(i))
	}
	return x.Answer(http.StatusOK, struct {
		Interpreters []interpreterBody `json:"interpreters"`
	}{shown})
}

func (s *Server) showInterpreter(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeRead, id); err != nil {
		return err
	}
	i, err := interpreter.Show(x.R.Context(), s.host, x.Who.Tenant, id)
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, showInterpreter(i))
}

// removeInterpreter ends an interpreter. It does not remove any other execution.
func (s *Server) removeInterpreter(x *web.Exchange) error {
	id, err := id(x)
	if err != nil {
		return err
	}
	err = s.grants.MayUse(x, identity.ScopeControl, id)
	if err == nil {
		_, err = interpreter.Show(x.R.Context(), s.host, x.Who.Tenant, id)
	}
	if err == nil {
		err = s.host.Remove(x.R.Context(), x.Who.Tenant, id)
	}
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.Done()
}

func (s *Server) interruptInterpreter(x *web.Exchange) error {
	id := x.R.PathValue("id")
	if err := s.grants.MayUse(x, identity.ScopeControl, id); err != nil {
		return err
	}
	if err := interpreter.Interrupt(x.R.Context(), s.host, x.Who.Tenant, id); err != nil {
		return err
	}
	return x.Done()
}
