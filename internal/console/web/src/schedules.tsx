import { useState } from 'preact/hooks'
import { call, get, pathOf } from './api'
import { commandOf, count, moment, stateOf as outcomeOf, until } from './format'
import { useAction, usePolled, useTick, useTitle } from './hooks'
import { Choice, Empty, Field, Heading, Labels, ProblemBox, Row, SearchField, Sure, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { Execution, Schedule, Slot } from './wire'

/** What is started by the clock. */
export function SchedulesPage() {
  const [text, setText] = useState('')
  const [making, setMaking] = useState(false)
  const { value, problem, again } = usePolled((signal) => get<{ schedules: Schedule[] }>('/v1/schedules', signal), 2000, [])
  useTitle('Schedules')
  useTick(1000, (value?.schedules.length ?? 0) > 0)
  const wanted = text.toLowerCase()
  const rows = value?.schedules.filter((s) => [s.cron, s.zone, commandIn(s), stateOf(s).words].join('\n').toLowerCase().includes(wanted)) ?? []
  return (
    <section class="page">
      <div class="bar">
        <h1>Schedules</h1>
        <span class="soft" role="status">{value ? count(rows.length) : ''}</span>
        <SearchField label="Search schedules" placeholder="Search command, time, state" text={text} onText={setText} />
        <button type="button" class="primary" aria-expanded={making} disabled={!value} onClick={() => setMaking(!making)}>
          New schedule
        </button>
      </div>
      <ProblemBox problem={problem} />
      {making && <Make onMade={() => (setMaking(false), again())} />}
      {rows.length > 0 && (
        <div class="table schedules" role="table" aria-label="Schedules" aria-rowcount={rows.length + 1}>
          <Heading names={['State', 'Command', 'Newest runs', 'When', 'Next', 'Created']} />
          <VirtualRows rows={rows} height={36} label="Schedules, newest first" keyOf={({ id }) => id} draw={(s) => <Cells schedule={s} />} />
        </div>
      )}
      {value && rows.length === 0 && !making && (
        <Empty title={text === '' ? 'No schedules yet' : 'Nothing matches'}>
          {text === '' && <p>A schedule starts a command by the clock, once over all replicas.</p>}
          {text === '' && <pre class="mono">reprise schedule add '@daily' -- ./report</pre>}
        </Empty>
      )}
    </section>
  )
}

const commandIn = ({ id, execution }: Schedule) => commandOf({ id, ...execution })

/** The newest runs of a schedule, the oldest of them first; undefined until they are known. */
function useRuns(id: string): Execution[] | undefined {
  const path = `/v1/executions?${new URLSearchParams({ label: `schedule=${id}`, limit: '10' })}`
  return usePolled((signal) => get<{ executions: Execution[] }>(path, signal), 5000, [path]).value?.executions.toReversed()
}

/** What a schedule does, for which the runs count where they are known: a command that started may have failed. */
function stateOf({ disabled, slots }: Schedule, runs?: Execution[]): { tone: string; words: string } {
  if (disabled) return { tone: 'dim', words: 'paused' }
  const ended = runs?.findLast(({ status }) => status === 'ended')
  const failed = slots?.at(-1)?.outcome === 'failed' || (ended && /bad|odd/.test(outcomeOf(ended).tone))
  return failed ? { tone: 'bad', words: 'failing' } : { tone: 'good', words: 'on' }
}

function State({ schedule, runs }: { schedule: Schedule; runs: Execution[] | undefined }) {
  const { tone, words } = stateOf(schedule, runs)
  return (
    <span class={`state tone-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {words}
    </span>
  )
}

/** A dot for each run, which leads to it. */
function Runs({ runs }: { runs: Execution[] | undefined }) {
  if (runs?.length === 0) return <span class="soft">none</span>
  return (
    <span class="runs">
      {runs?.map((run) => {
        const { tone, words } = outcomeOf(run)
        const text = `${words}, ${moment(run.started ?? run.created)}`
        return (
          <a key={run.id} class={`state tone-${tone}`} href={hrefs.execution(run.id)} title={text} aria-label={text}>
            <span class="dot" aria-hidden="true" />
          </a>
        )
      })}
    </span>
  )
}

function Cells({ schedule: s }: { schedule: Schedule }) {
  const runs = useRuns(s.id)
  return (
    <>
      <span role="cell"><State schedule={s} runs={runs} /></span>
      <span role="cell" class="cell-command"><a class="mono" href={hrefs.schedule(s.id)}>{commandIn(s).split('\n', 1)[0]}</a></span>
      <span role="cell"><Runs runs={runs} /></span>
      <span role="cell" class="mono soft">{s.cron}{s.zone !== 'UTC' && ` ${s.zone}`}</span>
      <span role="cell">{s.disabled || !s.next ? <span class="soft">–</span> : <time dateTime={s.next} title={moment(s.next)}>{until(s.next)}</time>}</span>
      <span role="cell" class="soft cell-when"><When time={s.created} /></span>
    </>
  )
}

function Make({ onMade }: { onMade: () => void }) {
  const make = useAction(async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? '').trim()
    await call<Schedule>('POST', '/v1/schedules', {
      cron: text('cron'),
      zone: text('zone') || 'UTC',
      overlap: text('overlap'),
      missed: text('missed'),
      execution: { command: text('command'), ...(text('session') && { session: text('session') }), ...(text('timeout') && { timeout: text('timeout') }) },
    })
    onMade()
  })
  return (
    <form
      class="card"
      aria-label="New schedule"
      onSubmit={(event) => {
        event.preventDefault()
        void make.run(new FormData(event.currentTarget))
      }}
    >
      <Field name="command" label="Command, for a shell" placeholder="./report" mono required />
      <div class="columns">
        <Field name="cron" label="When: as in crontab, or @hourly, @daily, @every 10m" placeholder="*/5 * * * *" mono required />
        <Field name="zone" label="Time zone" placeholder="UTC" mono />
        <Choice name="overlap" label="While an earlier run goes on" of={[['skip', 'skip the slot'], ['allow', 'start another']]} />
        <Choice name="missed" label="Slots that pass while no server is there" of={[['skip', 'leave them out'], ['once', 'make up for the newest']]} />
        <Field name="session" label="Session" placeholder="none" />
        <Field name="timeout" label="Timeout" placeholder="none, or 90s, 5m, 1h" />
      </div>
      <ProblemBox problem={make.problem} onClose={make.clear} />
      <p class="actions">
        <button type="submit" class="primary" disabled={make.busy}>Create</button>
      </p>
    </form>
  )
}

/** One schedule with its newest slots. */
export function SchedulePage({ id }: { id: string }) {
  const path = pathOf('schedules', id)
  const { value: s, problem, again } = usePolled((signal) => get<Schedule>(path, signal), 2000, [path])
  const runs = useRuns(id)
  const act = useAction(async (rest: '/disable' | '/enable') => {
    await call('POST', path + rest)
    again()
  })
  const remove = useAction(async () => {
    await call('DELETE', path)
    location.hash = hrefs.schedules
  })
  useTitle(s ? commandIn(s) : 'Schedule')
  useTick(1000, s !== undefined && !s.disabled)
  if (!s) {
    return (
      <section class="page">
        {problem && <h1 class="mono">{id}</h1>}
        <ProblemBox problem={problem} />
        {problem && <p><a href={hrefs.schedules}>All schedules</a></p>}
      </section>
    )
  }
  const busy = act.busy || remove.busy
  return (
    <section class="page page-scroll">
      <header class="head">
        <div class="head-line">
          <h1 class="mono command" tabIndex={0}>{commandIn(s)}</h1>
          <div class="control">
            {s.disabled ? (
              <button type="button" class="primary" disabled={busy} onClick={() => void act.run('/enable')}>Go on</button>
            ) : (
              <button type="button" disabled={busy} onClick={() => void act.run('/disable')}>Pause</button>
            )}
            <Sure words="Remove" question="What it has started stays." yes="Remove for good" busy={busy} onYes={() => void remove.run()} />
          </div>
        </div>
        <p class="facts">
          <State schedule={s} runs={runs} />
          <Runs runs={runs} />
          <span class="mono">{s.cron}</span>
          <span class="soft">{s.zone}</span>
          {s.next && !s.disabled && <span>next {until(s.next)}</span>}
          {s.execution.session && <a href={hrefs.executions({ session: s.execution.session })}>session {s.execution.session}</a>}
          <Labels labels={s.execution.labels ?? null} />
        </p>
      </header>
      <ProblemBox problem={act.problem ?? remove.problem ?? problem} onClose={() => (act.clear(), remove.clear())} />
      <dl class="details" aria-label="Details">
        <Row name="Paused">{s.disabled && `${s.disabled.reason}, ${moment(s.disabled.since)}`}</Row>
        <Row name="Next">{s.next && !s.disabled && moment(s.next)}</Row>
        <Row name="While one goes on">{s.overlap === 'skip' ? 'the slot is skipped' : 'another one is started'}</Row>
        <Row name="Missed slots">{s.missed === 'skip' ? 'are left out' : 'the newest is made up for'}</Row>
        <Row name="Directory">{s.execution.cwd}</Row>
        <Row name="Environment">{s.execution.env_names?.join(', ')}</Row>
        <Row name="Timeout">{s.execution.timeout}</Row>
        <Row name="Belongs to">{s.principal}</Row>
        <Row name="Id"><code>{s.id}</code></Row>
      </dl>
      <h2>Slots</h2>
      {s.slots && s.slots.length > 0 ? <Slots slots={s.slots} /> : <p class="soft">None has come yet.</p>}
    </section>
  )
}

const tones = { started: 'run', skipped: 'wait', missed: 'odd', failed: 'bad' }

function Slots({ slots }: { slots: Slot[] }) {
  return (
    <ul class="slots">
      {slots.toReversed().map((slot) => (
        <li key={slot.at}>
          <span class={`state tone-${tones[slot.outcome]}`}>
            <span class="dot" aria-hidden="true" />
            {slot.outcome}
          </span>
          <time class="soft" dateTime={slot.at}>{moment(slot.at)}</time>
          <span>
            {slot.execution && <a class="mono" href={hrefs.execution(slot.execution)}>{slot.execution}</a>}
            {slot.error}
            {(slot.count ?? 0) > 1 && <span class="soft"> {count(slot.count!)} in a row</span>}
          </span>
        </li>
      ))}
    </ul>
  )
}
