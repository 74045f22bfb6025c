package api

import (
	"net"
	"net/http"

	"reprise/internal/audit"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/internal/problem"
)

// record records an act that is allowed: a change before it is made, which fails with its record, and what reads soon.
func (s *Server) record(x *exchange, rt *route) error {
	switch {
	case rt.scope == public || rt.path == "/metrics" || rt.path == receiptsPath:
		return nil
	case rt.method == http.MethodGet:
		s.opts.Audit.Note(s.entry(x, rt))
		return nil
	}
	return s.opts.Audit.Record(x.r.Context(), s.entry(x, rt))
}

// entry returns the audit entry of a request, without the query, which may contain a ticket.
func (s *Server) entry(x *exchange, rt *route) audit.Entry {
	remote, _, err := net.SplitHostPort(x.r.RemoteAddr)
	if err != nil {
		remote = x.r.RemoteAddr
	}
	return audit.Entry{
		Principal: x.who.Name, Tenant: x.who.Tenant, Act: rt.method + " " + rt.path, Object: x.r.URL.Path,
		Remote: remote, Request: x.w.Header().Get(httpserver.RequestIDHeader),
	}
}

// recordRefusal counts a request that was refused because of its sender.
func (s *Server) recordRefusal(x *exchange, rt *route) {
	switch code := recordOf(x.w).Code(); code {
	case problem.CodeUnauthenticated, problem.CodeForbidden, problem.CodeRateLimited:
		e := s.entry(x, rt)
		e.Object, e.Result = "", string(code)
		s.opts.Audit.Refuse(e)
	}
}

// recordLogin records a login before its cookie is given.
func (s *Server) recordLogin(x *exchange, who *identity.Principal) error {
	if s.opts.Audit == nil {
		return nil
	}
	return s.opts.Audit.Record(x.r.Context(), s.entryOf(x, who, "login", ""))
}

// recordMade records the created object, which the previous record could not name.
func (s *Server) recordMade(x *exchange, path string) {
	if s.opts.Audit != nil {
		s.opts.Audit.Note(s.entryOf(x, &x.who, "made", path))
	}
}

func (s *Server) entryOf(x *exchange, who *identity.Principal, act, object string) audit.Entry {
	e := s.entry(x, &route{})
	e.Principal, e.Tenant, e.Act, e.Object = who.Name, who.Tenant, act, object
	return e
}

func (s *Server) auditEvents(x *exchange) error {
	stream, err := s.log.Stream(x.r.Context(), audit.StreamKey)
	if err != nil {
		return err
	}
	return s.follow(x, &reading{stream: stream})
}

func (s *Server) checkAudit(x *exchange) error {
	found, err := s.opts.Audit.Check(x.r.Context())
	if err != nil {
		return err
	}
	return s.answer(x, http.StatusOK, found)
}
