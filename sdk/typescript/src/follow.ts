import { type Request, broken, checkName, field, hasType, notOurs, parameters, receiptsHeader, unknownCoding } from './call.js'
import { isCursorText, parseCursor } from './cursor.js'
import {
  ConnectionError,
  ForeignError,
  GapError,
  ProblemError,
  ProtocolError,
  RepriseError,
  askedWait,
  givenUp,
  isRetryable,
} from './errors.js'
import { type Received, ReceivedEvent, decodeFrame } from './event.js'
import type { FollowOptions, Target } from './follow-options.js'
import { isForeignBlock } from './foreign-block.js'
import { ForeignSpell } from './foreign.js'
import { afterGap, asGap, gapBefore, isGapCode, startGap } from './gap.js'
import { Holding } from './held.js'
import { part } from './part.js'
import type { Receipts } from './receipts.js'
import { Saver } from './saver.js'
import { Series, SeriesEvent } from './series.js'
import { Decoder, type Frame } from './sse.js'
import { Track } from './track.js'
import { type Failures, type Linked, linked, sleep } from './wait.js'
import type { Gap } from './wire.js'

export type { Drop, FollowOptions, RunOptions, Target } from './follow-options.js'

/** The longest wait between connections that a server may ask for. */
const maxAsked = 3600_000

/**
 * How many consecutive responses may break the protocol before the loop gives up. One may be a damaged line, but a server with
 * a lasting defect must not be asked without end.
 */
const maxFaults = 3

/**
 * The age in milliseconds from which a heartbeat counts as a success. A comment at the very beginning does not: a server that
 * ends each connection after it would be asked again without a wait.
 */
const minProductive = 1000

/** How long a loop without `giveUp` tries to reach the server for the first time, in milliseconds. */
const firstContact = 10_000

/** Ends an iterator that was left. No caller receives it. */
const left = new RepriseError('connection', false, 'the loop was left')

/** One open response. */
interface Connection {
  scope: Linked
  reader: ReadableStreamDefaultReader<Uint8Array>
  decoder: Decoder
  /** Bytes of the body have come. */
  came?: boolean
}

/** One loop over the events of a stream. */
export class Follower implements AsyncIterator<Received, undefined> {
  private readonly scope: Linked
  private readonly track: Track
  private readonly saver: Saver
  private readonly wait: Failures
  private readonly spell = new ForeignSpell()
  private readonly silence: number
  private readonly holding: Holding
  /** How the last answer has ended: silent after its header, or before the stream. */
  private over: 'held' | 'ended' | undefined
  private readonly types: Set<string> | undefined

  private connection: Connection | undefined
  private busy: Promise<unknown> | undefined
  private begun = false
  private sent = false // a request was sent
  private refused = false // by the server
  private ended = false // the end event or a 204 of the server was received
  private finished = false
  /** The event that the program is handling. */
  private given: Received | undefined
  /** Events that were read but not yet yielded, and the index of the next one. */
  private series: Series | undefined
  private drawn = 0
  /** The frame that follows a gap, which is yielded first. */
  private held: Frame | undefined
  /** The gap before the first event, which is yielded first. */
  private firstGap: ReceivedEvent | undefined
  private saving: Promise<void> | undefined

  private retry = 0
  private faults = 0
  private tail = 0 // the seq of Stream-Tail of the response, until that has been reached
  private opened = 0 // when the current response began
  private live = false // the connection has delivered an event or a heartbeat
  private fromFirst = false // the reader has asked for all events from the first
  private ticket: string | undefined
  private ticketRefused = false
  /** Identifies this loop to a server that holds output back for it. */
  private hold: string | undefined
  /** Sent to a server that holds output back and asks for them. */
  private receipts: Receipts | undefined

  constructor(
    private readonly target: Target,
    private readonly options: FollowOptions,
  ) {
    this.scope = linked(options.signal)
    this.silence = options.idleTimeout ?? 45_000
    this.holding = new Holding(this.silence)
    this.types = options.types?.length ? new Set(options.types).add('end') : undefined
    this.track = new Track(this.types !== undefined)
    this.saver = new Saver(options.cursors, options.saveEvery ?? 100)
    this.wait = target.caller.failures()
  }

