import { Caller, type Request, type Settings, checkName, jsonRequest, parameters, pathOf, receiptsHeader } from './call.js'
import { InvalidError } from './errors.js'
import type { ExecutionEvent } from './event.js'
import { Follow, Run } from './loop.js'
import type { FollowOptions, RunOptions } from './follow.js'
import { Files } from './files.js'
import { randomID } from './id.js'
import { Interpreters } from './interpreters.js'
import { Keys } from './keys.js'
import type { OutputOptions } from './output.js'
import { type Page, type PageOptions, readPage } from './page.js'
import { Producer, type ProducerOptions } from './producer.js'
import { lazyStream, part } from './part.js'
import { Replicas, Sessions, Streams, Tasks, Tickets } from './resources.js'
import { Stdin, writeStdin } from './stdin.js'
import { within } from './wait.js'
import type {
  Change, Execution, ExecutionList, ExecutionQuery, NewEvent, Screen, StartRequest, StdinState,
} from './wire.js'

/** Returns a token. Its `fetch`, if it has one, sends all requests with it. */
export type TokenSource = (() => string | Promise<string>) & { readonly fetch?: typeof fetch }

/** Settings of a client. Times are in milliseconds. */
export interface Options {
  /** The URL of the server. Default: REPRISE_URL of the environment, in a page its origin, or http://127.0.0.1:7070. */
  url?: string | URL
  /**
   * Is sent with each request to `url`, and only there. A token with a `fetch` of its own, such as that of `localToken`, is sent by
   * that. Default: REPRISE_TOKEN of the environment, if it is set.
   */
  token?: string | TokenSource | undefined
  /** Sends the requests. Default: the platform's. */
  fetch?: typeof fetch
  /** Additional headers of each request. */
  headers?: Record<string, string>
  /**
   * Limits of the time before a request is retried: a random part of `minWait`, doubled with each failure up to `maxWait`, plus
   * the time that the server asks for. Defaults: 500 and 30,000.
   */
  minWait?: number
  maxWait?: number
  /**
   * How long a failing call is retried; following has its own setting. Default: 30,000, and 60,000 for answers that do not come
   * from the server, such as a proxy's 404, once the server has answered this client; 0: no retry.
   */
  giveUp?: number
  /**
   * Gets the lines of a debug log: requests, answers, states of loops, and causes of waits, but no token. Default: console.error if
   * REPRISE_LOG of the environment is `debug`, and otherwise nothing.
   */
  log?: (line: string) => void
  /** Limits one attempt of a call, except calls that wait for an event by design. Default: 30,000. */
  timeout?: number
}

/** Options of every call. */
export interface CallOptions {
  signal?: AbortSignal
}

/**
 * Talks to one server. It holds nothing open by itself and needs no close.
 *
 *     const reprise = new Reprise({ url, token })
 *     for await (const event of reprise.run({ argv: ['make', 'test'] })) {
 *       if (event.type === 'stdout') process.stdout.write(event.text)
 *       if (event.type === 'end') console.log(event.data.outcome)
 *     }
 */
export class Reprise {
  /** The URL of the server, without a slash at its end. */
  readonly url: string
  /** Streams that are not executions. */
  readonly streams: Streams
  /** Groups of executions. */
  readonly sessions: Sessions
  /** Tasks of clients of the Model Context Protocol. */
  readonly tasks: Tasks
  /** The servers that share the store. */
  readonly replicas: Replicas
  /** Tickets for pages that must not have a token. */
  readonly tickets: Tickets
  /** The files of a server with `--files`. */
  readonly files: Files
  /** API keys. */
  readonly keys: Keys
  /** Interpreters, which keep their state between runs. */
  readonly interpreters: Interpreters
  private readonly caller: Caller

  constructor(options: Options = {}) {
    const settings = settingsOf(options)
    this.url = settings.base
    this.caller = new Caller(settings)
    this.streams = new Streams(this.caller)
    this.sessions = new Sessions(this.caller)
    this.tasks = new Tasks(this.caller)
    this.replicas = new Replicas(this.caller)
    this.tickets = new Tickets(this.caller)
    this.files = new Files(this.caller)
    this.keys = new Keys(this.caller)
    this.interpreters = new Interpreters(this.caller, this)
  }

  /**
   * Yields the events of an execution in order, each once, until its end, over connections that break. The loop ends without an
   * error only after the end event. After an error, a break or a return, nothing of it is left running. Each loop over the
   * result begins again.
   */
  follow(id: string, options: FollowOptions = {}): Follow<ExecutionEvent> {
    return new Follow({ caller: this.caller, op: `follow execution ${id}`, name: id, path: pathOf('executions', id) }, options)
  }

