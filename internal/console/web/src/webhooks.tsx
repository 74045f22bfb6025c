import { useState } from 'preact/hooks'
import { call, get, pathOf } from './api'
import { copyText, count, moment, plural } from './format'
import { useAction, usePolled, useTitle } from './hooks'
import { Choice, Empty, Field, Heading, ProblemBox, Row, SearchField, Sure, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { Webhook } from './wire'

/** Servers that are told of ends and events. */
export function WebhooksPage() {
  const [text, setText] = useState('')
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<Webhook>()
  const { value, problem, again } = usePolled((signal) => get<{ webhooks: Webhook[] }>('/v1/webhooks', signal), 2000, [])
  useTitle('Webhooks')
  const wanted = text.toLowerCase()
  const rows = value?.webhooks.filter((hook) => [hook.url, coverOf(hook), stateOf(hook).words].join('\n').toLowerCase().includes(wanted)) ?? []
  return (
    <section class="page">
      <div class="bar">
        <h1>Webhooks</h1>
        <span class="soft" role="status">{value ? count(rows.length) : ''}</span>
        <SearchField label="Search webhooks" placeholder="Search address, source, state" text={text} onText={setText} />
        <button type="button" class="primary" aria-expanded={making} disabled={!value} onClick={() => setMaking(!making)}>
          New webhook
        </button>
      </div>
      <ProblemBox problem={problem} />
      {made?.secret && <Secret hook={made} onClose={() => setMade(undefined)} />}
      {making && (
        <Make
          onMade={(hook) => {
            setMaking(false)
            setMade(hook)
            again()
          }}
        />
      )}
      {rows.length > 0 && (
        <div class="table webhooks" role="table" aria-label="Webhooks" aria-rowcount={rows.length + 1}>
          <Heading names={['State', 'Address', 'Tells of', 'Sent', 'Last success']} />
          <VirtualRows rows={rows} height={36} label="Webhooks, newest first" keyOf={({ id }) => id} draw={(hook) => <Cells hook={hook} />} />
        </div>
      )}
      {value && rows.length === 0 && !making && (
        <Empty title={text === '' ? 'No webhooks yet' : 'Nothing matches'}>
          {text === '' && <p>A webhook tells another server when runs end or events are published, by signed requests that are sent until they arrive.</p>}
          {text === '' && <pre class="mono">reprise webhook add https://example.org/hook</pre>}
        </Empty>
      )}
    </section>
  )
}

function Cells({ hook }: { hook: Webhook }) {
  return (
    <>
      <span role="cell"><State hook={hook} /></span>
      <span role="cell" class="cell-command"><a class="mono" href={hrefs.webhook(hook.id)}>{hook.url}</a></span>
      <span role="cell" class="soft">{coverOf(hook)}</span>
      <span role="cell" class="number">{hook.progress ? sentOf(hook.progress) : '–'}</span>
      <span role="cell" class="soft cell-when"><When time={hook.progress?.succeeded ?? null} /></span>
    </>
  )
}

const sentOf = ({ sent, queued, dropped }: NonNullable<Webhook['progress']>) =>
  `${count(sent - dropped)}${queued > sent ? ` of ${count(queued - dropped)}` : ''}`

/** What it tells of, in words. */
function coverOf({ source, stream, prefix, types }: Webhook): string {
  if (source === 'executions') return prefix ? `ends of runs in sessions ${prefix}…` : 'ends of runs'
  const events = types.length > 0 ? `${types.join(', ')} of` : 'events of'
  if (stream) return `${events} ${stream}`
  return prefix ? `${events} streams ${prefix}…` : `${events} all streams`
}

function stateOf({ disabled, progress }: Webhook): { tone: string; words: string } {
  if (disabled) return { tone: 'dim', words: 'disabled' }
  if (progress?.failing) return { tone: 'bad', words: 'failing' }
  if (progress && progress.queued > progress.sent) return { tone: 'run', words: 'sending' }
  return { tone: 'good', words: 'on' }
}

function State({ hook }: { hook: Webhook }) {
  const { tone, words } = stateOf(hook)
  return (
    <span class={`state tone-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {words}
    </span>
  )
}

/** A secret, which nobody can see again. */
function Secret({ hook, onClose }: { hook: Webhook; onClose: () => void }) {
  const [copied, setCopied] = useState(false)
  return (
    <div class="notice" role="status">
      <div>
        <strong>The secret of this webhook is shown this once</strong>
        <p>The receiver checks signatures with it (Standard Webhooks). Keep it now; the server tells it to nobody again.</p>
        <code class="secret">{hook.secret}</code>
      </div>
      <span class="control">
        <button type="button" onClick={() => void copyText(hook.secret ?? '').then(() => setCopied(true))}>
          {copied ? 'Copied' : 'Copy'}
        </button>
        <button type="button" class="quiet" aria-label="Dismiss the secret" onClick={onClose}>
          ✕
        </button>
      </span>
    </div>
  )
}

function Make({ onMade }: { onMade: (hook: Webhook) => void }) {
  const make = useAction(async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? '').trim()
    const types = text('types').split(/[\s,]+/).filter(Boolean)
    const of = text('of')
    const body = {
      url: text('url'),
      source: text('source') === 'executions' ? 'executions' : 'streams',
      ...(of !== '' && { [text('source') === 'stream' ? 'stream' : 'prefix']: of }),
      ...(types.length > 0 && { types }),
    }
    onMade(await call<Webhook>('POST', '/v1/webhooks', body))
  })
  return (
    <form
      class="card"
      aria-label="New webhook"
      onSubmit={(event) => {
        event.preventDefault()
        void make.run(new FormData(event.currentTarget))
      }}
    >
      <Field name="url" label="Address of the receiver" placeholder="https://example.org/hook" mono required />
      <div class="columns">
        <Choice
          name="source"
          label="Tell of"
          of={[['executions', 'ends of runs'], ['streams', 'events of streams'], ['stream', 'events of one stream']]}
        />
        <Field name="of" label="Only these: name, or its beginning (for runs, of the session)" placeholder="all" mono />
      </div>
      <Field name="types" label="Types of events, for streams" placeholder="all" mono />
      <ProblemBox problem={make.problem} onClose={make.clear} />
      <p class="actions">
        <button type="submit" class="primary" disabled={make.busy}>Create</button>
        <span class="soft">It tells of what happens from now on.</span>
      </p>
    </form>
  )
}

/** One webhook: how far it is, and what can be done with it. */
export function WebhookPage({ id }: { id: string }) {
  const path = pathOf('webhooks', id)
  const { value: hook, problem, again } = usePolled((signal) => get<Webhook>(path, signal), 2000, [path])
  const [rotated, setRotated] = useState<Webhook>()
  const [told, setTold] = useState('')
  const act = useAction(async (rest: '/test' | '/rotate' | '/enable') => {
    setTold('')
    if (rest === '/test') {
      const { status, error } = await call<{ status: number; error?: string }>('POST', path + rest)
      setTold(error ? `The test failed: ${error}` : `The receiver has taken the test message: ${status}`)
    } else {
      const answer = await call<Webhook>('POST', path + rest)
      if (rest === '/rotate') setRotated(answer)
    }
    again()
  })
  const remove = useAction(async () => {
    await call('DELETE', path)
    location.hash = hrefs.webhooks
  })
  useTitle(hook?.url ?? 'Webhook')
  if (!hook) {
    return (
      <section class="page">
        {problem && <h1 class="mono">{id}</h1>}
        <ProblemBox problem={problem} />
        {problem && <p><a href={hrefs.webhooks}>All webhooks</a></p>}
      </section>
    )
  }
  const busy = act.busy || remove.busy
  return (
    <section class="page page-scroll">
      <header class="head">
        <div class="head-line">
          <h1 class="mono command" tabIndex={0}>{hook.url}</h1>
          <div class="control">
            {hook.disabled && <button type="button" class="primary" disabled={busy} onClick={() => void act.run('/enable')}>Enable</button>}
            <button type="button" disabled={busy} onClick={() => void act.run('/test')}>{act.busy ? 'Wait…' : 'Send a test'}</button>
            <button type="button" disabled={busy} onClick={() => void act.run('/rotate')}>New secret</button>
            <Sure words="Remove" question="What was not sent goes too." yes="Remove for good" busy={busy} onYes={() => void remove.run()} />
          </div>
        </div>
        <p class="facts">
          <State hook={hook} />
          <span>{coverOf(hook)}</span>
          <span class="soft">made <When time={hook.created} /></span>
        </p>
      </header>
      <ProblemBox problem={act.problem ?? remove.problem ?? problem} onClose={() => (act.clear(), remove.clear())} />
      {told && <p class="notice" role="status">{told}</p>}
      {rotated?.secret && <Secret hook={rotated} onClose={() => setRotated(undefined)} />}
      <dl class="details" aria-label="Details">
        <Row name="Disabled">{hook.disabled && `${hook.disabled.reason}, ${moment(hook.disabled.since)}`}</Row>
        <Row name="Failing since">{hook.progress?.failing && `${moment(hook.progress.failing)}: ${hook.progress.error ?? hook.progress.status ?? ''}`}</Row>
        <Row name="Sent">{hook.progress && `${plural(hook.progress.sent - hook.progress.dropped, 'message')} of ${count(hook.progress.queued)}`}</Row>
        <Row name="Dropped">{hook.progress && hook.progress.dropped > 0 && plural(hook.progress.dropped, 'message')}</Row>
        <Row name="Last success">{hook.progress?.succeeded && moment(hook.progress.succeeded)}</Row>
        <Row name="Belongs to">{hook.principal}</Row>
        <Row name="Secrets">
          {hook.secrets.map(({ created, expires }) => `of ${moment(created)}${expires ? `, good until ${moment(expires)}` : ''}`).join('; ')}
        </Row>
        <Row name="Id"><code>{hook.id}</code></Row>
      </dl>
    </section>
  )
}
