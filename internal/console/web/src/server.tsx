import type { ComponentChildren } from 'preact'
import { get, send } from './api'
import { bytes, count, duration, plural } from './format'
import { usePolled, useTitle } from './hooks'
import { type Sample, parseMetrics, quantile, sum } from './metrics'
import { ProblemBox } from './parts'
import type { Quota, StoreStats } from './wire'

interface Health {
  ready: boolean
  samples: Sample[]
}

/** How the server is, as far as it tells. */
export function ServerPage() {
  const health = usePolled(async (signal): Promise<Health> => {
    const text = await (await send('/metrics', { signal })).text()
    return { ready: true, samples: parseMetrics(text) }
  }, 2000, [])
  const ready = usePolled((signal) => get<{ status: string }>('/readyz', signal), 2000, [])
  const kept = usePolled((signal) => get<StoreStats>('/v1/store', signal), 10_000, [])
  const limits = usePolled((signal) => get<{ principal: string | null; tenant: string; quotas: Quota[] }>('/v1/quota', signal), 5000, [])
  useTitle('Server')
  const samples = health.value?.samples ?? []
  const forbidden = health.problem?.code === 'forbidden'
  const isReady = ready.value !== undefined && !ready.problem
  return (
    <section class="page page-scroll" tabIndex={0} aria-label="Server">
      <div class="bar">
        <h1>Server</h1>
        <span class={`state tone-${isReady ? 'good' : 'bad'}`} role="status">
          <span class="dot" aria-hidden="true" />
          {isReady ? 'ready: the store can be read and written' : ready.problem ? ready.problem.title : '…'}
        </span>
      </div>
      <ProblemBox problem={ready.problem ?? (forbidden ? undefined : health.problem)} />
      {samples.length > 0 && <Figures samples={samples} />}
      {kept.value && <Kept stats={kept.value} />}
      {limits.value && <Limits {...limits.value} />}
      {forbidden ? (
        <p class="soft">What the server does and what its store keeps is shown to those with the scope admin, which this login does not have.</p>
      ) : (
        <p class="soft">
          From <code class="mono">/metrics</code>, of this replica, since it was started.
        </p>
      )}
    </section>
  )
}

function Figures({ samples }: { samples: Sample[] }) {
  const value = (name: string, labels?: Record<string, string>) => sum(samples, name, labels)
  const started = value('process_start_time_seconds')
  const commits = value('reprise_commits_total')
  const events = value('reprise_committed_events_total')
  const ended = samples.filter(({ name }) => name === 'reprise_executions_ended_total')
  return (
    <div class="figures">
      <Group title="Work">
        <Figure name="running" value={count(value('reprise_executions', { status: 'running' }))} />
        <Figure name="queued" value={count(value('reprise_executions', { status: 'queued' }))} />
        {ended.map(({ labels, value: n }) => (
          <Figure key={labels.outcome} name={`ended: ${(labels.outcome ?? '').replaceAll('_', ' ')}`} value={count(n)} />
        ))}
        <Figure name="output waited for the store" value={duration(value('reprise_output_stalled_seconds_total') * 1000)} />
      </Group>
      <Group title="Readers">
        <Figure name="open now" value={count(value('reprise_readers'))} />
        <Figure name="opened" value={count(value('reprise_readers_opened_total'))} />
        <Figure name="refused" value={count(value('reprise_readers_refused_total'))} />
        <Figure name="fell out of the window" value={`${count(value('reprise_gaps_total'))}, ${plural(value('reprise_missed_events_total'), 'event')} missed`} />
      </Group>
      <Group title="Store">
        <Figure name="events committed" value={count(events)} />
        <Figure name="bytes committed" value={bytes(value('reprise_committed_bytes_total'))} />
        <Figure name="events a commit" value={commits === 0 ? '–' : (events / commits).toFixed(1)} />
        <Figure name="half of the commits within" value={within(samples, 0.5)} />
        <Figure name="99 of 100 within" value={within(samples, 0.99)} />
        <Figure name="failures" value={count(value('reprise_commit_failures_total') + value('reprise_store_read_errors_total'))} />
        <Figure name="streams swept" value={count(value('reprise_swept_streams_total'))} />
      </Group>
      <Group title="Process">
        {started > 0 && <Figure name="up for" value={duration(Date.now() - started * 1000)} />}
        <Figure name="memory" value={bytes(value('process_resident_memory_bytes') || value('go_memstats_sys_bytes'))} />
        <Figure name="goroutines" value={count(value('go_goroutines'))} />
        <Figure name="open files" value={`${count(value('process_open_fds'))} of ${count(value('process_max_fds'))}`} />
        <Figure name="requests" value={count(value('reprise_http_requests_total'))} />
      </Group>
    </div>
  )
}

