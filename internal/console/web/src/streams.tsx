import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, get, pathOf } from './api'
import { EventTable } from './events'
import { bytes, count } from './format'
import { useAction, usePolled, useTitle } from './hooks'
import { Needs } from './may'
import { Empty, Heading, Labels, ProblemBox, SearchField, VirtualRows, When } from './parts'
import { Retain } from './retain'
import { hrefs } from './route'
import { Strip } from './strip'
import { Watch } from './watch'
import type { Stream } from './wire'

/** The streams that are no executions. */
export function StreamsPage() {
  const [text, setText] = useState('')
  const { value, problem, again } = usePolled(
    (signal) => get<{ streams: Stream[]; next_cursor: string }>('/v1/streams?limit=1000', signal),
    2000,
    [],
  )
  useTitle('Streams')
  const wanted = text.toLowerCase()
  const rows = value?.streams.filter(({ name }) => name.toLowerCase().includes(wanted)) ?? []
  return (
    <section class="page">
      <div class="bar">
        <h1>Streams</h1>
        <span class="soft" role="status">{value ? `${count(rows.length)}${value.next_cursor ? '+' : ''}` : ''}</span>
        <SearchField label="Search streams" placeholder="Search names" text={text} onText={setText} />
        <Needs scope="publish"><NewStream again={again} /></Needs>
      </div>
      <ProblemBox problem={problem} />
      {rows.length > 0 && (
        <div class="table streams" role="table" aria-label="Streams" aria-rowcount={rows.length + 1}>
          <Heading names={['Name', 'Status', 'Labels', 'Events', 'Size', 'Created']} />
          <VirtualRows rows={rows} height={36} label="Streams, newest first" keyOf={({ name }) => name} draw={(s) => <Cells stream={s} />} />
        </div>
      )}
      {value && rows.length === 0 && (
        <Empty title={text === '' ? 'No streams yet' : 'Nothing matches'}>
          {text === '' && <p>Name one above, or publish to one: every line is an event.</p>}
          {text === '' && <pre class="mono">date | reprise publish clock</pre>}
        </Empty>
      )}
    </section>
  )
}

function Cells({ stream: s }: { stream: Stream }) {
  return (
    <>
      <span role="cell" class="cell-command">
        <a class="mono" href={hrefs.stream(s.name)}>{s.name}</a>
      </span>
      <span role="cell"><StreamState stream={s} /></span>
      <span role="cell" class="cell-labels"><Labels labels={s.labels} /></span>
      <span role="cell" class="number">{count(s.events)}</span>
      <span role="cell" class="number soft">{bytes(s.bytes)}</span>
      <span role="cell" class="soft cell-when"><When time={s.created} /></span>
    </>
  )
}

function StreamState({ stream: { status, outcome } }: { stream: Stream }) {
  const tone = status === 'open' ? 'run' : outcome === 'completed' ? 'good' : outcome === 'failed' ? 'bad' : 'dim'
  return (
    <span class={`state tone-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {outcome ?? status}
    </span>
  )
}

function NewStream({ again }: { again: () => void }) {
  const [name, setName] = useState('')
  const create = useAction(async () => {
    await call('PUT', pathOf('streams', name), {})
    again()
    location.hash = hrefs.stream(name)
  })
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault()
        void create.run()
      }}
    >
      <input
        class="mono"
        aria-label="Name of a new stream"
        placeholder="new stream"
        required
        autocomplete="off"
        spellcheck={false}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button type="submit" disabled={create.busy}>Create</button>
      <ProblemBox problem={create.problem} onClose={create.clear} />
    </form>
  )
}

/** The events of one stream, live, and a form that publishes to it. */
export function StreamPage({ name }: { name: string }) {
  const path = pathOf('streams', name)
  const { value: stream, problem, again } = usePolled((signal) => get<Stream>(path, signal), 2000, [path])
  const watch = useMemo(() => new Watch(path), [path])
  const known = stream !== undefined
  useEffect(() => {
    if (!known) return
    watch.start()
    return () => watch.stop()
  }, [watch, known])
  useTitle(name)
  return (
    <section class="page page-execution">
      <header class="head">
        <div class="head-line">
          <h1 class="mono command" tabIndex={0}>{name}</h1>
        </div>
        {stream && (
          <div class="facts-line">
            <p class="facts">
              <StreamState stream={stream} />
              <span>{count(stream.events)} kept, {bytes(stream.bytes)}</span>
              <span class="soft">created <When time={stream.created} /></span>
              <Labels labels={stream.labels} />
            </p>
            <Strip watch={watch} />
          </div>
        )}
        {stream && <Needs scope="control"><Retain path={path} again={again} /></Needs>}
      </header>
      <ProblemBox problem={problem ?? (watch.follower.phase === 'failed' ? watch.follower.problem : undefined)} />
      {stream && <div class="panel"><EventTable watch={watch} /></div>}
      {stream?.status === 'open' && <Needs scope="publish"><Publish path={path} again={again} /></Needs>}
    </section>
  )
}

const endings = ['completed', 'failed', 'cancelled']

/** Publishes an event, or ends the stream. What is valid JSON is sent as JSON, anything else as text. */
function Publish({ path, again }: { path: string; again: () => void }) {
  const [type, setType] = useState('message')
  const [text, setText] = useState('')
  const field = useRef<HTMLTextAreaElement>(null)
  const publish = useAction(async () => {
    await call('POST', `${path}/events`, { type: type || 'message', data: valueOf(text) })
    setText((now) => (now === text ? '' : now)) // what was typed meanwhile stays
    // From the button back to the field, but not out of another field that somebody has gone to meanwhile.
    if (!(document.activeElement instanceof HTMLInputElement)) field.current?.focus()
  })
  const end = useAction(async (outcome: string) => {
    await call('POST', `${path}/end`, { outcome })
    again()
  })
  return (
    <form
      class="bar input"
      onSubmit={(event) => {
        event.preventDefault()
        void publish.run()
      }}
    >
      <input class="mono type-field" aria-label="Type of the event" value={type} onInput={(event) => setType(event.currentTarget.value)} />
      <textarea
        ref={field}
        class="mono grow"
        rows={1}
        aria-label="Data of the event"
        placeholder='{"percent": 40}, or text'
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey) return
          event.preventDefault()
          event.currentTarget.form?.requestSubmit()
        }}
      />
      <button type="submit" class="primary" disabled={publish.busy}>Publish</button>
      <select
        aria-label="End the stream"
        disabled={end.busy}
        onChange={(event) => {
          const outcome = event.currentTarget.value
          event.currentTarget.value = ''
          if (outcome) void end.run(outcome)
        }}
      >
        <option value="">End as…</option>
        {endings.map((outcome) => <option key={outcome} value={outcome}>{outcome}</option>)}
      </select>
      <ProblemBox problem={publish.problem ?? end.problem} onClose={() => (publish.clear(), end.clear())} />
    </form>
  )
}

function valueOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