  /** The cursor to resume from; empty before it is known. */
  get position(): string {
    return this.track.cursor
  }

  next(): Promise<IteratorResult<Received, undefined>> {
    this.receipts?.handled(this.track.seq)
    const { series } = this
    if (series !== undefined && this.busy === undefined && this.options.cursors === undefined && !this.scope.aborted) {
      return Promise.resolve({ value: this.draw(series), done: false })
    }
    if (this.busy) {
      const again = () => this.next()
      return this.busy.then(again, again)
    }
    if (this.finished) return Promise.resolve({ value: undefined, done: true })
    let failure: { error: unknown } | undefined
    if (this.given !== undefined) {
      if (this.options.cursors) this.saving = this.saver.handled(this.given.cursor)
      this.given = undefined
    }
    if (this.connection && !this.saving && !this.scope.aborted) {
      try {
        const event = this.ready(this.connection)
        if (event) return Promise.resolve({ value: event, done: false })
      } catch (error) {
        failure = { error }
      }
    }
    const result = this.slow(failure)
    this.busy = result.then(
      () => (this.busy = undefined),
      () => (this.busy = undefined),
    )
    return result
  }

  /** Ends the loop. The last yielded event counts as not handled. */
  async return(): Promise<IteratorResult<Received, undefined>> {
    this.given = this.series = undefined
    if (!this.finished) {
      this.finished = true
      this.scope.abort(left)
      await this.busy
      await this.finish()
    }
    return { value: undefined, done: true }
  }

  /** Waits for the next event over as many connections as necessary. */
  private async slow(failure: { error: unknown } | undefined): Promise<IteratorResult<Received, undefined>> {
    try {
      const event = await this.advance(failure)
      if (this.finished) return { value: undefined, done: true }
      if (event) return { value: event, done: false }
      this.finished = true
      await this.finish()
    } catch (error) {
      if (this.finished) return { value: undefined, done: true } // return() was called and cleans up
      this.finished = true
      this.refused = error instanceof ProblemError
      await this.finish().catch(() => {}) // report the first error only
      throw error
    }
    return { value: undefined, done: true }
  }

  /** Writes the state of the loop to the debug log. */
  private state(name: string, detail = ''): void {
    this.target.caller.settings.log?.(`${this.target.op}: ${name} at ${this.track.cursor || 'the start'} ${detail}`)
  }

  private async finish(): Promise<void> {
    this.state('ended')
    this.disconnect()
    this.scope.unlink()
    await this.receipts?.stop()
    if (this.sent && !this.ended && !this.refused) await this.target.onLeft?.()
    await this.saver.flush()
  }

  private async advance(failure: { error: unknown } | undefined): Promise<Received | undefined> {
    if (!this.begun) {
      checkName(this.target.op, this.target.name)
      this.scope.signal.throwIfAborted()
      await this.begin()
      this.begun = true
    }
    for (;;) {
      if (this.saving) {
        const { saving } = this
        this.saving = undefined
        await saving
      }
      try {
        if (failure) throw failure.error
        this.scope.signal.throwIfAborted()
        if (this.ended) return undefined
        const connection = (this.connection ??= await this.connect())
        if (!connection) continue
        const event = this.ready(connection)
        if (event) return event
        if (!this.ended && !this.saving) await this.read(connection)
      } catch (error) {
        failure = undefined
        this.disconnect()
        this.scope.signal.throwIfAborted()
        await this.failed(error)
      }
    }
  }

  /** Determines the position to begin at. */
  private async begin(): Promise<void> {
    const { op, path, caller, start } = this.target
    let after: string
    try {
      after = await this.saver.load()
    } catch (error) {
      throw givenUp(error, op, 0)
    }
    if (after === '' && !start) after = this.options.after ?? ''
    if (after === '' || after === '0') {
      this.fromFirst = true
    } else if (after === 'tail') {
      // If a connection with after=tail were lost before its first event, the position of the tail would be lost with it.
      const query = parameters({ after: 'tail', limit: 1, ticket: await this.currentTicket() })
      const request: Request = { op, method: 'GET', path: `${path}/events`, query, anonymous: this.options.ticket !== undefined }
      const page = await caller.json<{ next_cursor: string }>(request, this.scope.signal)
      this.track.startAt(page.next_cursor)
      await this.saver.handled(page.next_cursor)
    } else if (after !== 'earliest') {
      if (!isCursorText(after)) throw givenUp(new RepriseError('cursor_malformed', false, 'the text is no cursor'), op, 0)
      this.track.startAt(after)
    }
  }

