import { useState } from 'preact/hooks'
import { get } from './api'
import { count } from './format'
import { usePolled, useTitle } from './hooks'
import { Empty, Heading, ProblemBox, SearchField, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { Session } from './wire'

/** What executions have in common. */
export function SessionsPage() {
  const { value, problem } = usePolled(
    (signal) => get<{ sessions: Session[]; next_cursor: string }>('/v1/sessions?limit=1000', signal),
    2000,
    [],
  )
  useTitle('Sessions')
  const [text, setText] = useState('')
  const rows = value?.sessions.filter(({ id }) => id.toLowerCase().includes(text.toLowerCase())) ?? []
  return (
    <section class="page">
      <div class="bar">
        <h1>Sessions</h1>
        <span class="soft" role="status">{value ? `${count(rows.length)}${value.next_cursor ? '+' : ''}` : ''}</span>
        <SearchField label="Search sessions" placeholder="Search sessions" text={text} onText={setText} />
      </div>
      <ProblemBox problem={problem} />
      {rows.length > 0 && (
        <div class="table sessions" role="table" aria-label="Sessions" aria-rowcount={rows.length + 1}>
          <Heading names={['Session', 'Running', 'Queued', 'Runs', 'Updated']} />
          <VirtualRows rows={rows} height={36} label="Sessions, newest first" keyOf={({ id }) => id} draw={(s) => <Cells session={s} />} />
        </div>
      )}
      {value && rows.length === 0 && (
        <Empty title={text === '' ? 'No sessions' : 'Nothing matches'}>
          {text === '' && <p>A run that names a session is listed here with the others of that name.</p>}
          {text === '' && <pre class="mono">reprise run --session build-7 -- make test</pre>}
        </Empty>
      )}
    </section>
  )
}

function Cells({ session: s }: { session: Session }) {
  return (
    <>
      <span role="cell" class="cell-command">
        <a class="mono" href={hrefs.executions({ session: s.id })}>{s.id}</a>
      </span>
      <span role="cell" class="number">{count(s.running)}</span>
      <span role="cell" class="number">{count(s.queued)}</span>
      <span role="cell" class="number">{count(s.count)}</span>
      <span role="cell" class="soft cell-when"><When time={s.updated} /></span>
    </>
  )
}
