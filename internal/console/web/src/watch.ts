import { Activity } from './activity'
import { Follower, type Listener } from './follow'
import { Ledger } from './ledger'
import { Screen } from './lines/screen'
import type { EventData, Gap, StreamEvent } from './wire'
import { get } from './api'
import { type Window, seqOf } from './wire'
import type { Terminal } from './xterm/terminal'

/** One event in a list of events. What is shown of it is made when it is drawn. */
export interface EventRow {
  seq: number
  type: string
  time: string
  /** What follows the seq in its cursor. */
  suffix: string
  data: EventData
}

/** The newest events that a list keeps. */
const maxRows = 50_000
/** How often the tail is asked for while the page is away. */
const lookEvery = 500

/** Follows a stream and keeps what the page shows of it: lines of output, events, counts. */
export class Watch implements Listener {
  readonly ledger = new Ledger()
  readonly screen: Screen
  /** When which channel wrote. */
  readonly activity = new Activity()
  readonly follower: Follower
  /** What the program draws, where it runs in a terminal. The code that draws comes with the first one. */
  readonly terminal: Promise<Terminal> | undefined
  /** When the events of output were written, in milliseconds since 1970, in the places of their seqs. */
  private readonly times: number[] = []
  private base = 0 // the seq of the first of them
  rows: EventRow[] = []
  droppedRows = 0
  end: EventData | undefined

  private readonly listeners = new Set<() => void>()
  private suffix = ''
  private readonly decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  private looking: ReturnType<typeof setInterval> | undefined

  /** @param self the path of the execution or stream; @param tty the size of its terminal */
  constructor(
    private readonly self: string,
    tty?: { cols?: number; rows?: number },
  ) {
    this.screen = new Screen(tty?.rows)
    if (tty) this.terminal = import('./xterm/terminal').then(({ Terminal }) => new Terminal(tty.cols ?? 80, tty.rows ?? 24))
    this.follower = new Follower(`${self}/events`, this.ledger, this)
  }

  start(): void {
    void this.follower.run()
  }

  stop(): void {
    this.follower.stop()
    clearInterval(this.looking)
    this.listeners.clear()
    this.terminal?.then((terminal) => terminal.close(), () => {})
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** When the event with a seq was written, in milliseconds since 1970; NaN if that is not known. */
  timeOf(seq: number): number {
    return this.times[seq - this.base] ?? Number.NaN
  }

  /** The cursor just after the event with a seq. */
  cursorOf(seq: number): string {
    return `${seq}${this.suffix}`
  }

  events(batch: StreamEvent[]): void {
    for (const event of batch) {
      const dot = event.cursor.indexOf('.')
      // A copy of its own: a part of a string keeps the whole string in memory.
      if (!event.cursor.endsWith(this.suffix) || this.suffix === '') this.suffix = JSON.parse(JSON.stringify(event.cursor.slice(dot)))
      const { data, seq, type } = event
      if (this.rows.length === 0 && seq > 1) this.gap({ code: 'cursor_expired', missed: seq - 1 }) // not told to whoever asks for all
      this.rows.push({ seq, type, time: data.time, suffix: this.suffix, data })
      if (type === 'stdout' || type === 'stderr') {
        const text = this.text(data, type)
        this.screen.write(text, type, seq)
        this.activity.add(type, data.time, seq, text.length)
        this.base ||= seq
        this.times[seq - this.base] = Date.parse(data.time)
        const live = this.follower.phase === 'live'
        this.terminal?.then((terminal) => terminal.write(text, live), () => {}) // the panel says why there is none
      }
      if (type === 'end') this.end = data
    }
    this.trim()
    this.changed()
  }

  gap(gap: Gap): void {
    const atStart = this.rows.length === 0 && this.droppedRows === 0 && gap.code === 'cursor_expired'
    const gone = atStart ? `earlier ${gap.missed === 1 ? 'event is' : 'events are'} gone` : 'events are no longer kept'
    const lost = gap.missed > 0 ? `${gap.missed.toLocaleString('en')} ${gone}` : 'the stream goes on elsewhere'
    const back = gap.taken_back ? `; ${gap.taken_back.toLocaleString('en')} were taken back by a failover of the store` : ''
    const text = lost + back
    this.screen.note(`── ${text} ──`, this.ledger.last)
    const data = { ...gap, seq: 0, time: '', text }
    this.rows.push({ seq: 0, type: 'gap', time: '', suffix: this.suffix, data })
    this.changed()
  }

  changed(): void {
    const away = this.follower.phase === 'cut' || this.follower.phase === 'waiting'
    if (away && this.looking === undefined) this.looking = setInterval(() => void this.look(), lookEvery)
    if (!away) {
      clearInterval(this.looking)
      this.looking = undefined
    }
    for (const listener of this.listeners) listener()
  }

  /** Finds out, over another connection, how much is being missed. */
  private async look(): Promise<void> {
    try {
      const { window } = await get<{ window: Window }>(this.self)
      if (this.looking === undefined) return // the page is back: events of now were not missed
      this.ledger.moved(seqOf(window.tail))
      this.changed()
    } catch {
      // The server is away, or so is the stream: the follower finds out and tells.
    }
  }

  private text(data: EventData, channel: 'stdout' | 'stderr'): string {
    if (data.text !== undefined) return data.text
    const bytes = Uint8Array.from(atob(data.base64 ?? ''), (character) => character.charCodeAt(0))
    return this.decoders[channel].decode(bytes, { stream: true })
  }

  private trim(): void {
    if (this.rows.length < maxRows * 1.2) return
    const count = this.rows.length - maxRows
    this.rows = this.rows.slice(count)
    this.droppedRows += count
  }
}
