import { Problem, problemOf, send } from './api'
import type { Ledger } from './ledger'
import { theLink } from './link'
import { Decoder, type Frame } from './sse'
import { type EventData, type Gap, type StreamEvent, seqOf } from './wire'

/** What a Follower is doing. */
export type Phase = 'connecting' | 'replaying' | 'live' | 'cut' | 'waiting' | 'ended' | 'failed'

/** Whom a Follower tells. */
export interface Listener {
  /** Events in their order, each once. They are durable, and many at a time while history is replayed. */
  events(batch: StreamEvent[]): void
  /** Events are gone; after the call the stream goes on. */
  gap(gap: Gap): void
  /** The phase or a count has changed. */
  changed(): void
}

/** Three heartbeats of the server: after that much silence a connection is dead. */
const silence = 45_000
/** How long events are handled before the browser may draw. */
const slice = 8
const longestWait = 8000
/** Why a connection was aborted that cut has closed. */
const cutShort = new Error('The connection was cut')
/** Why a connection was aborted that has done its work: the one that tabs share goes on after it. */
const handOver = new Error('The connection was handed over')

/**
 * Follows the events of one stream over as many connections as that takes, from the first event that is kept. It keeps the
 * cursor of the last event and resumes after it; the Ledger counts what came how.
 *
 * Where other tabs follow something too, it goes over to a connection that they share as soon as it has all there is, and
 * back to one of its own when that is lost.
 */
export class Follower {
  phase: Phase = 'connecting'
  problem: Problem | undefined
  /** When the next try is made, in milliseconds since the epoch, while waiting. */
  nextTry = 0
  cursor = ''

  private connection: AbortController | undefined
  private wake: (() => void) | undefined
  private stopped = false
  private failures = 0
  private retry = 0
  private readonly link = theLink()
  /** The stream as the shared connection names it. */
  private readonly of: string | undefined
  private together = false // the next connection is the shared one
  private shares = false

  constructor(
    readonly path: string,
    readonly ledger: Ledger,
    private readonly listener: Listener,
  ) {
    const [, kind, name] = /^\/v1\/(executions|streams)\/([\w.%-]+)\/events$/.exec(path) ?? []
    if (kind && name) this.of = `${kind}/${decodeURIComponent(name)}`
  }

  /** With how many other followers, in this tab and others, it shares its connection. */
  get sharedWith(): number {
    return this.shares && this.link ? this.link.followers - 1 : 0
  }

  /** Follows until the stream has ended, the server refuses for good, or stop is called. */
  async run(): Promise<void> {
    const entry = this.link?.enter(() => {
      if (this.phase === 'live' && !this.shares && this.mayShare) this.connection?.abort(handOver)
      this.listener.changed()
    })
    try {
      await this.loop()
    } finally {
      entry?.exit()
    }
  }

  private async loop(): Promise<void> {
    while (!this.stopped && this.phase !== 'ended' && this.phase !== 'failed') {
      if (this.phase === 'cut') {
        await this.pause(Number.POSITIVE_INFINITY)
        continue
      }
      try {
        await (this.together ? this.share() : this.connect())
      } catch (error) {
        await this.failed(error)
      }
    }
  }

  /** Closes the page's own connection and does not come back before resume. */
  cut(): void {
    if (this.phase === 'ended' || this.phase === 'failed') return
    this.enter('cut')
    this.connection?.abort(cutShort)
  }

  /** Connects again, at once. */
  resume(): void {
    if (this.phase !== 'cut' && this.phase !== 'waiting') return
    this.enter('connecting')
    this.wake?.()
  }

  stop(): void {
    this.stopped = true
    this.connection?.abort()
    this.wake?.()
  }

  private enter(phase: Phase): void {
    this.phase = phase
    this.listener.changed()
  }

  private async connect(): Promise<void> {
    const connection = new AbortController()
    this.connection = connection
    this.enter('connecting')
    const headers: Record<string, string> = { Accept: 'text/event-stream' }
    if (this.cursor) headers['Last-Event-ID'] = this.cursor
    let timer = setTimeout(() => connection.abort(), silence)
    try {
      const response = await send(`${this.path}?gap=event`, { headers, signal: connection.signal })
      if (response.status === 204 && response.headers.has('Stream-Outcome')) {
        this.enter('ended') // everything was received before
        return
      }
      if (!response.body) throw new Problem('foreign', 'That answer is not from Reprise', '', response.status, true)
      const tail = seqOf(response.headers.get('Stream-Tail'))
      if (tail === 0) this.cursor ||= response.headers.get('Stream-Tail') ?? ''
      this.ledger.connected(tail)
      this.phase = this.ledger.last < tail ? 'replaying' : 'live'
      this.listener.changed()
      const decoder = new Decoder()
      const reader = response.body.getReader()
      for (;;) {
        const { value, done } = await reader.read()
        if (done) break
        clearTimeout(timer)
        this.failures = 0
        decoder.push(value)
        if (!(await this.handle(() => decoder.next(), tail, connection.signal))) return
        if (this.phase === 'live' && this.mayShare) throw handOver
        timer = setTimeout(() => connection.abort(), silence)
      }
      this.retry = decoder.retry ?? this.retry
      throw new Problem('disconnected', 'The connection ended before the stream', '', 0, true)
    } finally {
      clearTimeout(timer)
      connection.abort()
    }
  }