  /** Makes one request. Returns undefined if the stream has ended. */
  private async connect(): Promise<Connection | undefined> {
    const { caller, path, start } = this.target
    const scope = linked(this.scope.signal)
    const idle = this.watch(scope)
    try {
      const request = await this.request()
      this.sent = true
      this.state(this.holding.poll ? 'polling' : 'connecting')
      const response = await caller.send(request, scope.signal)
      await caller.refuse(response)
      if (response.status === 204 && response.headers.get('Stream-Outcome')) {
        this.ended = true // everything including the end was read before; without an outcome it is not from the server
        scope.unlink()
        return undefined
      }
      if (response.status !== 200 || !hasType(response, 'text/event-stream') || !response.body) throw notOurs(response)
      caller.met = true
      this.hold = field(response, 'Execution-Hold') || this.hold
      if (start?.headers?.[receiptsHeader] && !this.receipts && response.headers.has(receiptsHeader)) {
        const { Receipts } = await part(import('./receipts.js'))
        this.receipts = Receipts.wanted(caller, start, path, response.headers)
      }
      this.live &&= this.holding.poll !== undefined
      this.ticketRefused = false
      this.opened = performance.now()
      const tail = field(response, 'Stream-Tail')
      this.track.answered(tail)
      this.tail = parseCursor(tail)?.seq ?? 0
      this.firstGap = this.filteredStart(response)
      this.target.onAnswer?.()
      const reader = response.body.getReader()
      scope.signal.onabort = () => reader.cancel().catch(() => {}) // in Deno, a read does not always end with its request
      return { scope, reader, decoder: new Decoder({ onComment: () => this.heartbeat() }) }
    } catch (error) {
      const reason: unknown = scope.signal.aborted ? scope.signal.reason : error
      scope.unlink()
      scope.abort(left)
      throw reason
    } finally {
      clearTimeout(idle)
    }
  }

  private watch(scope: Linked): ReturnType<typeof setTimeout> {
    return setTimeout(() => {
      const { connection } = this
      this.over = connection && !connection.came ? 'held' : undefined
      const held = this.over ? ': a header came and no event, so a proxy may hold the answer back' : ''
      scope.abort(new ConnectionError(`the connection is silent${held}`, { code: 'timeout' }))
    }, this.silence)
  }

  /** Reads once. Time that the loop body takes does not count as silence. */
  private async read(connection: Connection): Promise<void> {
    const { scope, reader, decoder } = connection
    this.receipts?.drained()
    if (this.tail > 0 && this.track.seq >= this.tail) {
      this.tail = 0
      this.state('caught up')
    }
    this.saver.beginWait((error) => scope.abort(error))
    const idle = this.watch(scope)
    let chunk: Uint8Array | undefined
    try {
      chunk = (await reader.read()).value
    } catch (error) {
      throw broken(error, scope.signal)
    } finally {
      clearTimeout(idle)
      await this.saver.endWait()
    }
    scope.signal.throwIfAborted()
    if (!chunk) {
      this.over = 'ended'
      throw new ConnectionError('the connection ended before the stream')
    }
    connection.came = true
    if (chunk[0] === 0x28 && chunk[1] === 0xb5) throw unknownCoding(200, 'zstd') // not every platform decodes it
    this.receipts?.received(chunk.length)
    decoder.push(chunk)
  }

  private disconnect(): void {
    const { connection } = this
    this.connection = this.held = this.firstGap = this.series = undefined
    if (!connection) return
    if (connection.decoder.retry !== undefined) this.retry = Math.min(connection.decoder.retry, maxAsked)
    connection.scope.unlink()
    connection.scope.abort(left)
  }

