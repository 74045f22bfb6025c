package node

import (
	"context"
	"sync/atomic"

	"reprise"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/quota"
)

// quotas is the Book of a server, and what it needs to know of principals.
type quotas struct {
	*quota.Book
	gate atomic.Pointer[identity.Gate]   // nil before there is one
	keys atomic.Pointer[apikey.Registry] // nil before they are read, and where there are none
	// bearers are principals whose limits only their tokens contain.
	bearers bearers
}

// several reports whether there are principals beside the operator.
func (q *quotas) several() bool {
	keys := q.keys.Load()
	return keys != nil && keys.Any()
}

// holder is a principal by its name, with its own bounds as long as its credential is good. It is made at each append.
func (q *quotas) holder(tenant reprise.Tenant, name string) quota.Holder {
	h := quota.Holder{Account: quota.Account{Tenant: tenant, Principal: name}}
	if gate := q.gate.Load(); gate != nil && name != "" {
		if p, err := gate.Named(context.Background(), tenant, name); err == nil {
			return *p.Holder()
		}
		q.bearers.recall(&h)
	}
	return h
}

// kept are the bounds of what a tenant or a principal keeps.
func (q *quotas) kept(tenant reprise.Tenant, account string) reprise.Quota {
	of := quota.OfPrincipal
	if account == "" {
		of = quota.OfTenant
	}
	h := q.holder(tenant, account)
	return q.Kept(&h, of)
}

// admitMCP counts the MCP sessions of a principal. One that was opened before is counted whatever the bounds are.
func (q *quotas) admitMCP(tenant reprise.Tenant, principal string, opening bool) (release func(), err error) {
	who := q.holder(tenant, principal)
	if !opening {
		return q.Hold(&who, quota.Sessions), nil
	}
	return q.Take(&who, quota.Sessions)
}
