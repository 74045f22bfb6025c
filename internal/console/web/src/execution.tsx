import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, get, pathOf } from './api'
import { EventTable } from './events'
import { commandOf, copyText, duration, ranFor, waitingText } from './format'
import { useAction, useChanges, usePolled, useTick, useTitle } from './hooks'
import { Details } from './details'
import { Input } from './input'
import { Output } from './output'
import { LinkFor, Needs, useMay } from './may'
import { Labels, ProblemBox, State, Sure, When } from './parts'
import { hrefs } from './route'
import { Strip } from './strip'
import { TerminalPanel } from './terminal'
import { Watch } from './watch'
import type { Execution } from './wire'

type Tab = 'terminal' | 'output' | 'events' | 'details'

/** One execution. */
export function ExecutionPage({ id, query }: { id: string; query: URLSearchParams }) {
  const path = pathOf('executions', id)
  const { value: execution, problem, again } = usePolled((signal) => get<Execution>(path, signal), 2000, [path])
  useTitle(execution ? commandOf(execution).split('\n', 1)[0]! : id)
  if (!execution) return <section class="page">{problem && <Missing id={id} problem={problem} />}</section>
  if (execution.expired) {
    return (
      <section class="page page-execution">
        <Head execution={execution} again={again} />
        <p>Its id is remembered: a start with it is answered with this outcome, and does not run again.</p>
      </section>
    )
  }
  return <Shown key={id} execution={execution} query={query} again={again} />
}

function Missing({ id, problem }: { id: string; problem: Parameters<typeof ProblemBox>[0]['problem'] }) {
  return (
    <>
      <h1 class="mono">{id}</h1>
      <ProblemBox problem={problem} />
      <p>
        <a href={hrefs.executions()}>All executions</a>
      </p>
    </>
  )
}

function Shown({ execution, query, again }: { execution: Execution; query: URLSearchParams; again: () => void }) {
  const { id } = execution
  const [tab, setTab] = useState<Tab>(execution.tty && !query.has('line') ? 'terminal' : 'output')
  const watch = useMemo(() => new Watch(pathOf('executions', id), execution.tty), [id])
  useEffect(() => {
    watch.start()
    return () => watch.stop()
  }, [watch])
  const shown = useEnded(execution, watch, again)
  const may = useMay('control')
  return (
    <section class="page page-execution page-run">
      <Head execution={shown} again={again}>
        <Strip watch={watch} />
      </Head>
      <ProblemBox problem={watch.follower.phase === 'failed' ? watch.follower.problem : undefined} />
      <Tabs tabs={execution.tty ? [['terminal', 'Terminal'], ...tabs] : tabs} tab={tab} onTab={setTab} />
      <div class="panel" role="tabpanel" aria-label={tab}>
        {tab === 'terminal' && <TerminalPanel watch={watch} execution={shown} />}
        {tab === 'output' && <Output watch={watch} execution={shown} query={query} />}
        {tab === 'events' && <EventTable watch={watch} />}
        {tab === 'details' && <Details execution={shown} again={again} />}
      </div>
      {may && shown.status === 'running' && tab !== 'terminal' && <Input id={id} />}
    </section>
  )
}

/** The execution, asked for again as soon as its stream has ended. */
function useEnded(execution: Execution, watch: Watch, again: () => void): Execution {
  useChanges((changed) => watch.subscribe(changed), 250, [watch])
  const ended = watch.end !== undefined
  useEffect(() => {
    if (ended && execution.status !== 'ended') again()
  }, [ended])
  return execution
}

const tabs: [Tab, string][] = [
  ['output', 'Output'],
  ['events', 'Events'],
  ['details', 'Details'],
]

function Tabs({ tabs, tab, onTab }: { tabs: [Tab, string][]; tab: Tab; onTab: (tab: Tab) => void }) {
  const list = useRef<HTMLDivElement>(null)
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (by === undefined) return
    const at = (tabs.findIndex(([name]) => name === tab) + by + tabs.length) % tabs.length
    onTab(tabs[at]![0])
    ;(list.current?.children[at] as HTMLElement | undefined)?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label="Parts" ref={list} onKeyDown={move}>
      {tabs.map(([name, words]) => (
        <button type="button" role="tab" aria-selected={tab === name} tabIndex={tab === name ? 0 : -1} key={name} onClick={() => onTab(name)}>
          {words}
        </button>
      ))}
    </div>
  )
}

function Head({ execution: e, again, children }: { execution: Execution; again: () => void; children?: ComponentChildren }) {
  const ran = ranFor(e)
  useTick(1000, e.status !== 'ended')
  return (
    <header class="head">
      <div class="head-line">
        <h1 class="mono command" tabIndex={0}>
          {commandOf(e)}
        </h1>
        {e.status !== 'ended' ? <Needs scope="control"><Control execution={e} again={again} /></Needs> : <Remove execution={e} />}
      </div>
      <div class="facts-line">
        <p class="facts">
          <State execution={e} />
          <span>{ran === undefined ? '' : duration(ran)}</span>
          <span class="soft">
            <When time={e.started ?? e.created} />
          </span>
          <button type="button" class="quiet mono" title="Copy the id" onClick={() => void copyText(e.id)}>
            {e.id}
          </button>
          {e.session && <a href={hrefs.executions({ session: e.session })}>session {e.session}</a>}
          <Labels labels={e.labels} />
        </p>
        {children}
      </div>
      {e.error && <p class="reason">{e.error}</p>}
      {e.waiting && <p class="reason" role="status">{waitingText(e)}</p>}
    </header>
  )
}

const signals = ['INT', 'TERM', 'HUP', 'QUIT', 'USR1', 'USR2', 'STOP', 'CONT', 'KILL']

function Control({ execution: { id, status }, again }: { execution: Execution; again: () => void }) {
  const act = useAction(async (path: string, body?: unknown) => {
    await call('POST', pathOf('executions', id, path), body)
    again()
  })
  return (
    <div class="control">
      {status === 'running' && (
        <select
          aria-label="Send a signal"
          disabled={act.busy}
          onChange={(event) => {
            const signal = event.currentTarget.value
            event.currentTarget.value = ''
            if (signal) void act.run('/signal', { signal })
          }}
        >
          <option value="">Signal…</option>
          {signals.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
      <button type="button" class="danger" disabled={act.busy} onClick={() => void act.run('/cancel')}>
        Cancel run
      </button>
      <ProblemBox problem={act.problem} onClose={act.clear} />
    </div>
  )
}

/** Runs an ended run again, or forgets it and all that it has put out, once that was confirmed. */
function Remove({ execution: { id, expired, argv, command } }: { execution: Execution }) {
  const remove = useAction(async () => {
    await call('DELETE', pathOf('executions', id))
    location.hash = hrefs.executions()
  })
  return (
    <div class="control">
      {!expired && (argv || command) && (
        <LinkFor scope="run" href={hrefs.start(id)}>
          Run again
        </LinkFor>
      )}
      <Needs scope="control">
        <Sure words="Remove" question="Its output goes too." yes="Remove for good" busy={remove.busy} onYes={() => void remove.run()} />
      </Needs>
      <ProblemBox problem={remove.problem} onClose={remove.clear} />
    </div>
  )
}