  private get mayShare(): boolean {
    return this.link !== undefined && this.link.followers > 1 && this.of !== undefined && this.cursor !== ''
  }

  /** Follows over the connection that all tabs share, until it is lost. */
  private async share(): Promise<void> {
    this.together = false
    const connection = new AbortController()
    this.connection = connection
    const seat = this.link!.join(this.of!, this.cursor)
    this.shares = true
    let timer: ReturnType<typeof setTimeout> | undefined
    let tail = 0
    try {
      for (;;) {
        timer = setTimeout(() => connection.abort(), silence)
        const news = await seat.next(connection.signal)
        clearTimeout(timer)
        if (news.kind === 'lost') throw new Problem('disconnected', 'The shared connection ended before the stream', '', 0, true)
        this.failures = 0
        if (news.kind === 'head') {
          tail = seqOf(news.tail)
          this.ledger.renewed(tail)
          this.enter(this.ledger.last < tail ? 'replaying' : 'live')
          continue
        }
        const frames = news.frames.values()
        if (!(await this.handle(() => frames.next().value, tail, connection.signal))) return
        seat.handled(news.size)
      }
    } finally {
      clearTimeout(timer)
      this.shares = false
      seat.leave(connection.signal.reason === cutShort)
    }
  }

  /** Hands on what has arrived. It is false once the stream has ended. */
  private async handle(next: () => Frame | undefined, tail: number, signal: AbortSignal): Promise<boolean> {
    for (let more = true, ended = false; more; ) {
      more = false
      const batch: StreamEvent[] = []
      const until = performance.now() + slice
      for (let frame: Frame | undefined; (frame = next()); ) {
        if (frame.type === 'gap' && frame.id) {
          this.flush(batch)
          this.gap(frame)
        } else {
          ended ||= this.take(frame, batch)
        }
        if ((batch.length & 63) === 63 && performance.now() > until) {
          more = true
          break
        }
      }
      this.flush(batch)
      if (ended) {
        this.enter('ended')
        return false
      }
      if (this.phase === 'replaying' && this.ledger.last >= tail) this.enter('live')
      if (more) await yieldToBrowser()
      signal.throwIfAborted()
    }
    return true
  }

  /** Adds the event of a frame to the batch if it has not come before, and reports whether it is the end of the stream. */
  private take(frame: Frame, batch: StreamEvent[]): boolean {
    const data = eventOf(frame)
    if (!data || frame.id === undefined) return false
    if (this.ledger.event(data.seq)) {
      this.cursor = frame.id
      batch.push({ seq: data.seq, cursor: frame.id, type: frame.type, data })
    }
    return frame.type === 'end'
  }

  /** Hands on the batch, which is empty afterwards. */
  private flush(batch: StreamEvent[]): void {
    if (batch.length > 0) this.listener.events(batch.splice(0))
  }

  private gap(frame: Frame): void {
    const gap = JSON.parse(frame.data ?? '{}') as Gap
    if (gap.fork !== undefined) this.ledger.fork(seqOf(gap.fork), gap.taken_back ?? 0)
    else if (gap.code === 'cursor_ahead') this.ledger.fork(seqOf(frame.id), this.ledger.last - seqOf(frame.id))
    if (gap.missed > 0) this.ledger.gap(this.ledger.last + gap.missed)
    if (frame.id) this.cursor = frame.id
    this.listener.gap(gap)
  }

  private async failed(error: unknown): Promise<void> {
    if (this.stopped) return
    if (error === handOver || this.connection?.signal.reason === handOver) {
      this.together = true // nothing was lost
      return
    }
    this.ledger.disconnected()
    // No fault of the connection, so there is nothing to tell or to wait for: resume may have been called already.
    if (this.connection?.signal.reason === cutShort) return
    const problem = error instanceof DOMException ? new Problem('silent', 'The connection fell silent', '', 0, true) : problemOf(error)
    this.problem = problem
    if (!problem.retryable) {
      this.enter('failed')
      return
    }
    // The first try after a connection that was of use is made at once, later ones after a random part of a growing span.
    const span = this.failures === 0 ? 0 : Math.min(longestWait, 250 * 2 ** this.failures)
    const wait = Math.max(problem.retryAfter, this.failures === 0 ? 0 : Math.min(this.retry, 1000)) + Math.random() * span
    this.failures++
    this.nextTry = Date.now() + wait
    this.enter('waiting')
    await this.pause(wait)
    if (this.phase === 'waiting') this.phase = 'connecting'
  }

  /** Waits, or until resume or stop. */
  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = Number.isFinite(milliseconds) ? setTimeout(() => this.wake?.(), milliseconds) : undefined
      this.wake = () => {
        clearTimeout(timer)
        this.wake = undefined
        resolve()
      }
      if (this.stopped) this.wake()
    })
  }
}

/** The data of an event, undefined if something in front of the server has inserted it: its id and its seq are of one number. */
function eventOf({ id, data }: Frame): EventData | undefined {
  try {
    const event = JSON.parse(data ?? 'null') as EventData | null
    return event !== null && event.seq > 0 && event.seq === seqOf(id) ? event : undefined
  } catch {
    return undefined
  }
}

/** Lets the browser draw and handle input. Timers would be slow in a tab that nobody looks at. */
function yieldToBrowser(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel()
    channel.port1.onmessage = () => {
      channel.port1.close()
      resolve()
    }
    channel.port2.postMessage(0)
  })
}
