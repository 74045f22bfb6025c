/** How a range of events came to the page. */
export type PartKind = 'live' | 'replayed' | 'gap'

/** Events from one seq to another, both inclusive. */
export interface Part {
  kind: PartKind
  from: number
  to: number
}

/** What happened while the page had no connection. */
export interface Absence {
  /** The seq of the last event before it. */
  after: number
  /** The seq of the newest event that is known to exist. */
  tail: number
  /** How many of the events of the absence have come since. */
  replayed: number
  /** Told by gap events: they are no longer kept. */
  gone: number
}

/** More parts than anybody can see are one. */
const maxParts = 200

/**
 * Counts the events of one stream by their seq. Its sums prove that nothing is missing and nothing came twice: every seq from
 * `first` to `last` was received once or is part of a gap that the server has told.
 */
export class Ledger {
  received = 0
  live = 0
  replayed = 0
  /** Events that came although their seq had come before. They are not handed on. */
  duplicates = 0
  /** Events that are missing without a gap that says so. */
  holes = 0
  /** Gaps, and the events in them. */
  gaps = 0
  missed = 0
  takenBack = 0
  /** The seq from which on events were expected, and that of the newest one. */
  first = 0
  last = 0
  connections = 0
  parts: Part[] = []
  /** The absence that is under way or was the last. */
  absence: Absence | undefined

  private replayTo = 0

  /** Notes a connection at whose beginning the newest event had the seq tail. */
  connected(tail: number): void {
    this.connections++
    this.replayTo = tail
    if (this.absence) this.absence.tail = Math.max(this.absence.tail, tail)
  }

  /** Notes that another connection has taken the place of one that was not lost. */
  renewed(tail: number): void {
    this.connections++
    this.replayTo = tail
  }

  /** Notes that the connection was lost. One that is lost while it still replays belongs to the same absence. */
  disconnected(): void {
    const { absence } = this
    if (this.connections === 0 || (absence && this.last < absence.tail)) return
    this.absence = { after: this.last, tail: this.last, replayed: 0, gone: 0 }
  }

  /** Notes how far the stream has gone meanwhile. */
  moved(tail: number): void {
    if (this.absence && tail > this.absence.tail) this.absence.tail = tail
  }

  /** Counts an event. It is false for one that came before. */
  event(seq: number): boolean {
    if (this.first === 0) {
      this.first = 1
      if (seq > 1) this.gap(seq - 1) // the reader asked for all, and the server keeps less
    }
    if (seq <= this.last) {
      this.duplicates++
      return false
    }
    if (seq > this.last + 1) this.holes += seq - this.last - 1
    const replayed = seq <= this.replayTo
    if (replayed) this.replayed++
    else this.live++
    if (replayed && this.absence && seq > this.absence.after && seq <= this.absence.tail) this.absence.replayed++
    this.received++
    this.last = seq
    this.add(replayed ? 'replayed' : 'live', seq, seq)
    return true
  }

  /** Notes that the events up to the seq to are gone. */
  gap(to: number): void {
    if (this.first === 0) this.first = 1
    if (to <= this.last) return
    this.gaps++
    this.missed += to - this.last
    if (this.absence) this.absence.gone += to - this.last
    this.add('gap', this.last + 1, to)
    this.last = to
  }

  /** Notes that the stream goes on after fork and that what came after it is taken back. */
  fork(fork: number, takenBack: number): void {
    this.gaps++
    this.takenBack += takenBack
    this.last = Math.min(this.last, fork)
    for (let part: Part | undefined; (part = this.parts.at(-1)) && part.to > fork; ) {
      const count = part.to - Math.max(part.from - 1, fork)
      if (part.kind === 'gap') this.missed -= count
      else this.received -= count
      part.to -= count
      if (part.to < part.from) this.parts.pop()
    }
  }

  /** Reports whether every event from first to last was received once or is accounted for by a gap. */
  get whole(): boolean {
    return this.holes === 0 && (this.first === 0 || this.received + this.missed === this.last - this.first + 1)
  }

  private add(kind: PartKind, from: number, to: number): void {
    const part = this.parts.at(-1)
    if (part?.kind === kind && part.to === from - 1) {
      part.to = to
      return
    }
    this.parts.push({ kind, from, to })
    if (this.parts.length > maxParts) {
      const [first, second] = this.parts.splice(0, 2) as [Part, Part]
      this.parts.unshift({ kind: first.to - first.from > second.to - second.from ? first.kind : second.kind, from: first.from, to: second.to })
    }
  }
}
