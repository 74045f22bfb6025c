import { parseCursor } from './cursor.js'
import { ProtocolError } from './errors.js'

/**
 * How far a reader is, and the proof that nothing is missing and nothing comes twice. A cursor that cannot be read is sent
 * back as it is, and the proof then begins with the first event.
 */
export class Track {
  /** What to resume from; empty before the first event. */
  cursor = ''
  /** The seq of the last event and its epoch; both are of use if known is true. */
  seq = 0
  private epoch = ''
  private known = false
  /** The tag that goes with epoch: most cursors differ in their seq alone, and need not be parsed. */
  private tail = ''

  /** @param filtered events are left out by their type, and seq grows by more than 1 */
  constructor(readonly filtered: boolean) {}

  /** Begins at a cursor. */
  startAt(cursor: string): void {
    const parts = parseCursor(cursor)
    this.cursor = cursor
    this.known = parts !== undefined
    this.seq = parts?.seq ?? 0
    this.epoch = parts?.epoch ?? ''
    this.tail = parts ? `.${parts.epoch}.${parts.tag}` : ''
  }

  /** Moves to an event. It is false for one that was seen before; one that does not follow the last one is an error. */
  advance(seq: number, cursor: string): boolean {
    if (seq === this.seq + 1 && this.known && !this.filtered && this.isOf(seq, cursor)) {
      this.seq = seq
      this.cursor = cursor
      return true
    }
    const parts = parseCursor(cursor)
    if (parts && parts.seq !== seq) throw new ProtocolError(`event ${seq} has the cursor of ${parts.seq}`)
    if (parts && this.isRenewed(parts.epoch) && seq <= this.seq) {
      throw new ProtocolError(`event ${seq} of another epoch comes after ${this.seq}`)
    }
    if (this.known && seq <= this.seq) return false
    if (this.known && !this.filtered && seq !== this.seq + 1) {
      throw new ProtocolError(`event ${seq} comes after ${this.seq}`)
    }
    this.startAt(cursor)
    this.seq = seq
    this.known = true
    return true
  }

  /** Reports whether cursor is that of seq in the same epoch. */
  private isOf(seq: number, cursor: string): boolean {
    const end = cursor.length - this.tail.length
    if (end < 1 || this.tail === '' || !cursor.endsWith(this.tail)) return false
    let n = 0
    for (let i = 0; i < end; i++) n = n * 10 + cursor.charCodeAt(i) - 48
    return n === seq && cursor.charCodeAt(0) !== 48
  }

  /** Moves past events that were left out, up to a bare cursor. It is false for one that leads nowhere new. */
  pass(cursor: string): boolean {
    const parts = parseCursor(cursor)
    if (!parts) {
      if (cursor === '') return false // an id that is reset means nothing to us
      if (!this.filtered) throw new ProtocolError(`the bare id ${JSON.stringify(cursor.slice(0, 60))}`)
      this.startAt(cursor)
      return true
    }
    if (this.isRenewed(parts.epoch) && parts.seq <= this.seq) {
      throw new ProtocolError(`the bare id ${cursor} of another epoch comes after ${this.seq}`)
    }
    if (this.known && parts.seq <= this.seq) return false
    if (!this.filtered && this.known) throw new ProtocolError(`the bare id ${cursor} leaves events out`)
    this.startAt(cursor)
    return true
  }

  /** Reports whether epoch is another one than that of the last event. The seq then goes on as within an epoch. */
  private isRenewed(epoch: string): boolean {
    return this.known && this.epoch !== '' && epoch !== this.epoch
  }
}
