import { useState } from 'preact/hooks'
import { get } from './api'
import { count } from './format'
import { usePolled, useTitle } from './hooks'
import { Empty, Heading, ProblemBox, SearchField, VirtualRows, When } from './parts'
import type { Replica } from './wire'

type Filter = 'all' | 'answers' | 'silent'

const filters: [Filter, string][] = [
  ['all', 'All'],
  ['answers', 'Answering'],
  ['silent', 'Silent'],
]

/** The servers that share the store. */
export function ReplicasPage() {
  const { value, problem } = usePolled(
    (signal) => get<{ replicas: Replica[]; next_cursor: string }>('/v1/replicas?limit=1000', signal),
    2000,
    [],
  )
  useTitle('Replicas')
  const [filter, setFilter] = useState<Filter>('all')
  const [text, setText] = useState('')
  const textOf = (r: Replica) => [r.id, r.url ?? '', r.version ?? ''].join('\n').toLowerCase()
  const rows =
    value?.replicas.filter((r) => (filter === 'all' || r.answers === (filter === 'answers')) && textOf(r).includes(text.toLowerCase())) ?? []
  return (
    <section class="page">
      <div class="bar">
        <h1>Replicas</h1>
        <span class="soft" role="status">{value ? `${count(rows.length)}${value.next_cursor ? '+' : ''}` : ''}</span>
        <div class="segments" role="group" aria-label="State">
          {filters.map(([name, words]) => (
            <button type="button" aria-pressed={filter === name} key={name} onClick={() => setFilter(name)}>
              {words}
            </button>
          ))}
        </div>
        <SearchField label="Search replicas" placeholder="Search name, address, version" text={text} onText={setText} />
      </div>
      <ProblemBox problem={problem} />
      {rows.length > 0 && (
        <div class="table replicas" role="table" aria-label="Replicas" aria-rowcount={rows.length + 1}>
          <Heading names={['State', 'Replica', 'Version', 'Running', 'Queued', 'Streams', 'Heartbeat', 'Started']} />
          <VirtualRows rows={rows} height={36} label="Replicas by name" keyOf={({ id }) => id} draw={(r) => <Cells replica={r} />} />
        </div>
      )}
      {value && rows.length === 0 && <Empty title="Nothing matches" />}
    </section>
  )
}

function Cells({ replica: r }: { replica: Replica }) {
  return (
    <>
      <span role="cell">
        <span class={`state tone-${r.answers ? 'good' : 'bad'}`}>
          <span class="dot" aria-hidden="true" />
          {r.answers ? 'answers' : 'silent'}
        </span>
      </span>
      <span role="cell" class="cell-command" title={r.url ?? ''}>
        <span class="mono">{r.id}</span> <span class="soft">{[r.self ? 'this page' : '', r.url ?? ''].filter(Boolean).join(' · ')}</span>
      </span>
      <span role="cell" class="soft cell-command" title={r.version ?? ''}>{r.version ?? '–'}</span>
      <span role="cell" class="number">{r.executions ? count(r.executions.running) : '–'}</span>
      <span role="cell" class="number">{r.executions ? count(r.executions.queued) : '–'}</span>
      <span role="cell" class="number">{r.streams === null ? '–' : count(r.streams)}</span>
      <span role="cell" class="soft cell-when"><When time={r.last_heartbeat} /></span>
      <span role="cell" class="soft cell-when"><When time={r.started} /></span>
    </>
  )
}
