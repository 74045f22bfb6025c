package api

import (
	"errors"
	"net/http"
	"net/url"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
)

// interpreterRoutes returns the routes of interpreters and of artifacts. Code in an interpreter is run by POST
// /v1/executions.
func interpreterRoutes() []route {
	return []route{
		{"GET", "/v1/executions/{id}/artifacts/{path}", identity.ScopeRead, []string{"offset"}, (*Server).readArtifact},
		{"POST", "/v1/interpreters", identity.ScopeRun, nil, (*Server).openInterpreter},
		{"GET", "/v1/interpreters", identity.ScopeRead, nil, (*Server).listInterpreters},
		{"GET", "/v1/interpreters/{id}", identity.ScopeRead, nil, (*Server).showInterpreter},
		{"DELETE", "/v1/interpreters/{id}", identity.ScopeControl, nil, (*Server).removeInterpreter},
		{"POST", "/v1/interpreters/{id}/interrupt", identity.ScopeControl, nil, (*Server).interruptInterpreter},
	}
}

// interpreterBody is how an interpreter is shown.
type interpreterBody struct {
	execution.Interpreter
	Links interpreterLinks `json:"links"`
}

type interpreterLinks struct {
	Self      string `json:"self"`
	Execution string `json:"execution"`
}

func showInterpreter(i execution.Interpreter) interpreterBody {
	id := url.PathEscape(i.ID)
	return interpreterBody{i, interpreterLinks{"/v1/interpreters/" + id, "/v1/executions/" + id}}
}

func (s *Server) openInterpreter(x *exchange) error {
	var q execution.InterpreterRequest
	if err := s.decodeBody(x, &q); err != nil {
		return err
	}
	q.IdempotencyKey = x.r.Header.Get(idempotencyKeyHeader)
	if err := x.mayMake(identity.ScopeRun, q.Session, "session"); err != nil {
		return err
	}
	i, created, err := s.host.OpenInterpreter(x.r.Context(), x.who.Holder(), q)
	if err != nil {
		return err
	}
	shown, status := showInterpreter(i), http.StatusOK
	x.w.Header().Set("Location", shown.Links.Self)
	if created {
		status = http.StatusCreated
		s.recordMade(x, shown.Links.Self)
	}
	return s.answer(x, status, shown)
}

func (s *Server) listInterpreters(x *exchange) error {
	list, err := s.host.Interpreters(x.r.Context(), x.who.Tenant, x.sessionFilter())
	if err != nil {
		return err
	}
	shown := make([]interpreterBody, 0, len(list))
	for _, i := range list {
		shown = append(shown, showInterpreter(i))
	}
	return s.answer(x, http.StatusOK, struct {
		Interpreters []interpreterBody `json:"interpreters"`
	}{shown})
}

func (s *Server) showInterpreter(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeRead, id); err != nil {
		return err
	}
	i, err := s.host.Interpreter(x.r.Context(), x.who.Tenant, id)
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, showInterpreter(i))
}

// removeInterpreter ends an interpreter. It does not remove any other execution.
func (s *Server) removeInterpreter(x *exchange) error {
	id, err := x.id()
	if err != nil {
		return err
	}
	err = s.mayUseExecution(x, identity.ScopeControl, id)
	if err == nil {
		_, err = s.host.Interpreter(x.r.Context(), x.who.Tenant, id)
	}
	if err == nil {
		err = s.host.Remove(x.r.Context(), x.who.Tenant, id)
	}
	if err != nil && !errors.Is(err, reprise.ErrNotFound) {
		return err
	}
	return x.done()
}

func (s *Server) interruptInterpreter(x *exchange) error {
	id := x.r.PathValue("id")
	if err := s.mayUseExecution(x, identity.ScopeControl, id); err != nil {
		return err
	}
	if err := s.host.Interrupt(x.r.Context(), x.who.Tenant, id); err != nil {
		return err
	}
	return x.done()
}
