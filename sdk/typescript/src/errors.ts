import type { Gap } from './wire.js'

/**
 * The base class of all errors of this client. The reason of an AbortSignal is thrown unchanged.
 *
 * `code` is stable. It is a code of the server, such as `not_found`, or one of the client: `invalid` (a request that was not
 * sent because it is invalid), `unproven` (nor was this one, see `UnprovenError`), `connection`, `timeout`, `protocol`, `foreign`
 * (the answer does not come from the server) and `file_changed` (during an upload or a download).
 */
export class RepriseError extends Error {
  readonly code: string
  /** Whether the same request may succeed later. */
  readonly retryable: boolean
  /** The failed operation, for example `follow execution 7f3k`. Empty until the client has given up. */
  op = ''
  /** The number of requests that were made. */
  tries = 0

  constructor(code: string, retryable: boolean, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = new.target.name
    this.code = code
    this.retryable = retryable
  }
}

/** The members of a problem (RFC 9457) as the server sends them. */
export interface Problem {
  status: number
  code: string
  retryable: boolean
  title: string
  detail?: string
  field?: string
  /** The exhausted quota and its owner: `principal`, `tenant` or `server`. */
  quota?: string
  quota_of?: string
  earliest?: string
  tail?: string
  fork?: string
  /** The number of bytes of an upload that the server has. */
  offset?: number
  /** Milliseconds. */
  retryAfter?: number
}

/** A refusal of the server. */
export class ProblemError extends RepriseError {
  readonly problem: Problem

  constructor(problem: Problem) {
    const { code, field, title, detail = title } = problem
    super(code, problem.retryable, `${code}: ${field && !detail.startsWith(field) ? `${field}: ` : ''}${detail || title}`)
    this.problem = problem
  }

  /** The HTTP status. */
  get status(): number {
    return this.problem.status
  }
}

/** Events are no longer kept, and `onGap` is `raise`. */
export class GapError extends RepriseError {
  readonly gap: Gap

  constructor(gap: Gap) {
    super(gap.code, false, gapMessage(gap))
    this.gap = gap
  }
}

function gapMessage(gap: Gap): string {
  if (gap.taken_back) {
    return `${gap.code}: the server has lost ${gap.taken_back} events up to the cursor, and ${gap.missed} after it are no longer kept`
  }
  if (gap.missed > 0) return `${gap.code}: ${gap.missed} events are no longer kept`
  if (gap.code === 'cursor_ahead') return `${gap.code}: the stream has fewer events than the cursor says`
  return `${gap.code}: the history after the cursor is no longer kept`
}

/** The network failed, the connection was silent for too long (`timeout`), or a response ended before its stream did. */
export class ConnectionError extends RepriseError {
  constructor(message: string, options?: { cause?: unknown; code?: 'connection' | 'timeout'; retryable?: boolean }) {
    super(options?.code ?? 'connection', options?.retryable ?? true, message, options)
  }
}

/** An answer violates the protocol: an invalid event, or a missing seq. */
export class ProtocolError extends RepriseError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('protocol', false, message, options)
  }
}

/** An answer is not from a Reprise server: a proxy's error page, a login page, a redirect. */
export class ForeignError extends RepriseError {
  readonly status: number
  /** Milliseconds, 0 if the answer does not say. */
  readonly retryAfter: number
  /**
   * The header of the answer may be incomplete.
   *
   * @internal
   */
  readonly cutShort: boolean

  constructor(status: number, message: string, options?: { retryable?: boolean; retryAfter?: number; cutShort?: boolean }) {
    super('foreign', options?.retryable ?? false, message)
    this.status = status
    this.retryAfter = options?.retryAfter ?? 0
    this.cutShort = options?.cutShort ?? false
  }
}

/**
 * A request was not sent. Its token comes from a file of this machine (`localToken` of reprise/node), and the program that listens at
 * the address does not prove that it knows the token.
 */
export class UnprovenError extends RepriseError {
  constructor(message: string) {
    super('unproven', false, message)
  }
}

/** An invalid request was not sent. */
export class InvalidError extends RepriseError {
  constructor(message: string) {
    super('invalid', false, message)
  }
}

/** Adds the operation and the number of attempts to the error of the last attempt. */
export function givenUp(error: unknown, op: string, tries: number): unknown {
  if (error instanceof RepriseError && error.op === '') {
    error.op = op
    error.tries = tries
    error.message = `${op}: ${error.message}`
  }
  return error
}

/** The wait that the server has asked for, in milliseconds. */
export function askedWait(error: unknown): number {
  if (error instanceof ProblemError) return error.problem.retryAfter ?? 0
  return error instanceof ForeignError ? error.retryAfter : 0
}

/** Reports whether a request that failed with error may succeed later unchanged. */
export function isRetryable(error: unknown): boolean {
  return error instanceof RepriseError && error.retryable
}

/** Reports whether error means that the request has changed nothing. A server whose store does not answer may have made the change. */
export function isUnsent(error: unknown): boolean {
  if (error instanceof ProblemError) return error.status === 429
  if (!(error instanceof ConnectionError)) return false
  const cause = (error.cause as { cause?: { code?: unknown; syscall?: unknown } } | undefined)?.cause
  return cause?.code === 'ECONNREFUSED' || cause?.syscall === 'connect' || cause?.code === 'UND_ERR_CONNECT_TIMEOUT'
}

/**
 * Reports whether a request had no effect: the server has refused its first attempt finally. An earlier one may have arrived, unless
 * the request itself is wrong. A server that has failed may have done what it was asked for.
 */
export function isDecided(error: unknown): error is ProblemError {
  return error instanceof ProblemError && !error.retryable && error.status < 500 && (error.tries < 2 || isWrong(error))
}

/** Reports whether the server would refuse the request at any time: it is invalid or too large. */
export function isWrong({ status }: ProblemError): boolean {
  return [400, 413].includes(status)
}

/** Errors are told by their code: the client may be of another copy of this package. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as { code?: string }).code ?? '')
}
