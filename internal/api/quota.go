package api

import (
	"fmt"
	"net/http"

	"reprise"
	"reprise/client"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/metrics"
	"reprise/internal/quota"
	"reprise/internal/web"
)

// showQuota answers with the usage of the sender. An administrator may request the usage of another tenant or
// principal.
func (s *Server) showQuota(x *web.Exchange) error {
	who := x.Who.Holder()
	tenant, principal := x.Query.Text("tenant"), x.Query.Text("principal")
	if tenant != "" || principal != "" {
		if err := x.Needs(identity.ScopeAdmin); err != nil {
			return err
		}
		if tenant != "" {
			who = &quota.Holder{Account: quota.Account{Tenant: reprise.Tenant(tenant), Principal: principal}}
		} else {
			who = &quota.Holder{Account: quota.Account{Tenant: who.Tenant, Principal: principal}}
		}
		if err := (reprise.StreamKey{Tenant: who.Tenant, Name: "x"}).Validate(); err != nil {
			return web.BadRequest("tenant", "it is 1 to 64 letters, digits, '.', '_' and '-'")
		}
		if principal != "" {
			named, err := s.gate.Named(x.R.Context(), who.Tenant, principal)
			if err != nil {
				return fmt.Errorf("%w: the tenant has no such principal", reprise.ErrNotFound)
			}
			who = named.Holder()
		}
	}
	body := client.Quotas{Tenant: string(who.Tenant), Quotas: []client.Quota{}}
	if who.Principal != "" {
		body.Principal = &who.Principal
		body.Quotas = s.quotaLines(who, quota.OfPrincipal)
	}
	body.Quotas = append(body.Quotas, s.quotaLines(who, quota.OfTenant)...)
	return x.Answer(http.StatusOK, body)
}

// quotaLines are the quotas of a principal, or of its tenant.
func (s *Server) quotaLines(who *quota.Holder, of quota.Of) []client.Quota {
	a := who.Account
	if of == quota.OfTenant {
		a.Principal = ""
	}
	var lines []client.Quota
	for _, name := range s.opts.Quotas.Names() {
		line := client.Quota{Name: string(name), Of: string(of), Used: s.used(a, name)}
		bound, ok := s.opts.Quotas.Limit(who, of, name)
		if name == quota.Bytes && of == quota.OfTenant && !ok {
			bound = s.log.Usage().MaxTenantBytes
			ok = bound > 0
		}
		if ok {
			line.Limit = &bound
		}
		lines = append(lines, line)
	}
	return lines
}

// used returns the current usage of a quota by an account.
func (s *Server) used(a quota.Account, name quota.Name) int64 {
	switch name {
	case quota.Running, quota.Queued:
		if s.host == nil {
			return 0
		}
		counts := s.host.CountsOf(a)
		if name == quota.Running {
			return int64(counts.Running)
		}
		return int64(counts.Queued)
	case quota.Streams:
		return s.log.UsageOf(a.Tenant, a.Principal).Streams
	case quota.Bytes:
		return s.log.UsageOf(a.Tenant, a.Principal).Bytes
	}
	return s.opts.Quotas.Used(a, name)
}

// QuotaRefused counts a refusal because of an exhausted quota, for quota.Options.Refused.
func (m *Metrics) QuotaRefused(e *quota.Error) {
	m.quotaRefused.With(string(e.Of), string(e.Quota)).Inc()
}

// watchQuotas exports the usage of tenants other than kept data and executions, and the limits. host may be nil.
func (m *Metrics) watchQuotas(book *quota.Book, host *execution.Host, log *reprise.Log) {
	m.registry.Func(metrics.KindGauge, "reprise_tenant_quota_used",
		"What tenants use of quotas that are not about executions or what is kept.", []string{"quota", "tenant"},
		func(emit func(float64, ...string)) {
			for _, name := range []quota.Name{
				quota.Starts, quota.Readers, quota.Sessions, quota.Requests, quota.Calls, quota.Upload,
			} {
				used := map[reprise.Tenant]int64{}
				for _, t := range book.Tenants() {
					if n := book.Used(quota.Account{Tenant: t}, name); n > 0 {
						used[t] = n
					}
				}
				largest(used, func(n int64) int64 { return n }, func(sum, n int64) int64 { return sum + n },
					func(tenant string, n int64) { emit(float64(n), string(name), tenant) })
			}
		})
	m.registry.Func(metrics.KindGauge, "reprise_tenant_quota_limit",
		"Bounds of tenants that use something, where they have one.", []string{"quota", "tenant"},
		func(emit func(float64, ...string)) {
			active := map[reprise.Tenant]int64{}
			for _, t := range book.Tenants() {
				active[t] = 1
			}
			if host != nil {
				for t := range host.CountsByTenant() {
					active[t] = 1
				}
			}
			for t := range log.Usage().Tenants {
				active[t] = 1
			}
			largest(active, func(n int64) int64 { return n }, func(sum, _ int64) int64 { return sum },
				func(tenant string, _ int64) {
					who := &quota.Holder{Account: quota.Account{Tenant: reprise.Tenant(tenant)}}
					for _, name := range book.Names() {
						if bound, ok := book.Limit(who, quota.OfTenant, name); ok && tenant != otherTenants {
							emit(float64(bound), string(name), tenant)
						}
					}
				})
		})
}
