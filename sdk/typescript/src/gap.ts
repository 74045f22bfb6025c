import { formatCursor, parseCursor } from './cursor.js'
import { GapError, ProblemError } from './errors.js'
import { ReceivedEvent } from './event.js'
import type { Gap } from './wire.js'

/**
 * Reports whether a code refuses a position outside the window. The other refusals of a cursor, such as one of another
 * stream, are mistakes that must not be passed over.
 */
export function isGapCode(code: string): code is Gap['code'] {
  return code === 'cursor_expired' || code === 'epoch_changed' || code === 'cursor_ahead'
}

/**
 * The position from which the stream goes on after the notice of a gap: its cursor, or the fork if that is later. The events
 * up to the fork were received in the epoch before.
 */
export function afterGap(event: ReceivedEvent): string {
  const next = parseCursor(event.cursor)
  const fork = parseCursor((event.data as Gap).fork ?? '')
  return next && fork && fork.epoch === next.epoch && fork.seq > next.seq ? formatCursor(fork) : event.cursor
}

/** The notice of a gap before the first event that a reader without a cursor gets. */
export function gapBefore(first: ReceivedEvent): ReceivedEvent {
  const parts = parseCursor(first.cursor)
  const cursor = parts ? formatCursor({ ...parts, seq: first.seq - 1 }) : ''
  return startGap(cursor, first.seq - 1)
}

/** The notice of a gap at the start of a stream, in the form of the server's. */
export function startGap(earliest: string, missed: number): ReceivedEvent {
  return ReceivedEvent.gap(earliest, { code: 'cursor_expired', ...(earliest && { earliest }), missed })
}

/** Makes a GapError of a refused cursor; undefined if error is something else. */
export function asGap(error: unknown, asked: string): GapError | undefined {
  if (error instanceof GapError) return error
  if (!(error instanceof ProblemError) || !isGapCode(error.code)) return undefined
  const { earliest = '', tail = '', fork = '' } = error.problem
  const gap: Gap = { code: error.code, ...(earliest && { earliest }), ...(tail && { tail }), ...(fork && { fork }), missed: 0 }
  const from = parseCursor(asked)?.seq
  const first = parseCursor(earliest)?.seq
  if (from === undefined || first === undefined) return new GapError(gap) // cursors that cannot be read count nothing
  const shared = parseCursor(fork)?.seq ?? 0
  if (gap.code === 'cursor_expired') gap.missed = Math.max(first - from, 0)
  if (gap.code === 'epoch_changed') {
    gap.missed = Math.max(first - shared, 0)
    if (from > shared) gap.taken_back = from - shared
  }
  return new GapError(gap)
}
