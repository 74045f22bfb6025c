import { broken, Caller, parseRetryAfter } from './call.js'
import { ForeignError } from './errors.js'
import { within } from './wait.js'

/** Settings of requests to the application. Times are in milliseconds. */
export interface ApplicationOptions {
  headers?: Record<string, string>
  fetch?: typeof fetch
  /** How long a request that was lost is repeated, with the same key. Default: 30,000; 0: no retry. */
  giveUp?: number
  /** The limit of one attempt. Default: 30,000. */
  timeout?: number
}

/** A request of a page. */
export interface ApplicationRequest {
  url: string
  headers?: Record<string, string> | Headers | undefined
  /** Is sent by POST, as JSON. */
  body?: object
  signal?: AbortSignal | undefined
}

/** Statuses of a server that is away. 500 is none of them: it is an error of the application. */
const passing = [408, 425, 429, 502, 503, 504]

/** The server of the application, as a page asks it. */
export class Application {
  private readonly caller: Caller

  constructor(private readonly options: ApplicationOptions) {
    this.caller = new Caller({
      base: '',
      token: undefined,
      fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
      minWait: 250,
      maxWait: 5_000,
      giveUp: options.giveUp,
      timeout: options.timeout ?? 30_000,
      headers: {},
    })
  }

  /** Returns the JSON of the answer, or null for the status 204. A request that is lost, or whose answer is, is repeated. */
  ask<T>(op: string, request: ApplicationRequest): Promise<T | null> {
    const { settings } = this.caller
    const headers = new Headers(this.options.headers)
    new Headers(request.headers).forEach((value, name) => headers.set(name, value))
    const init: RequestInit = { headers }
    if (request.body) {
      headers.set('Content-Type', 'application/json')
      Object.assign(init, { method: 'POST', body: JSON.stringify(request.body) })
    }
    const attempt = async (signal: AbortSignal) => {
      try {
        const response = await settings.fetch(request.url, { ...init, signal })
        if (response.status === 204) return null
        const text = await response.text()
        if (response.ok) return JSON.parse(text) as T
        throw refusal(response, text)
      } catch (error) {
        throw broken(error, signal)
      }
    }
    const late = () => new ForeignError(0, 'the application takes too long to answer', { retryable: true })
    const caller = { op, method: init.method ?? 'GET', path: request.url }
    return this.caller.tryAgain(caller, request.signal, () => within(settings.timeout, late, request.signal, attempt))
  }
}

function refusal(response: Response, text: string): ForeignError {
  return new ForeignError(response.status, text || `the application answers with status ${response.status}`, {
    retryable: passing.includes(response.status),
    retryAfter: parseRetryAfter(response.headers.get('Retry-After')) ?? 0,
  })
}
