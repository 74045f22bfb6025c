import {
  ConnectionError,
  ForeignError,
  InvalidError,
  ProblemError,
  RepriseError,
  askedWait,
  givenUp,
  isRetryable,
  isUnsent,
  type Problem,
} from './errors.js'
import { ForeignSpell } from './foreign.js'
import { part } from './part.js'
import { Failures, sleep, within } from './wait.js'

/**
 * Announces in a request that the loop sends receipts. In an answer it is the number of events and bytes that the server lets
 * lie without a receipt.
 */
export const receiptsHeader = 'Execution-Receipts'

/** One request, which can be sent more than once. */
export interface Request {
  /** For errors. */
  op: string
  method: string
  /** Escaped. */
  path: string
  query?: URLSearchParams
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** Forbids a retry of a request that may have arrived. */
  once?: boolean
  /** For requests that wait for an event: their attempts have no timeout. */
  patient?: boolean
  /** Limits one attempt, in place of the client's setting. */
  timeout?: number
  /** Carries a ticket in place of the token. */
  anonymous?: boolean
}

/** The options of a client, with its defaults. Times are in milliseconds. */
export interface Settings {
  base: string
  token: (() => string | Promise<string>) | undefined
  fetch: typeof fetch
  minWait: number
  maxWait: number
  /** Undefined if nothing was set. */
  giveUp: number | undefined
  timeout: number
  headers: Record<string, string>
  /** Gets the lines of a debug log. */
  log?: ((line: string) => void) | undefined
}

const defaultGiveUp = 30_000

/** The connection to a server: sends requests, and retries them if that may help. */
export class Caller {
  /** Whether the server has answered. */
  met = false

  constructor(readonly settings: Settings) {}

  /** Returns new Failures with the pauses of this client. */
  failures(): Failures {
    return new Failures(this.settings.minWait, this.settings.maxWait)
  }

  /** Sends a request until it is answered, and returns the JSON of the answer. */
  async json<T>(request: Request, signal?: AbortSignal): Promise<T> {
    return this.call(request, signal, async (response) => (await this.readJSON(response)).value as T)
  }

  /** Sends a request until it is answered, and returns the JSON text of the answer. */
  async text(request: Request, signal?: AbortSignal): Promise<string> {
    return this.call(request, signal, async (response) => (await this.readJSON(response)).text)
  }

  /** Sends a request until it is answered with 204. */
  async empty(request: Request, signal?: AbortSignal): Promise<void> {
    return this.call(request, signal, async (response) => {
      if (response.status !== 204) throw notOurs(response)
    })
  }

  /** Sends a request until read has processed a successful answer. */
  private call<T>(request: Request, signal: AbortSignal | undefined, read: (response: Response) => Promise<T>): Promise<T> {
    return this.tryAgain(request, signal, () => {
      const attempt = async (inner: AbortSignal | undefined) => {
        const response = await this.send(request, inner)
        await this.refuse(response)
        const value = await reading(read(response), inner)
        this.met = true
        return value
      }
      return request.patient ? attempt(signal) : within(request.timeout ?? this.settings.timeout, tooLate, signal, attempt)
    })
  }

  /** Calls attempt until it succeeds or a retry is pointless. */
  async tryAgain<T>(request: Request, signal: AbortSignal | undefined, attempt: () => Promise<T>): Promise<T> {
    const wait = this.failures()
    const spell = new ForeignSpell()
    for (;;) {
      signal?.throwIfAborted()
      try {
        return await attempt()
      } catch (error) {
        signal?.throwIfAborted()
        const pause = wait.next(askedWait(error))
        const { giveUp } = this.settings
        const again =
          spell.allows(error, this.met, giveUp, pause) ||
          (isRetryable(error) && !wait.outlasts(giveUp ?? defaultGiveUp, pause))
        if (!again || (request.once && !isUnsent(error))) throw givenUp(error, request.op, wait.tries)
        this.settings.log?.(`${request.op}: waiting ${Math.round(pause)} ms after attempt ${wait.tries}: ${error}`)
        await sleep(pause, signal)
      }
    }
  }

