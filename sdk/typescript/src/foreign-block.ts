import { parseCursor } from './cursor.js'
import { ConnectionError } from './errors.js'
import type { Frame } from './sse.js'
import type { Track } from './track.js'
import type { Gap } from './wire.js'

/**
 * Reports whether a block with data is not provably the server's: something in front of the server may insert blocks on each
 * connection, with any id. Such a block neither ends the loop nor moves the cursor. A block that claims to be the server's and is
 * damaged is not meant.
 */
export function isForeignBlock(frame: Frame, track: Track): boolean {
  const at = parseCursor(frame.id ?? '')
  if (at && track.owns(at.epoch) && frame.data!.startsWith(`{"seq":${at.seq},`)) return false // without parsing it
  const value = objectOf(frame.data!)
  const seq = value?.['seq']
  const isEvent = Number.isSafeInteger(seq) && (seq as number) > 0
  const isGap = frame.type === 'gap' && typeof value?.['code'] === 'string'
  if (!isEvent && !isGap && value !== undefined) return true // every event of the server has a seq
  const isStamped = isEvent && typeof value?.['time'] === 'string'
  if (!frame.id) return !isStamped // damaged, if it has what every event of the server has
  if (!at) return track.judges || (!isStamped && !isGap)
  if (value === undefined) return track.judges && (!track.owns(at.epoch) || !track.isNew(at.seq))
  if (!track.judges || track.owns(at.epoch)) return false
  if (isGap) {
    const { code, earliest = '' } = value as unknown as Gap // it may be what brings a new epoch
    return code !== 'epoch_changed' || parseCursor(earliest)?.epoch !== at.epoch
  }
  if (track.doubts(frame.id, seq)) throw new ConnectionError('the epoch of the stream may have changed')
  return at.seq !== seq || !track.follows(at.seq)
}

/** The members of data, none if it is JSON of another kind, and undefined if it is no JSON. */
function objectOf(data: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return undefined
  }
}