  /**
   * Starts an execution and follows it; the answer to the start contains the first events. However often the connection breaks,
   * the command runs once. A second loop attaches to the same execution. `options.after` is ignored. A loop that is left before the
   * end, by a break, an error or `options.signal`, cancels the command, unless the request has an `id` or `options.detach` is set.
   * A request with a `key`, or with an `idempotencyKey` and no `id`, is refused, because the server chooses its id: call `start`,
   * then `follow`.
   */
  run(request: StartRequest, options: RunOptions = {}): Run {
    if (request.key || (request.idempotencyKey && !request.id)) throw new InvalidError('call start(), then follow() with the id of the answer')
    const { hold, ...members } = request
    const { id, start } = startRequest(members)
    start.query = parameters({ hold })
    const target = { caller: this.caller, op: `run execution ${id}`, name: id, path: pathOf('executions', id) }
    start.headers = { ...start.headers, Accept: 'text/event-stream' }
    // A loop over some types is not told when other events have passed.
    if (hold && !options.types?.length) start.headers[receiptsHeader] = 'yes'
    const onLeft = request.id || options.detach ? {} : { onLeft: () => this.abandon(id) }
    return new Run(id, { ...target, start, ...onLeft }, options)
  }

  /**
   * Starts an execution. It is retried after a lost connection, and the command still runs once, because every start has an id.
   * With a `key`, a retry attaches to the execution of the lost answer; if that has failed by then, it is started again.
   */
  start(request: StartRequest, options?: CallOptions): Promise<Execution> {
    if (request.hold) throw new InvalidError('hold is for run()')
    return this.caller.json(startRequest(request).start, options?.signal)
  }

  /** Returns the state of an execution. */
  async show(id: string, options?: CallOptions): Promise<Execution> {
    return this.caller.json(this.plain(`show execution ${id}`, 'GET', id), options?.signal)
  }

  /** Returns one page of executions, newest first. */
  list(query: ExecutionQuery = {}): Promise<ExecutionList> {
    const { session, status, limit, cursor, labels = {} } = query
    const search = parameters({ session, status, limit, cursor })
    for (const [key, value] of Object.entries(labels).sort()) search.append('label', `${key}=${value}`)
    return this.caller.json({ op: 'list executions', method: 'GET', path: '/v1/executions', query: search }, query.signal)
  }

  /** Returns one page of the events of an execution. A cursor outside the window is refused. */
  async page(id: string, options: PageOptions = {}): Promise<Page<ExecutionEvent>> {
    const op = `read execution ${id}`
    checkName(op, id)
    return readPage(this.caller, op, pathOf('executions', id), options)
  }

  /** Reads the bytes of a channel exactly as the command wrote them, over connections that break. */
  output(id: string, channel: 'stdout' | 'stderr', options: OutputOptions = {}): ReadableStream<Uint8Array> {
    return this.bytes(id, channel, options)
  }

  /**
   * Reads a kept file of an execution, over connections that break, and verifies its checksum before the end. {@link show}
   * lists the kept files as `artifacts`.
   */
  artifact(id: string, path: string, options: CallOptions = {}): ReadableStream<Uint8Array> {
    return this.bytes(id, `artifacts/${encodeURIComponent(path)}`, options)
  }

  /**
   * Returns a writer to the stdin of an execution that was started with `stdin_open` or `tty`. It begins at offset: 0, or the
   * length of the stdin in the request. Several writers may share one terminal: each has a name, `writer`, and its bytes are
   * counted separately.
   */
  stdin(id: string, options: { offset?: number; writer?: string; signal?: AbortSignal } = {}): Stdin {
    const { offset = 0, ...rest } = options
    return new Stdin(this.caller, id, offset, rest)
  }