  /** Sends a request once and returns the answer, whatever its status. */
  async send(request: Request, signal: AbortSignal | undefined): Promise<Response> {
    const { settings } = this
    const query = request.query?.toString()
    const headers: Record<string, string> = {
      Accept: 'application/json',
      'Accept-Encoding': 'identity', // compressing proxies hold events back; a browser does not let us say so
      ...settings.headers,
      ...request.headers,
    }
    const token = request.anonymous ? undefined : await settings.token?.()
    if (token) headers['Authorization'] = `Bearer ${checkToken(token)}`
    const init: RequestInit = { method: request.method, headers, redirect: 'manual', cache: 'no-store' }
    if (request.body !== undefined) init.body = request.body as BodyInit
    if (signal) init.signal = signal
    const { log } = settings
    const what = log && `${request.method} ${settings.base}${request.path}` // the query may hold a ticket
    let response: Response
    try {
      response = await settings.fetch(settings.base + request.path + (query ? `?${query}` : ''), init)
    } catch (error) {
      log?.(`${what}: no answer: ${error}`)
      throw broken(error, signal, settings.base)
    }
    log?.(`${what}: status ${response.status}`)
    const coding = response.headers.get('Content-Encoding') ?? ''
    if (!decoded.test(coding) && response.ok) {
      response.body?.cancel().catch(ignore)
      throw unknownCoding(response.status, coding)
    }
    // The fetch of Deno decodes nothing if the request has Accept-Encoding.
    if ('Deno' in globalThis && response.body && /gzip|deflate/i.test(coding)) {
      const { inflated } = await part(import('./inflate.js'))
      return new Response(inflated(response.body, coding), response)
    }
    return response
  }

  /** Throws for an answer that is not a success. */
  async refuse(response: Response): Promise<void> {
    const { status } = response
    if (status >= 200 && status < 300) return
    if (status < 400) {
      response.body?.cancel().catch(ignore)
      const where = response.headers.get('Location')
      throw new ForeignError(status, status === 0 || where ? `a redirect to ${where ?? '?'}` : `status ${status}`, {
        cutShort: isCutShort(response),
      })
    }
    throw await problemOf(response, () => (this.met = true))
  }

  private async readJSON(response: Response): Promise<{ value: unknown; text: string }> {
    if (!hasType(response, 'application/json')) throw notOurs(response)
    const text = await response.text()
    try {
      return { value: JSON.parse(text), text }
    } catch (error) {
      // Where the length is not stated, a lost connection looks like this.
      throw new ConnectionError('the response is not complete JSON', { cause: error })
    }
  }
}

function ignore(): void {}

/** The content codings that fetch decodes, whether or not they were asked for. */
const decoded = /^((x-)?gzip|deflate|br|zstd|identity|none|[ ,])*$/i

/** The error for an answer in a content coding that the platform does not decode: a proxy compresses unasked. */
export function unknownCoding(status: number, coding: string): ForeignError {
  return new ForeignError(status, `the answer is compressed (${coding}), which was not asked for`)
}

const tooLate = () => new ConnectionError('the server takes too long to answer', { code: 'timeout' })

/** Makes errors of fetch our own while an answer is read. */
async function reading<T>(value: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  try {
    return await value
  } catch (error) {
    throw broken(error, signal)
  }
}

/** The error for a request or answer that failed: the reason, where it failed because signal was aborted. */
export function broken(error: unknown, signal: AbortSignal | undefined, url?: string): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof RepriseError) return error
  const cause = (error as { cause?: { code?: string; message?: string } }).cause
  // What Node says of a certificate; browsers do not tell.
  const terminal = /^(CERT_|ERR_TLS_CERT|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/.test(cause?.code ?? '')
  const message = (url ? `${url}: ` : '') + (error instanceof Error ? error.message : String(error))
  return new ConnectionError(cause?.message ? `${message}: ${cause.message}` : message, { cause: error, retryable: !terminal })
}

/** The error for a successful answer in a form that the server does not use. */
export function notOurs(response: Response): ForeignError {
  response.body?.cancel().catch(ignore)
  const type = response.headers.get('Content-Type')
  return new ForeignError(response.status, `not the protocol of Reprise: status ${response.status} with content type ${type}`, {
    cutShort: isCutShort(response),
  })
}

const ourTypes = ['text/event-stream', 'application/json', 'application/octet-stream']

/**
 * Reports whether an answer may be the beginning of a success. Chromium takes a header that ends with the connection for a whole one:
 * the status can lack digits, and the content type its end.
 */
