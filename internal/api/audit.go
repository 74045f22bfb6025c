package api

import (
	"context"
	"net/http"

	"reprise/internal/audit"
	"reprise/internal/web"
)

// journal records acts of the API in an audit log.
type journal struct{ trail *audit.Trail }

func entry(a *web.Act) audit.Entry {
	return audit.Entry{
		Principal: a.Principal, Tenant: a.Tenant, Act: a.Act, Object: a.Object, Remote: a.Remote, Request: a.Request,
		Result: string(a.Result),
	}
}

// Record implements web.Journal.
func (j journal) Record(ctx context.Context, a web.Act) error { return j.trail.Record(ctx, entry(&a)) }

// Note implements web.Journal.
func (j journal) Note(a web.Act) { j.trail.Note(entry(&a)) }

// Refuse implements web.Journal.
func (j journal) Refuse(a web.Act) { j.trail.Refuse(entry(&a)) }

func (s *Server) auditEvents(x *web.Exchange) error {
	stream, err := s.log.Stream(x.R.Context(), audit.StreamKey)
	if err != nil {
		return err
	}
	return s.follow(x, &reading{stream: stream})
}

func (s *Server) checkAudit(x *web.Exchange) error {
	found, err := s.opts.Audit.Check(x.R.Context())
	if err != nil {
		return err
	}
	return x.Answer(http.StatusOK, found)
}
