import type { Filter } from './executionlist'
import { get } from './api'
import { bytes, count, plural, stateOf } from './format'
import { usePolled } from './hooks'
import type { Execution, Quota } from './wire'

/** The newest runs that are looked through for those that failed. */
const lookedAt = 200

/** What runs now, what has failed today, and how much of the limits is used, in one line. */
export function Glance({ onFilter }: { onFilter: (filter: Filter) => void }) {
  const { value: limits } = usePolled((signal) => get<{ quotas: Quota[] }>('/v1/quota', signal), 5000, [])
  const { value: ended } = usePolled(
    (signal) => get<{ executions: Execution[]; next_cursor: string }>(`/v1/executions?status=ended&limit=${lookedAt}`, signal),
    10_000,
    [],
  )
  if (!limits || !ended) return null
  const midnight = new Date().setHours(0, 0, 0, 0)
  const failed = ended.executions.filter((e) => Date.parse(e.ended ?? '') >= midnight && stateOf(e).tone === 'bad').length
  const more = ended.next_cursor !== '' && Date.parse(ended.executions.at(-1)?.ended ?? '') >= midnight ? '+' : ''
  const of = (name: string) => limits.quotas.find(({ quota, of }) => quota === name && of === 'tenant')
  const [running, queued, kept] = [of('running'), of('queued'), of('bytes')]
  const bound = (quota: Quota | undefined, text: (n: number) => string) => (typeof quota?.limit === 'number' ? ` of ${text(quota.limit)}` : '')
  return (
    <p class="glance" role="group" aria-label="At a glance">
      <button type="button" class="quiet" onClick={() => onFilter('running')}>
        <b>{count(running?.used ?? 0)}</b>
        {bound(running, count)} running{queued && queued.used > 0 && `, ${count(queued.used)} waiting`}
      </button>
      <button type="button" class={failed > 0 ? 'quiet is-failed' : 'quiet'} onClick={() => onFilter('failed')}>
        <b>
          {count(failed)}
          {more}
        </b>{' '}
        failed today
      </button>
      {kept && (
        <span>
          <b>{bytes(kept.used)}</b>
          {bound(kept, bytes)} kept in {plural(of('streams')?.used ?? 0, 'stream')}
        </span>
      )}
    </p>
  )
}
