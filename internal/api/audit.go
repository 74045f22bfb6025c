package api

import (
	"context"

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
