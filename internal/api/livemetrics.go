package api

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/metrics"
	"reprise/internal/park"
	"reprise/internal/quota"
)

const (
	// maxTenantLabels is the maximum number of tenants with a label. The others are counted together.
	maxTenantLabels = 100
	// otherTenants is the label of the others. No tenant can have such a name.
	otherTenants = "(other)"
)

// firstTenants gives the tenants that come first labels of their own. The zero firstTenants is ready for use.
type firstTenants struct {
	mu    sync.Mutex
	known map[reprise.Tenant]bool
}

func (f *firstTenants) label(t reprise.Tenant) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known[t] {
		if len(f.known) >= maxTenantLabels {
			return otherTenants
		}
		if f.known == nil {
			f.known = map[reprise.Tenant]bool{}
		}
		f.known[t] = true
	}
	return string(t)
}

// largest emits the values of the tenants with the highest rank, under their names, and the sum of the others. It sorts
// no more tenants than it emits.
func largest[V any](
	tenants map[reprise.Tenant]V, rank func(V) int64, add func(sum, v V) V, emit func(tenant string, v V),
) {
	type ranked struct {
		tenant reprise.Tenant
		rank   int64
	}
	compare := func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.tenant, b.tenant))
	}
	var first []ranked
	var rest V
	for t, v := range tenants {
		one := ranked{t, rank(v)}
		at, _ := slices.BinarySearchFunc(first, one, compare)
		if first = slices.Insert(first, at, one); len(first) > maxTenantLabels {
			rest = add(rest, tenants[first[maxTenantLabels].tenant])
			first = first[:maxTenantLabels]
		}
	}
	for _, one := range first {
		emit(string(one.tenant), tenants[one.tenant])
	}
	if len(tenants) > maxTenantLabels {
		emit(otherTenants, rest)
	}
}

// WatchLog exports what a Log keeps in its store and in memory. New calls it for the Log of the Server.
func (m *Metrics) WatchLog(log *reprise.Log) {
	m.watchKept(log)
	m.watchMemory(log)
}

// watchKept exports the kept bytes by tenant, and the limits.
func (m *Metrics) watchKept(log *reprise.Log) {
	kept := func(name, help string, value func(reprise.Size) int64) {
		m.registry.Func(metrics.KindGauge, name, help, []string{"tenant"}, func(emit func(float64, ...string)) {
			largest(log.Usage().Tenants,
				func(s reprise.Size) int64 { return s.Bytes },
				func(sum, s reprise.Size) reprise.Size {
					return reprise.Size{
						Streams: sum.Streams + s.Streams, Events: sum.Events + s.Events, Bytes: sum.Bytes + s.Bytes,
					}
				},
				func(tenant string, s reprise.Size) { emit(float64(value(s)), tenant) })
		})
	}
	kept("reprise_kept_bytes", "Bytes that are kept, as quotas count them, by tenant.",
		func(s reprise.Size) int64 { return s.Bytes })
	kept("reprise_kept_events", "Events that are kept, by tenant.", func(s reprise.Size) int64 { return s.Events })
	kept("reprise_kept_streams", "Streams that are kept, by tenant.", func(s reprise.Size) int64 { return s.Streams })
	m.registry.Func(metrics.KindGauge, "reprise_kept_bytes_limit",
		"How many bytes may be kept: by all tenants together (total) and by each (tenant), if that has a bound.",
		[]string{"of"}, func(emit func(float64, ...string)) {
			usage := log.Usage()
			emit(float64(usage.MaxBytes), "total")
			if usage.MaxTenantBytes > 0 {
				emit(float64(usage.MaxTenantBytes), "tenant")
			}
		})
}

// watchMemory exports what the Log holds in memory.
func (m *Metrics) watchMemory(log *reprise.Log) {
	m.registry.Func(metrics.KindGauge, "reprise_memory_streams", "Streams that are held in memory.", nil,
		func(emit func(float64, ...string)) { emit(float64(log.Memory().Streams)) })
	m.registry.Func(metrics.KindGauge, "reprise_memory_tail_bytes",
		"Bytes that the newest events of streams take in memory.", nil,
		func(emit func(float64, ...string)) { emit(float64(log.Memory().TailBytes)) })
}

// watchParking exports how many readers are parked. lot may be nil.
func (m *Metrics) watchParking(lot *park.Lot) {
	m.registry.Func(metrics.KindGauge, "reprise_readers_parked", "Readers over HTTP that are parked.", nil,
		func(emit func(float64, ...string)) { emit(float64(lot.Parked())) })
}

// watchExecutions exports the number of executions that have not ended, and the number of supervisors.
func (m *Metrics) watchExecutions(host *execution.Host) {
	states := func(emit func(float64, ...string), c execution.Counts, tenant ...string) {
		emit(float64(c.Queued), append(tenant, string(execution.StatusQueued))...)
		emit(float64(c.Running), append(tenant, string(execution.StatusRunning))...)
	}
	m.registry.Func(metrics.KindGauge, "reprise_executions", "Executions that have not ended, by status.",
		[]string{"status"}, func(emit func(float64, ...string)) { states(emit, host.Counts()) })
	m.registry.Func(metrics.KindGauge, "reprise_tenant_executions",
		"Executions that have not ended, by tenant and status.",
		[]string{"tenant", "status"}, func(emit func(float64, ...string)) {
			largest(host.CountsByTenant(),
				func(c execution.Counts) int64 { return int64(c.Running + c.Queued) },
				func(sum, c execution.Counts) execution.Counts {
					return execution.Counts{Running: sum.Running + c.Running, Queued: sum.Queued + c.Queued}
				},
				func(tenant string, c execution.Counts) { states(emit, c, tenant) })
		})
	m.registry.Func(metrics.KindGauge, "reprise_executions_waiting_for_storage",
		"Running executions whose output waits until there is room for it.", nil,
		func(emit func(float64, ...string)) { emit(float64(host.WaitingForStorage())) })
	m.registry.Func(metrics.KindGauge, "reprise_principal_queued_executions",
		"Executions that wait, for the hundred principals with the most.",
		[]string{"tenant", "principal"}, func(emit func(float64, ...string)) {
			mostQueued(host.QueuedByPrincipal(), emit)
		})
	m.registry.Func(metrics.KindGauge, "reprise_supervisors",
		"Supervisor processes that this server has started, by whether they have a command.",
		[]string{"state"}, func(emit func(float64, ...string)) {
			busy, idle := host.Supervisors()
			emit(float64(busy), "busy")
			emit(float64(idle), "idle")
		})
}

// mostQueued emits how many executions wait, for the maxTenantLabels principals with the most.
func mostQueued(queued map[quota.Account]int, emit func(float64, ...string)) {
	accounts := slices.SortedFunc(maps.Keys(queued), func(a, b quota.Account) int {
		return cmp.Or(cmp.Compare(queued[b], queued[a]),
			cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Principal, b.Principal))
	})
	for _, a := range accounts[:min(len(accounts), maxTenantLabels)] {
		emit(float64(queued[a]), string(a.Tenant), a.Principal)
	}
}
