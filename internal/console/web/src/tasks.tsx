import { useState } from 'preact/hooks'
import { call, get } from './api'
import { count } from './format'
import { useAction, usePolled, useTitle } from './hooks'
import { Needs } from './may'
import { Empty, Heading, ProblemBox, SearchField, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { Task } from './wire'

type Filter = 'all' | 'running' | 'completed' | 'failed'

const filters: [Filter, string][] = [
  ['all', 'All'],
  ['running', 'Running'],
  ['completed', 'Completed'],
  ['failed', 'Failed'],
]

/** How a status is shown, and the filter that shows it. */
const statuses: Record<Task['status'], { tone: string; words: string; filter: Filter }> = {
  working: { tone: 'run', words: 'working', filter: 'running' },
  input_required: { tone: 'wait', words: 'waits for input', filter: 'running' },
  completed: { tone: 'good', words: 'completed', filter: 'completed' },
  failed: { tone: 'bad', words: 'failed', filter: 'failed' },
  cancelled: { tone: 'odd', words: 'cancelled', filter: 'failed' },
}

/** The tasks of clients of the Model Context Protocol. */
export function TasksPage() {
  const { value, problem, again } = usePolled(
    (signal) => get<{ tasks: Task[]; next_cursor: string }>('/v1/tasks?limit=200', signal),
    2000,
    [],
  )
  const cancel = useAction(async (id: string) => {
    await call('POST', `/v1/tasks/${encodeURIComponent(id)}/cancel`)
    again()
  })
  useTitle('Tasks')
  const [filter, setFilter] = useState<Filter>('all')
  const [text, setText] = useState('')
  const textOf = (t: Task) => [t.id, t.tool, t.message, t.principal, t.execution ?? '', statuses[t.status].words].join('\n').toLowerCase()
  const rows =
    value?.tasks.filter((t) => (filter === 'all' || statuses[t.status].filter === filter) && textOf(t).includes(text.toLowerCase())) ?? []
  const filtered = text !== '' || filter !== 'all'
  return (
    <section class="page">
      <div class="bar">
        <h1>Tasks</h1>
        <span class="soft" role="status">{value ? `${count(rows.length)}${value.next_cursor ? '+' : ''}` : ''}</span>
        <div class="segments" role="group" aria-label="Status">
          {filters.map(([name, words]) => (
            <button type="button" aria-pressed={filter === name} key={name} onClick={() => setFilter(name)}>
              {words}
            </button>
          ))}
        </div>
        <SearchField label="Search tasks" placeholder="Search tool, message, principal, id" text={text} onText={setText} />
      </div>
      <ProblemBox problem={cancel.problem ?? problem} onClose={cancel.clear} />
      {rows.length > 0 && (
        <div class="table tasks" role="table" aria-label="Tasks" aria-rowcount={rows.length + 1}>
          <Heading names={['Status', 'Tool', 'Execution', 'Principal', 'Updated', '']} />
          <VirtualRows
            rows={rows}
            height={36}
            label="Tasks, newest first"
            keyOf={({ id }) => id}
            draw={(task) => <Cells task={task} busy={cancel.busy} onCancel={() => void cancel.run(task.id)} />}
          />
        </div>
      )}
      {value && rows.length === 0 && (
        <Empty title={filtered ? 'Nothing matches' : 'No tasks'}>
          {!filtered && <p>A call of a tool that takes longer becomes a task, if its client knows tasks (MCP 2026-07-28).</p>}
        </Empty>
      )}
    </section>
  )
}

function Cells({ task: t, busy, onCancel }: { task: Task; busy: boolean; onCancel: () => void }) {
  const { tone, words, filter } = statuses[t.status]
  return (
    <>
      <span role="cell">
        <span class={`state tone-${tone}`}>
          <span class="dot" aria-hidden="true" />
          {words}
        </span>
      </span>
      <span role="cell" class="cell-command" title={t.id}>
        <b>{t.tool}</b> <span class="soft">{t.message}</span>
      </span>
      <span role="cell" class="cell-command">
        {t.execution ? <a class="mono" href={hrefs.execution(t.execution)}>{t.execution}</a> : <span class="soft">–</span>}
      </span>
      <span role="cell" class="soft cell-command" title={t.principal}>{t.principal || '–'}</span>
      <span role="cell" class="soft cell-when"><When time={t.updated} /></span>
      <span role="cell">
        {filter === 'running' && (
          <Needs scope="control">
            <button type="button" disabled={busy || t.cancel_requested} aria-label={`Cancel the task ${t.id}`} onClick={onCancel}>
              {t.cancel_requested ? 'Asked' : 'Cancel'}
            </button>
          </Needs>
        )}
      </span>
    </>
  )
}
