// Requests to the server that the page came from. The cookie of the login and its secret go with them.

import { loginHeader, theLogin } from './login'

/** A refusal in the server's words (RFC 9457), or in ours where the server was not reached. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly status: number,
    readonly retryable: boolean,
    readonly field = '',
    /** Milliseconds, 0 where the server has not said. */
    readonly retryAfter = 0,
  ) {
    super(detail || title)
  }
}

/** The problem behind anything that was thrown. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error
  return unreachable()
}

function unreachable(): Problem {
  return new Problem('unreachable', 'The server does not answer', 'It may be restarting, or the network is gone.', 0, true)
}

const passing = [408, 425, 429, 500, 502, 503, 504]

/** The headers of a request with the secret of the login, unless it has a credential of its own. */
export function withLogin(init: HeadersInit = {}): Headers {
  const headers = new Headers(init)
  if (theLogin.secret !== '' && !headers.has('Authorization')) headers.set(loginHeader, theLogin.secret)
  return headers
}

/** Whoever wants to know that the login is no longer good, and why. */
let onLoggedOut: (why: Problem) => void = () => {}

export function watchLogin(loggedOut: (why: Problem) => void): void {
  onLoggedOut = loggedOut
}

/** Sends a request and returns the answer if it is a success. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response
  const headers = withLogin(init.headers)
  const sent = headers.get(loginHeader) ?? ''
  try {
    response = await fetch(path, { cache: 'no-store', redirect: 'error', ...init, headers })
  } catch (error) {
    if (init.signal?.aborted) throw error
    throw unreachable()
  }
  if (response.ok) return response
  const problem = await refusal(response)
  const own = !headers.has('Authorization') && path !== '/v1/login'
  // A newer login may have begun meanwhile.
  if (problem.code === 'unauthenticated' && own && sent === theLogin.secret) onLoggedOut(problem)
  throw problem
}

async function refusal(response: Response): Promise<Problem> {
  const seconds = Number(response.headers.get('Retry-After') ?? '')
  const wait = Number.isFinite(seconds) ? seconds * 1000 : 0
  try {
    const told = (await response.json()) as Record<string, unknown>
    if (typeof told.code === 'string') {
      const text = (name: string) => (typeof told[name] === 'string' ? (told[name] as string) : '')
      return new Problem(told.code, text('title'), text('detail'), response.status, told.retryable === true, text('field'), wait)
    }
  } catch {
    // Not ours: a proxy's page, or an answer that was cut short.
  }
  const detail = `Something in between answered with status ${response.status}.`
  return new Problem('foreign', 'That answer is not from Reprise', detail, response.status, passing.includes(response.status), '', wait)
}

/** The JSON of an answer. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await send(path, signal ? { signal } : {})).json()) as T
}

/** Exchanges a token for a login. */
export async function logIn(token: string): Promise<void> {
  theLogin.begin((await call<{ secret: string }>('POST', '/v1/login', { token })).secret)
}

/** Who sends a request. */
export interface Who {
  principal: string | null
  tenant: string
}

/** Whom a token stands for; without one, whom the login stands for. */
export async function whoIs(token?: string): Promise<Who> {
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` }
  return (await (await send('/v1/quota', { headers })).json()) as Who
}

/** Downloads a file of an execution. A link carries no secret, so it gets a ticket, which reads that execution alone. */
export async function download(execution: string, channel: 'stdout' | 'stderr'): Promise<void> {
  const { ticket } = await call<{ ticket: string }>('POST', '/v1/tickets', { execution, ttl: '1h' })
  const link = document.createElement('a')
  link.href = `${pathOf('executions', execution, `/${channel}`)}?ticket=${encodeURIComponent(ticket)}`
  link.download = `${execution}.${channel}`
  link.click()
}

/** Saves what an execution wrote on both channels, in the order in which the server got it. */
export async function downloadBoth(execution: string): Promise<void> {
  const parts: BlobPart[] = []
  const path = pathOf('executions', execution, '/events')
  for (let after = 'earliest', more = true; more; ) {
    const page = await get<EventPage>(`${path}?${new URLSearchParams({ after, limit: '1000', types: 'stdout,stderr' })}`)
    for (const { text, base64 = '' } of page.events) {
      parts.push(text ?? Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)))
    }
    after = page.next_cursor
    more = page.has_more
  }
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(parts))
  link.download = `${execution}.log`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

interface EventPage {
  events: { text?: string; base64?: string }[]
  next_cursor: string
  has_more: boolean
}

/** Sends JSON and returns what is answered; undefined for 204. */
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method }
  if (body !== undefined) {
    init.headers = { 'Content-Type': 'application/json' }
    init.body = JSON.stringify(body)
  }
  const response = await send(path, init)
  return (response.status === 204 ? undefined : await response.json()) as T
}

export const pathOf = (kind: 'executions' | 'streams' | 'sessions' | 'webhooks' | 'schedules', name: string, rest = '') =>
  `/v1/${kind}/${encodeURIComponent(name)}${rest}`