function isCutShort({ status, headers, type: kind }: Response): boolean {
  const type = headers.get('Content-Type') ?? ''
  if (status >= 300 || kind === 'opaqueredirect') return false // a page is told no more of a redirect
  return (status > 0 && status < 100) || ourTypes.some((ours) => ours !== type && ours.startsWith(type))
}

/** Reports whether an answer has a media type, whatever its parameters. */
export function hasType(response: Response, want: string): boolean {
  return field(response, 'Content-Type').split(';')[0]!.trim().toLowerCase() === want
}

/** A header of an answer, empty if it has none. Something in front of the server may repeat it. */
export function field(response: Response, name: string): string {
  return (response.headers.get(name) ?? '').split(',')[0]!
}

const passing = [408, 425, 429, 500, 502, 503, 504]

async function problemOf(response: Response, met: () => void): Promise<Error> {
  const { status } = response
  const retryAfter = parseRetryAfter(response.headers.get('Retry-After'))
  if (hasType(response, 'application/problem+json')) {
    const sent = await problemBody(response)
    if (sent) {
      met()
      const { retry_after: after, ...members } = sent
      const wait = retryAfter ?? parseDuration(after)
      return new ProblemError({ ...members, status, ...(wait !== undefined && { retryAfter: wait }) })
    }
  } else {
    response.body?.cancel().catch(ignore)
  }
  return new ForeignError(status, `status ${status}, not from a Reprise server`, {
    retryable: passing.includes(status),
    retryAfter: retryAfter ?? 0,
  })
}

async function problemBody(response: Response): Promise<(Problem & { retry_after?: unknown }) | undefined> {
  try {
    const sent = (await response.json()) as Problem
    if (typeof sent?.code === 'string' && sent.code !== '') {
      return { ...sent, title: String(sent.title ?? ''), retryable: sent.retryable === true }
    }
  } catch {
    // Not JSON, or cut short: not ours.
  }
  return undefined
}

const day = 24 * 3600_000

/** Reads Retry-After, seconds or a date (RFC 9110, section 10.2.3), as milliseconds. */
export function parseRetryAfter(text: string | null): number | undefined {
  if (text === null) return undefined
  if (/^[0-9]+(,|$)/.test(text)) return Math.min(parseInt(text) * 1000, day)
  const date = Date.parse(text)
  return Number.isNaN(date) ? undefined : Math.min(Math.max(date - Date.now(), 0), day)
}

/** Reads a Go duration such as "1m30s" as milliseconds. */
export function parseDuration(text: unknown): number | undefined {
  if (typeof text !== 'string' || !/^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$/.test(text)) return undefined
  const units: Record<string, number> = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3600_000 }
  let total = 0
  for (const [, number, unit] of text.matchAll(/([0-9.]+)(ns|us|µs|ms|s|m|h)/g)) total += Number(number) * units[unit!]!
  return total
}

/** Refuses a token that a header cannot contain. */
function checkToken(token: string): string {
  if (!/^[!-~]*$/.test(token)) throw new InvalidError('the token cannot be a header')
  return token
}

/** Refuses names that would not arrive as one segment of a path, whether or not the server would accept them. */
export function checkName(op: string, name: string): void {
  if (name === '' || name === '.' || name === '..') throw givenUp(new InvalidError(`${JSON.stringify(name)} names nothing`), op, 0)
}

/** The path of an execution, interpreter, stream, session, task, watch or key, with what comes behind it. */
export function pathOf(kind: 'executions' | 'interpreters' | 'streams' | 'sessions' | 'tasks' | 'files/watches' | 'keys', name: string, rest = ''): string {
  return `/v1/${kind}/${encodeURIComponent(name)}${rest}`
}

/** A request with a body of JSON. */
export function jsonRequest(op: string, method: string, path: string, body: unknown): Request {
  let text: string | undefined
  try {
    text = JSON.stringify(body)
  } catch (error) {
    throw givenUp(new InvalidError(error instanceof Error ? error.message : String(error)), op, 0)
  }
  return { op, method, path, body: text ?? 'null', headers: { 'Content-Type': 'application/json' } }
}

/** Parameters, without those that are undefined or empty. */
export function parameters(values: Record<string, string | number | undefined>): URLSearchParams {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  return query
}
