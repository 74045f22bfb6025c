import { parseCursor } from './cursor.js'
import { ProtocolError } from './errors.js'
import type { ReceivedEvent } from './event.js'
import type { Gap } from './wire.js'

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
  /** The epoch that the header of the present response names; empty if it names none. */
  private head = ''
  /** An epoch for which the server was asked. */
  private stranger = ''

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

  /** Notes the position of the tail in the header of a response. */
  answered(tail: string): void {
    this.head = parseCursor(tail)?.epoch ?? ''
  }

  /** Whether the epoch of the stream is known, so that owns tells something. */
  get judges(): boolean {
    return this.head !== '' || (this.known && this.epoch !== '')
  }

  /** Reports whether an epoch is one of this stream: that of the present response, or of the last event. */
  owns(epoch: string): boolean {
    return epoch !== '' && (epoch === this.head || (this.known && epoch === this.epoch))
  }

  /** Reports whether a seq is one that the reader does not have. */
  isNew(seq: number): boolean {
    return !this.known || seq > this.seq
  }

  /**
   * Reports whether an event of an epoch that the stream did not have may be the next one of it: the server continues in another
   * epoch without a gap if the reader has nothing that was lost.
   */
  follows(seq: number): boolean {
    return this.known && !this.filtered && seq === this.seq + 1
  }

  /**
   * Whether only the header of another response can tell a reader of some types, for whom a seq proves nothing, if an event of
   * another epoch is the server's. It is true once for an epoch.
   */
  doubts(cursor: string, seq: unknown): boolean {
    const parts = parseCursor(cursor)
    if (!this.filtered || !parts || this.owns(parts.epoch) || parts.seq !== seq) return false
    if (!this.isNew(parts.seq) || parts.epoch === this.stranger) return false
    this.stranger = parts.epoch
    return true
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

  /**
   * Reports whether a gap is before the reader's position, so that nothing is missing: the server has not received the cursor,
   * because a proxy does not pass on Last-Event-ID.
   */
  isBehind({ cursor, data }: ReceivedEvent): boolean {
    const parts = parseCursor(cursor)
    return (data as Gap).code === 'cursor_expired' && this.known && parts?.epoch === this.epoch && parts.seq <= this.seq
  }

  /**
   * Moves past filtered events, up to a bare cursor. It is false for one that is not new, and for an id that is not provably the
   * server's: the server sends bare ids to readers of some types alone.
   */
  pass(cursor: string): boolean {
    const parts = parseCursor(cursor)
    if (!this.filtered || !parts || !this.owns(parts.epoch)) return false
    if (this.isRenewed(parts.epoch) && parts.seq <= this.seq) {
      throw new ProtocolError(`the bare id ${cursor} of another epoch comes after ${this.seq}`)
    }
    if (this.known && parts.seq <= this.seq) return false
    this.startAt(cursor)
    return true
  }

  /** Reports whether epoch is another one than that of the last event. The seq then goes on as within an epoch. */
  private isRenewed(epoch: string): boolean {
    return this.known && this.epoch !== '' && epoch !== this.epoch
  }
}
