package apikey

import (
	"slices"
	"time"

	"reprise/internal/identity"
)

// Separate makes check decide which tenants may have keys with the scope run at the same time. The error is that of
// check for the tenants that have such keys now. From then on, a key with which check fails is not made.
func (r *Registry) Separate(check func(tenants []string) error) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.separate = check
	return check(r.running(time.Now()))
}

// admit returns an error if the tenants that run commands would not be separated with a new key. The caller holds
// changing.
func (r *Registry) admit(q *Request, now time.Time) error {
	if r.separate == nil || !runs(q.Scopes) {
		return nil
	}
	tenants := r.running(now)
	if slices.Contains(tenants, string(q.Tenant)) {
		return nil // it has such a key already
	}
	if err := r.separate(append(tenants, string(q.Tenant))); err != nil {
		return &errField{"tenant", err.Error()}
	}
	return nil
}

// running are the tenants that have valid keys with the scope run.
func (r *Registry) running(now time.Time) (tenants []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, e := range r.keys {
		if e.Revoked == nil && (e.Expires == nil || e.Expires.After(now)) && runs(e.Scopes) {
			tenants = append(tenants, string(e.Tenant))
		}
	}
	return tenants
}

// runs reports whether grants contain the scope run, for whatever prefix.
func runs(grants []identity.Grant) bool {
	return slices.ContainsFunc(grants, func(g identity.Grant) bool { return g.Scope == identity.ScopeRun })
}
