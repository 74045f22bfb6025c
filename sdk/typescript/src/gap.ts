import { formatCursor, parseCursor } from './cursor.js'
import { GapError, ProblemError } from './errors.js'
import { ReceivedEvent } from './event.js'
import type { Gap } from './wire.js'

/**
 * Reports whether a code refuses a position outside the window. Other refusals of a cursor, such as one of another stream, are
 * mistakes of the caller and must be reported.
 */
export function isGapCode(code: string): code is Gap['code'] {
  return code === 'cursor_expired' || code === 'epoch_changed' || code === 'cursor_ahead'
}

/**
 * The position at which the stream continues after a gap event: its cursor, or the fork if that is later. The events up to the
 * fork were received in the previous epoch.
 */
export function afterGap(event: ReceivedEvent): string {
  const next = parseCursor(event.cursor)
  const fork = parseCursor((event.data as Gap).fork ?? '')
  return next && fork && fork.epoch === next.epoch && fork.seq > next.seq ? formatCursor(fork) : event.cursor
}

/** The gap event before the first event of a reader without a cursor. */
export function gapBefore(first: ReceivedEvent): ReceivedEvent {
  const parts = parseCursor(first.cursor)
  const cursor = parts ? formatCursor({ ...parts, seq: first.seq - 1 }) : ''
  return startGap(cursor, first.seq - 1)
}

/** The gap event at the start of a stream, in the form that the server sends. */
export function startGap(earliest: string, missed: number): ReceivedEvent {
  return ReceivedEvent.gap(earliest, { code: 'cursor_expired', ...(earliest && { earliest }), missed })
}

/** Converts a refused cursor to a GapError; returns undefined for any other error. */
export function asGap(error: unknown, asked: string): GapError | undefined {
  if (error instanceof GapError) return error
  if (!(error instanceof ProblemError) || !isGapCode(error.code)) return undefined
  const { earliest = '', tail = '', fork = '' } = error.problem
  const gap: Gap = { code: error.code, ...(earliest && { earliest }), ...(tail && { tail }), ...(fork && { fork }), missed: 0 }
  const from = parseCursor(asked)?.seq
  const first = parseCursor(earliest)?.seq
  if (from === undefined || first === undefined) return new GapError(gap) // unreadable cursors give no count
  const shared = parseCursor(fork)?.seq ?? 0
  if (gap.code === 'cursor_expired') gap.missed = Math.max(first - from, 0)
  if (gap.code === 'epoch_changed') {
    gap.missed = Math.max(first - shared, 0)
    if (from > shared) gap.taken_back = from - shared
  }
  return new GapError(gap)
}
