import { useEffect, useRef, useState } from 'preact/hooks'
import { call, get, pathOf } from './api'
import { commandOf, randomID } from './format'
import { useAction, usePolled, useTitle } from './hooks'
import { Needs } from './may'
import { Field, ProblemBox, caret } from './parts'
import { hrefs } from './route'
import type { Execution, KeptRequest, StartRequest } from './wire'

/** Runs to look at, for somebody who is new. */
const samples: [string, string][] = [
  ['Count for a minute', 'for i in $(seq 1 600); do echo "line $i"; sleep 0.1; done'],
  [
    'Colours and a progress bar',
    `for i in 31 32 33 34 35 36; do printf '\\033[1;%dmcolour %d\\033[0m  日本語 ✓\\n' $i $i; done
for i in $(seq 1 50); do printf '\\r\\033[32m%3d%%\\033[0m ' $((i * 2)); printf '█%.0s' $(seq 1 $i); sleep 0.1; done; echo
echo 'this goes to stderr' >&2; exit 3`,
  ],
  ['5,000 lines a second', 'i=0; while [ $i -lt 60 ]; do seq -f "line %.0f of much output" $((i * 1000)) $((i * 1000 + 999)); i=$((i + 1)); sleep 0.2; done'],
  ['A shell', 'exec "${SHELL:-sh}"'],
  ['Ask for input', 'while printf "name? " && read -r name; do echo "hello $name"; done'],
]

/** An hour in milliseconds, in which a form is filled in. */
const hour = 3_600_000

/** A form that starts a run: an empty one, or that of a run that is there. */
export function StartPage({ again }: { again: string }) {
  const path = pathOf('executions', again)
  const { value, problem } = usePolled(async (signal) => (again ? Promise.all([get<Execution>(path, signal), get<KeptRequest>(`${path}/request`, signal)]) : undefined), hour, [path])
  useTitle('New run')
  return (
    <section class="page page-form">
      <h1>New run</h1>
      <ProblemBox problem={problem} />
      {(value || !again) && <Needs scope="run"><Form earlier={value?.[0]} kept={value?.[1]} /></Needs>}
    </section>
  )
}

function Form({ earlier, kept }: { earlier: Execution | undefined; kept: KeptRequest | undefined }) {
  const [command, setCommand] = useState(earlier ? commandOf(earlier) : '')
  const [id] = useState(randomID) // sent again with each try: a run whose answer was lost is not started twice
  const [open, setOpen] = useState(false)
  const [tty, setTTY] = useState(earlier?.tty !== undefined)
  const field = useRef<HTMLTextAreaElement>(null)
  useEffect(() => caret(field.current), [])
  const start = useAction(async (form: HTMLFormElement) => {
    const request = requestOf(new FormData(form), id, open, tty, kept?.request)
    if (earlier?.argv && command === commandOf(earlier)) {
      delete request.command
      request.argv = earlier.argv
    }
    const { id: started } = await call<Execution>('POST', '/v1/executions', request)
    location.hash = hrefs.execution(started)
  })
  return (
    <form
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit()
      }}
      onSubmit={(event) => {
        event.preventDefault()
        void start.run(event.currentTarget)
      }}
    >
      <label class="field">
        <span>Command, for a shell</span>
        <textarea
          name="command"
          class="mono"
          rows={5}
          required
          ref={field}
          spellcheck={false}
          value={command}
          onInput={(event) => setCommand(event.currentTarget.value)}
        />
      </label>
      <p class="samples">
        <span class="soft">Try:</span>
        {samples.map(([name, text]) => (
          <button
            type="button"
            class="chip"
            key={name}
            onClick={() => {
              setCommand(text)
              setOpen(text.includes('read'))
              setTTY(name === 'A shell')
              field.current?.focus()
            }}
          >
            {name}
          </button>
        ))}
      </p>
      <div class="columns">
        <Field name="cwd" label="Working directory" placeholder="the server's" mono value={earlier?.cwd} />
        <Field name="timeout" label="Timeout" placeholder="none, or 90s, 5m, 1h" value={earlier?.timeout} />
        <Field name="session" label="Session" placeholder="none" value={earlier?.session} />
        <Field name="labels" label="Labels" placeholder="branch=main team=core" value={textOf(earlier?.labels)} />
      </div>
      <label class="field">
        <span>Environment, one NAME=value a line</span>
        <textarea name="env" class="mono" rows={2} spellcheck={false} />
        {earlier?.env_names && <span class="soft">The earlier run had {earlier.env_names.join(', ')}, whose values are not shown.</span>}
      </label>
      <label class="check">
        <input type="checkbox" checked={tty} onChange={(event) => setTTY(event.currentTarget.checked)} />
        <span>In a terminal, for programs that draw on it or ask</span>
      </label>
      <label class="check">
        <input type="checkbox" checked={open || tty} disabled={tty} onChange={(event) => setOpen(event.currentTarget.checked)} />
        <span>Keep stdin open, to type into it</span>
      </label>
      {kept && <p class="soft">{restOf(kept)}</p>}
      <ProblemBox problem={start.problem} onClose={start.clear} />
      <p class="actions">
        <button type="submit" class="primary" disabled={start.busy}>
          {start.busy ? 'Starting…' : 'Run'}
        </button>
        <a class="button" href={hrefs.executions()}>
          Back
        </a>
        <span class="soft">Ctrl+Enter runs it</span>
      </p>
    </form>
  )
}

/** Labels as the form takes them. */
const textOf = (labels: Record<string, string> | null | undefined) => Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`).join(' ')

/** What is said of what the form does not show. */
function restOf({ missing }: KeptRequest): string {
  const gone = missing.filter((name) => !name.startsWith('env'))
  const kept = 'Isolation, network, limits and kept files are those of the earlier run.'
  return gone.length === 0 ? kept : `${kept} The server has not kept all of its ${gone.join(', ')}.`
}

/** The request that the form describes; what it does not show is that of an earlier one. */
function requestOf(form: FormData, id: string, open: boolean, tty: boolean, earlier?: KeptRequest['request']): StartRequest {
  const text = (name: string) => String(form.get(name) ?? '').trim()
  const { argv: _argv, cwd: _cwd, timeout: _timeout, session: _session, labels: _labels, stdin_open: _open, tty: _tty, ...rest } = earlier ?? {}
  const request: StartRequest = { ...rest, id, command: text('command') }
  const env = pairs(text('env').split('\n'))
  const labels = pairs(text('labels').split(/\s+/))
  if (text('cwd')) request.cwd = text('cwd')
  if (text('timeout')) request.timeout = text('timeout')
  if (text('session')) request.session = text('session')
  if (Object.keys(env).length > 0) request.env = env
  if (Object.keys(labels).length > 0) request.labels = labels
  if (open || tty) request.stdin_open = true
  if (tty) request.tty = { cols: 100, rows: 30 }
  return request
}

function pairs(entries: string[]): Record<string, string> {
  const pairs = entries.filter((entry) => entry.trim() !== '').map((entry) => entry.trim().split(/=(.*)/s))
  return Object.fromEntries(pairs.map(([name, value]) => [name, value ?? '']))
}