  /** Returns the next event that was already read. */
  private ready({ decoder }: Connection): Received | undefined {
    if (this.firstGap) {
      const gap = this.firstGap
      this.firstGap = undefined
      return this.gap(gap)
    }
    for (;;) {
      const likely = this.nextLikely(decoder)
      if (likely) return likely
      const frame = this.held ?? decoder.next()
      this.held = undefined
      if (!frame) return undefined
      const event = this.frame(frame)
      if (event || this.saving || this.ended) return event
    }
  }

  /** Returns the next event if it has the most common form, without parsing it. */
  private nextLikely(decoder: Decoder): Received | undefined {
    const { expected, tail } = this.track
    if (!this.series) {
      if (expected === 0 || this.held) return undefined
      this.series = Series.take(decoder, expected, tail, this.options.parse)
      this.drawn = 0
      if (!this.series) return undefined
      this.progress()
    }
    return (this.given = this.draw(this.series))
  }

  private draw(series: Series): Received {
    const event = new SeriesEvent(series.first + this.drawn, series, this.drawn)
    if (++this.drawn === series.length) this.series = undefined
    this.track.step()
    return event
  }

  /** Handles one frame. Returns undefined if it yields no event. */
  private frame(frame: Frame): Received | undefined {
    if (frame.data === undefined || isMove(frame)) {
      if (this.track.pass(frame.id ?? '')) {
        this.progress()
        this.saving = this.saver.handled(this.track.cursor)
      }
      return undefined
    }
    if (isForeignBlock(frame, this.track)) return undefined
    const event = decodeFrame(frame, this.options.parse)
    if (event.type === 'gap') return this.track.isBehind(event) ? undefined : this.gap(event)
    if (this.fromFirst && this.track.cursor === '' && !this.types && event.seq > 1) {
      this.held = frame // an older server reports no gap before it, and no server one that was not asked for
      return this.gap(gapBefore(event))
    }
    if (!this.track.advance(event.seq, event.cursor)) return undefined
    this.progress()
    if (event.type === 'end') {
      this.ended = true
      this.disconnect()
    } else if (this.types && !this.types.has(event.type)) {
      this.saving = this.saver.handled(event.cursor)
      return undefined
    }
    this.given = event
    return event
  }

  /** Handles a gap event: the events after the cursor are no longer kept. */
  private gap(event: ReceivedEvent): ReceivedEvent {
    const gap = event.data as Gap
    if (!isGapCode(gap.code)) {
      const title = `the server refuses the cursor ${this.track.cursor}`
      throw new ProblemError({ status: 0, code: String((gap as { code: unknown }).code), retryable: false, title })
    }
    if (this.options.onGap === 'raise') throw new GapError(gap)
    const cursor = afterGap(event)
    // A server that reports the same gap each time must not be asked again at once.
    if (cursor === this.track.cursor) this.alive()
    else this.progress()
    this.track.startAt(cursor)
    this.fromFirst = false
    return (this.given = cursor === event.cursor ? event : event.movedTo(cursor))
  }

  /** The gap before the first event of a filtered reader. The first seq cannot show it. */
  private filteredStart(response: Response): ReceivedEvent | undefined {
    const earliest = field(response, 'Stream-Earliest')
    const seq = parseCursor(earliest)?.seq ?? 0
    // The server reports the gap by an event if that was asked for.
    if (this.options.onGap !== 'raise' && response.headers.has('Stream-Missed') && !this.target.start) return undefined
    if (!this.fromFirst || this.track.cursor !== '' || !this.types || seq === 0) return undefined
    return startGap(earliest, seq)
  }

  /** Handles a comment. The connection counts as useful once it is old enough. */
  private heartbeat(): void {
    this.holding.heartbeat()
    if (performance.now() - this.opened >= minProductive) this.wait.succeeded()
    this.alive()
  }

  /** Records that the connection was useful. */
  private progress(): void {
    this.wait.succeeded()
    this.faults = 0
    this.alive()
  }

  private alive(): void {
    if (this.live) return
    this.live = true
    this.state('live')
    this.options.onConnected?.()
  }