/** Tenants that are named; the others are added up. */
const shownTenants = 12

/** What the store keeps, for those who may administer. */
function Kept({ stats }: { stats: StoreStats }) {
  const tenants = Object.entries(stats.tenants).sort(([, a], [, b]) => b.bytes - a.bytes)
  const others = tenants.slice(shownTenants).reduce((sum, [, { bytes: n }]) => sum + n, 0)
  return (
    <div class="figures">
      <Group title="Kept">
        {tenants.slice(0, shownTenants).map(([name, t]) => (
          <Figure key={name} name={`tenant ${name}`} value={`${bytes(t.bytes + t.overhead)}, ${plural(t.streams, 'stream')}, ${plural(t.events, 'event')}`} />
        ))}
        {others > 0 && <Figure name={`${count(tenants.length - shownTenants)} others`} value={bytes(others)} />}
        {stats.sqlite && <Figure name="file" value={bytes(stats.sqlite.file_bytes)} />}
        {stats.sqlite && <Figure name="write-ahead log" value={bytes(stats.sqlite.wal_bytes)} />}
        {stats.sqlite && <Figure name="free in both" value={bytes(stats.sqlite.free_bytes)} />}
        {stats.disk_free_bytes !== undefined && <Figure name="free on the disk" value={bytes(stats.disk_free_bytes)} />}
      </Group>
    </div>
  )
}

/** What is bounded, as people say it. */
const bounded: Record<string, string> = {
  running: 'runs at a time',
  queued: 'runs that wait',
  starts: 'starts a minute',
  streams: 'streams kept',
  bytes: 'bytes kept',
  readers: 'open readers',
  sessions: 'MCP sessions',
  upload: 'bytes uploaded a minute',
}

/** What is in use of each bound, of the one who is logged in and of the tenant. */
function Limits({ principal, tenant, quotas }: { principal: string | null; tenant: string; quotas: Quota[] }) {
  const groups = new Map<string, Quota[]>()
  for (const quota of quotas) groups.set(quota.of, [...(groups.get(quota.of) ?? []), quota])
  const titles: Record<string, string> = { principal: `Limits of ${principal ?? 'you'}`, tenant: `Limits of the tenant ${tenant}`, server: 'Limits of the server' }
  return (
    <div class="figures">
      {[...groups].map(([of, list]) => (
        <Group key={of} title={titles[of] ?? of}>
          {list.map((quota) => <Limit key={quota.quota} quota={quota} />)}
        </Group>
      ))}
    </div>
  )
}

function Limit({ quota: { quota, used, limit } }: { quota: Quota }) {
  const text = quota === 'bytes' || quota === 'upload' ? bytes : count
  const value = limit === null ? `${text(used)}, no bound` : `${text(used)} of ${text(limit)}`
  return (
    <div class={limit !== null && used >= limit ? 'is-full' : ''}>
      <dt>{bounded[quota] ?? quota}</dt>
      <dd>
        {limit !== null && limit > 0 && <meter min={0} max={limit} value={Math.min(used, limit)} high={limit * 0.9} aria-hidden="true" />}
        {value}
      </dd>
    </div>
  )
}

function within(samples: Sample[], share: number): string {
  const bound = quantile(samples, 'reprise_commit_seconds', share)
  if (bound === undefined) return '–'
  return bound < 0.001 ? `${Math.round(bound * 1e6)} µs` : duration(bound * 1000)
}

function Group({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section>
      <h2>{title}</h2>
      <dl>{children}</dl>
    </section>
  )
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
