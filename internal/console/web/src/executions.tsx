import { useEffect, useMemo, useReducer, useState } from 'preact/hooks'
import { ExecutionList, type Filter } from './executionlist'
import { Glance } from './glance'
import { bytes, commandOf, count, duration, ranFor } from './format'
import { useMedia, usePolled, useTick, useTitle } from './hooks'
import { LinkFor } from './may'
import { Empty, Heading, Labels, ProblemBox, SearchField, State, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { Execution } from './wire'

const filters: [Filter, string][] = [
  ['all', 'All'],
  ['running', 'Running'],
  ['queued', 'Queued'],
  ['succeeded', 'Succeeded'],
  ['failed', 'Failed'],
]

/** All executions, live, with search and filter. */
export function ExecutionsPage({ query }: { query: URLSearchParams }) {
  const session = query.get('session') ?? ''
  const [filter, setFilter] = useState<Filter>('all')
  const [text, setText] = useState('')
  const list = useMemo(() => new ExecutionList(filter, session), [filter, session])
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  const { value, problem } = usePolled(
    async (signal) => {
      await list.refresh(signal)
      return true
    },
    1500,
    [list],
  )
  useTitle(session === '' ? 'Executions' : `Session ${session}`)
  const { rows, wanting } = list.matching(text)
  const older = () => {
    const stop = new AbortController()
    void list.older(stop.signal).then(() => redraw(0), () => {}) // the poll tells what is wrong
  }
  useEffect(() => {
    if (value && wanting) older()
  }, [value, wanting, list.all.length, text])
  useTick(1000, rows.some(({ status }) => status !== 'ended'))
  return (
    <section class="page">
      <div class="bar">
        <h1>{session === '' ? 'Executions' : <>Session <span class="mono">{session}</span></>}</h1>
        <span class="soft" role="status">
          {value ? `${count(rows.length)}${list.more ? '+' : ''}` : ''}
        </span>
        <div class="segments" role="group" aria-label="Status">
          {filters.map(([name, words]) => (
            <button type="button" aria-pressed={filter === name} key={name} onClick={() => setFilter(name)}>
              {words}
            </button>
          ))}
        </div>
        <SearchField label="Search executions" placeholder="Search command, id, label=value" text={text} onText={setText} />
        <LinkFor scope="run" primary href={hrefs.start()}>
          New run
        </LinkFor>
      </div>
      {session === '' && <Glance onFilter={setFilter} />}
      <ProblemBox problem={problem} />
      <Table rows={rows} onNearEnd={text === '' ? older : undefined} />
      {value && rows.length === 0 && !wanting && <Nothing filtered={text !== '' || filter !== 'all'} />}
    </section>
  )
}

function Table({ rows, onNearEnd }: { rows: Execution[]; onNearEnd: (() => void) | undefined }) {
  const narrow = useMedia('(max-width: 760px)')
  if (rows.length === 0) return null
  return (
    <div class="table executions" role="table" aria-label="Executions" aria-rowcount={rows.length + 1}>
      <Heading names={['Status', 'Command', 'Labels', 'Started', 'Duration', 'Output']} />
      <VirtualRows
        rows={rows}
        height={narrow ? 62 : 36}
        label="Executions, newest first"
        keyOf={(e) => e.id}
        {...(onNearEnd && { onNearEnd })}
        draw={(e) => <Cells execution={e} />}
      />
    </div>
  )
}

function Cells({ execution: e }: { execution: Execution }) {
  const ran = ranFor(e)
  const command = commandOf(e)
  return (
    <>
      <span role="cell">
        <State execution={e} />
      </span>
      <span role="cell" class="cell-command">
        <a class="mono" href={hrefs.execution(e.id)} title={command}>
          {command.split('\n', 1)[0]}
        </a>
      </span>
      <span role="cell" class="cell-labels">
        {e.session && <span class="label">session<b>{e.session}</b></span>}
        <Labels labels={e.labels} />
      </span>
      <span role="cell" class="soft cell-when">
        <When time={e.started ?? e.created} />
      </span>
      <span role="cell" class="number">{ran === undefined ? '–' : duration(ran)}</span>
      <span role="cell" class="number soft cell-bytes">{e.status === 'ended' ? bytes(e.bytes.stdout + e.bytes.stderr) : ''}</span>
    </>
  )
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="Nothing matches">Another word, or another status, may.</Empty>
  return (
    <Empty title="Nothing has run yet">
      <p>
        <a href={hrefs.start()}>Start a run here</a>, or in a terminal:
      </p>
      <pre class="mono">reprise run -- sh -c 'for i in 1 2 3; do echo $i; sleep 1; done'</pre>
    </Empty>
  )
}