  /** Handles a failed connection: waits for the next attempt, or throws the error that ends the loop. */
  private async failed(error: unknown): Promise<void> {
    const { op, caller } = this.target
    const { giveUp, onDrop } = this.options
    const gap = asGap(error, this.track.cursor)
    if (gap) throw givenUp(gap, op, this.wait.tries + 1)
    const polled = this.holding.failed(this.over, this.live)
    this.over = undefined
    const { met } = caller
    const fault = error instanceof ProtocolError || (error instanceof ForeignError && error.status < 400 && !met)
    if (fault) this.faults++
    const pause = this.wait.next(Math.max(askedWait(error), this.retry))
    const again =
      this.spell.allows(error, met, giveUp, pause) ||
      isRetryable(error) ||
      (fault && this.faults < maxFaults) ||
      this.holding.refused(error) ||
      this.mayRenewTicket(error)
    if (!met && giveUp === undefined && error instanceof ConnectionError && this.wait.outlasts(firstContact, pause)) {
      throw givenUp(unreached(caller.settings.base, error, this.wait), op, this.wait.tries)
    }
    if (!again || this.wait.outlasts(giveUp, pause)) throw givenUp(error, op, this.wait.tries)
    const { since, tries } = this.wait
    if (!polled) {
      this.state('waiting', `${Math.round(pause)} ms after attempt ${tries}: ${error}`)
      onDrop?.({ error, lasting: performance.now() - since, tries, wait: pause, seq: this.track.seq, met })
    }
    await this.saver.flush() // the wait may be long
    await sleep(pause, this.scope.signal)
  }

  /** Builds the next request. */
  private async request(): Promise<Request> {
    const { op, path, start } = this.target
    const { cursor } = this.track
    const wait = this.holding.poll
    if (start && cursor === '' && !wait) return start
    const ticket = await this.currentTicket()
    const headers: Record<string, string> = { Accept: 'text/event-stream' }
    // With a ticket it stays a simple request, which needs no CORS preflight.
    if (cursor !== '' && ticket === undefined) headers['Last-Event-ID'] = cursor
    if (this.hold) headers['Execution-Hold'] = this.hold
    if (this.receipts) headers[receiptsHeader] = 'yes'
    const query = parameters({
      gap: this.options.onGap === 'raise' ? undefined : 'event',
      types: this.types && [...this.types].join(','),
      // Without a position, the server reports missing events at the start; earliest is what is kept, and no more is claimed.
      after: cursor === '' ? (this.fromFirst ? undefined : 'earliest') : ticket === undefined ? undefined : cursor,
      ticket,
      wait,
    })
    return { op, method: 'GET', path: `${path}/events`, query, headers, anonymous: ticket !== undefined }
  }

  private async currentTicket(): Promise<string | undefined> {
    const { ticket } = this.options
    if (typeof ticket !== 'function') return ticket
    try {
      return (this.ticket ??= await ticket())
    } catch (error) {
      throw error instanceof RepriseError ? error : new ConnectionError('no ticket', { cause: error })
    }
  }

  /** Reports whether a new ticket may help, and discards the refused one. */
  private mayRenewTicket(error: unknown): boolean {
    if (!(error instanceof ProblemError) || error.code !== 'unauthenticated') return false
    if (typeof this.options.ticket !== 'function' || this.ticketRefused) return false
    this.ticket = undefined
    this.ticketRefused = true
    return true
  }
}

/** The error of a loop whose server was never reached. */
function unreached(base: string, cause: ConnectionError, { tries, since }: Failures): ConnectionError {
  const seconds = Math.round((performance.now() - since) / 1000)
  const advice = 'check the URL and that the server runs; giveUp sets how long to wait for it'
  return new ConnectionError(`${base} was not reached in ${tries} attempts and ${seconds} s (${cause.message}): ${advice}`, { cause })
}

/** Reports whether frame only moves the cursor of a filtered reader. A published event of that type has a seq. */
function isMove(frame: Frame): boolean {
  return frame.type === 'cursor' && isObject(frame.data!) && !hasSeq(frame.data!)
}

/** Reports whether data is of an event of the server. */
function hasSeq(data: string): boolean {
  try {
    const seq = (JSON.parse(data) as { seq?: unknown } | null)?.seq
    return Number.isInteger(seq) && (seq as number) > 0
  } catch {
    return false
  }
}

function isObject(data: string): boolean {
  return data.startsWith('{') && data.endsWith('}')
}