  /**
   * Writes data to a command as the bytes from offset on, and with eof then closes its stdin. The server skips bytes before the
   * offset that it has accepted, so that a write can be repeated after a lost connection. At most 16 MiB.
   */
  async writeStdin(
    id: string,
    offset: number,
    data: string | Uint8Array,
    options: { eof?: boolean; writer?: string; signal?: AbortSignal } = {},
  ): Promise<StdinState> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    return writeStdin(this.caller, id, offset, bytes, options)
  }

  /** Sends a signal, for example `INT`. It is not sent again once it may have arrived, because two INTs differ from one. */
  async signal(id: string, name: string, options?: CallOptions): Promise<void> {
    const op = `signal execution ${id}`
    checkName(op, id)
    const request = jsonRequest(op, 'POST', pathOf('executions', id, '/signal'), { signal: name })
    return this.caller.empty({ ...request, once: true }, options?.signal)
  }

  /** Sets the size of the terminal of an execution that was started with `tty`. */
  async resize(id: string, cols: number, rows: number, options?: CallOptions): Promise<void> {
    const op = `resize execution ${id}`
    checkName(op, id)
    return this.caller.empty(jsonRequest(op, 'POST', pathOf('executions', id, '/resize'), { cols, rows }), options?.signal)
  }

  /**
   * Returns the screen of an execution's terminal, at its own size or another one. A page that shows `paint` and follows after
   * `cursor` shows the same as one that has followed from the start.
   */
  async screen(id: string, options: { cols?: number; rows?: number; signal?: AbortSignal } = {}): Promise<Screen> {
    const { cols, rows, signal } = options
    const request = this.plain(`show the screen of execution ${id}`, 'GET', id, '/screen')
    return this.caller.json({ ...request, query: parameters({ cols, rows }) }, signal)
  }

  /** Ends an execution: TERM, the grace period, then KILL to the whole tree. It does not wait for the end. */
  async cancel(id: string, options?: CallOptions): Promise<void> {
    return this.caller.empty(this.plain(`cancel execution ${id}`, 'POST', id, '/cancel'), options?.signal)
  }

  /**
   * Changes the retention and the labels of an execution, which may have ended; see {@link Streams.configure}. The request
   * that has started it still finds it.
   */
  async configure(id: string, change: Change, options?: CallOptions): Promise<Execution> {
    const op = `configure execution ${id}`
    checkName(op, id)
    return this.caller.json(jsonRequest(op, 'PATCH', pathOf('executions', id), change), options?.signal)
  }

  /** Removes an execution; a running one is cancelled first. */
  async remove(id: string, options?: CallOptions): Promise<void> {
    return this.caller.empty(this.plain(`remove execution ${id}`, 'DELETE', id), options?.signal)
  }

  /**
   * Returns a Producer for a stream, which must exist when it publishes. A type limits what it takes:
   *
   *     const producer = reprise.producer<{ type: 'token'; data: string } | { type: 'usage'; data: { tokens: number } }>('answer')
   */
  producer<E extends NewEvent = NewEvent>(stream: string, options?: ProducerOptions): Producer<E> {
    return new Producer<E>(this.caller, stream, options)
  }

  /** Cancels an execution by one request, for a loop that was left. */
  private async abandon(id: string): Promise<void> {
    const cancel = this.plain('', 'POST', id, '/cancel')
    const send = async (signal: AbortSignal) => (await this.caller.send(cancel, signal)).body?.cancel()
    await within(lastWord, () => undefined, undefined, send).catch(() => {})
  }

  /** Reads bytes of an execution. The code for that is loaded on first use. */
  private bytes(id: string, what: string, options: OutputOptions): ReadableStream<Uint8Array> {
    checkName(`read ${what} of execution ${id}`, id)
    return lazyStream(part(import('./output.js')).then(({ OutputReader }) => new OutputReader(this.caller, id, what, options)))
  }

  private plain(op: string, method: string, id: string, rest = ''): Request {
    checkName(op, id)
    return { op, method, path: pathOf('executions', id, rest) }
  }
}

/** Bounds what an abandoned loop does last, in milliseconds. */
const lastWord = 5000

/** The request of every attempt, with its id, '' with a key of either kind. */
function startRequest(request: StartRequest): { id: string; start: Request } {
  const { idempotencyKey, ...members } = request
  const id = members.id || (members.key || idempotencyKey ? '' : randomID())
  const start = jsonRequest(`start execution ${id || members.key || idempotencyKey}`, 'POST', '/v1/executions', id ? { ...members, id } : members)
  if (idempotencyKey) start.headers = { ...start.headers, 'Idempotency-Key': idempotencyKey }
  return { id, start }
}

function settingsOf(options: Options): Settings {
  const env = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env
  const origin = typeof document === 'undefined' ? undefined : location.origin
  const url = String(options.url ?? env?.['REPRISE_URL'] ?? origin ?? 'http://127.0.0.1:7070')
  const base = URL.canParse?.(url) === false ? undefined : new URL(url)
  if (!base || !/^https?:$/.test(base.protocol) || base.search || base.hash || base.username || base.password) {
    throw new InvalidError(`the server's URL ${JSON.stringify(url)} is not an http or https URL without a query`)
  }
  const token = options.token ?? env?.['REPRISE_TOKEN']
  const own = typeof token === 'function' ? token.fetch : undefined
  if (own && options.fetch) throw new InvalidError('the token has a fetch of its own: give the text of a token to use another one')
  const platform = own ?? options.fetch ?? globalThis.fetch
  return {
    base: base.href.replace(/\/+$/, ''),
    token: typeof token === 'string' ? () => token : token,
    fetch: (...args) => platform(...args), // some browsers refuse a fetch that is called as a method
    minWait: options.minWait ?? 500,
    maxWait: options.maxWait ?? 30_000,
    giveUp: options.giveUp,
    timeout: options.timeout ?? 30_000,
    headers: options.headers ?? {},
    log: options.log ?? (env?.['REPRISE_LOG'] === 'debug' ? (line) => console.error(`reprise: ${line}`) : undefined),
  }
}
