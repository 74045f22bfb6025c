import { parseCursor } from './cursor.js'
import { ProtocolError } from './errors.js'

/**
 * The position of a reader, with the proof that no event is missing or repeated. An unreadable cursor is sent back unchanged,
 * and the proof then begins with the first event.
 */
export class Track {
  /** Of the last event; undefined if it is seq with tail. */
  private text: string | undefined = ''
  /** The seq of the last event and its epoch; both are valid if known is true. */
  seq = 0
  private epoch = ''
  private known = false
  /** The rest of the cursors of this epoch: most differ only in their seq and need not be parsed. */
  tail = ''

  /** @param filtered events are left out by their type, and seq grows by more than 1 */
  constructor(readonly filtered: boolean) {}

  /** The cursor to resume from; empty before the first event. */
  get cursor(): string {
    return (this.text ??= this.seq + this.tail)
  }

  /** The next seq, or 0 if only parsing tells. */
  get expected(): number {
    return this.known && !this.filtered && this.tail !== '' ? this.seq + 1 : 0
  }

  /** Moves to the expected event. */
  step(): void {
    this.seq++
    this.text = undefined
  }

  /** Begins at a cursor. */
  startAt(cursor: string): void {
    const parts = parseCursor(cursor)
    this.text = cursor
    this.known = parts !== undefined
    this.seq = parts?.seq ?? 0
    this.epoch = parts?.epoch ?? ''
    this.tail = parts ? `.${parts.epoch}.${parts.tag}` : ''
  }

  /** Moves to an event. It is false for a repeated one; one that does not follow the last one is an error. */
  advance(seq: number, cursor: string): boolean {
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

  /** Moves past filtered events, up to a bare cursor. It is false for one that is not new. */
  pass(cursor: string): boolean {
    const parts = parseCursor(cursor)
    if (!parts) {
      if (cursor === '') return false // an empty id has no meaning here
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
