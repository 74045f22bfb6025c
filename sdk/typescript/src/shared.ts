import { InvalidError, RepriseError } from './errors.js'
import { type Received, ReceivedEvent } from './event.js'
import { Feed, type Fed, type Hearer, type Place, placeOf } from './feed.js'
import { type FollowOptions, Follower, type Target } from './follow.js'
import type { Follow } from './loop.js'
import { Saver } from './saver.js'
import { type Linked, linked } from './wait.js'

/** How connections are shared. */
export interface ShareOptions {
  /** Keeps pages apart that must not share, such as those of different users. Default: `default`. */
  name?: string
}

/**
 * Follows a stream over a connection that all loops of a page and all pages of its origin share. A browser opens six
 * connections to a server over HTTP/1.1: without this the seventh loop waits.
 *
 *     import { shared } from 'reprise/shared'
 *
 *     for await (const event of shared(reprise.follow(id, { after }))) ...
 *
 * Each loop has its own position, and first a connection of its own: the server decides whether it may read, and gives it
 * what it does not have. When it has caught up it gives that connection up. When the page whose connection is shared is
 * closed, another page takes its place, and each loop still gets each event once and in order. Where there are no Web Locks,
 * as in Node and in pages that came over plain HTTP from another machine, the loops of one page share.
 *
 * `onDrop` and `onConnected` tell of the loop's own connections alone.
 */
export function shared<E>(follow: Follow<E>, options: ShareOptions = {}): AsyncIterable<E> {
  const { target } = follow
  if (target.start) throw new InvalidError('call start(), then follow() with the id of the answer')
  return {
    [Symbol.asyncIterator]: () => {
      const loop = new SharedLoop(target, follow.options, options.name ?? 'default')
      return loop as unknown as AsyncIterator<E, undefined>
    },
  }
}

/**
 * How long a loop waits for an announcement of the leading page before it asks the server itself. If all loops asked at once,
 * they could occupy all connections of the browser, and the leader would wait for one while they wait for it. For the same
 * reason a loop without a leader gives up a connection that has delivered nothing for a while.
 */
const wordWithin = 10_000
const quietFor = 2_000

/** The most events of the feed that a slow loop holds; it asks the server for the rest. */
const maxHeld = 1_000

/** Ends a loop that was left. No caller receives it. */
const left = new RepriseError('connection', false, 'the loop was left')

/** One loop over a shared stream. */
class SharedLoop implements AsyncIterator<Received, undefined>, Hearer {
  private readonly scope: Linked
  private readonly saver: Saver
  private readonly types: Set<string> | undefined
  private feed: Feed | undefined
  private held: Fed[] = []
  private place: Place | undefined
  private cursor = ''
  /** Whether the server has let this loop read. */
  private admitted = false
  /** Whether the loop reads from the first event. */
  private fromFirst = false
  private solo: { follower: Follower; next?: Promise<IteratorResult<Received, undefined>> | undefined } | undefined
  private given: Received | undefined
  private aloneFrom = Infinity
  private quietFrom = Infinity
  private finished = false
  private busy: Promise<unknown> = Promise.resolve()
  private woken = () => {}

  constructor(
    private readonly target: Target,
    private readonly options: FollowOptions,
    private readonly name: string,
  ) {
    this.scope = linked(options.signal)
    this.scope.signal.addEventListener('abort', () => this.wake(), { once: true })
    this.types = options.types?.length ? new Set([...options.types, 'end', 'gap']) : undefined
    this.saver = new Saver(options.cursors, options.saveEvery ?? 100)
  }

  next(): Promise<IteratorResult<Received, undefined>> {
    const result = this.busy.then(() => this.step())
    this.busy = result.catch(() => {})
    return result
  }

  /** Ends the loop. The last yielded event counts as not handled. */
  async return(): Promise<IteratorResult<Received, undefined>> {
    this.given = undefined
    this.scope.abort(left)
    await this.busy
    await this.finish()
    return { value: undefined, done: true }
  }

  take(events: Fed[]): void {
    this.held = this.held.length + events.length > maxHeld ? [] : [...this.held, ...events]
  }

  wake(): void {
    this.woken()
  }

  private async step(): Promise<IteratorResult<Received, undefined>> {
    try {
      if (this.given && !this.finished) await this.saver.handled(this.given.cursor)
      const last = this.given
      this.given = undefined
      while (!this.finished && last?.type !== 'end') {
        const event = await this.advance()
        if (!event) break
        if (this.types && !this.types.has(event.type)) {
          await this.saver.handled(event.cursor)
          continue
        }
        this.given = event
        return { value: event, done: false }
      }
      await this.finish()
    } catch (error) {
      await this.finish().catch(() => {}) // report the first error only
      if (error !== left) throw error
    }
    return { value: undefined, done: true }
  }

  private async finish(): Promise<void> {
    if (this.finished) return
    this.finished = true
    this.feed?.leave(this)
    this.goTogether()
    this.scope.unlink()
    await this.saver.flush()
  }

  /** Waits for the next event, from the feed or from its own connection. */
  private async advance(): Promise<Received | undefined> {
    if (!this.feed) {
      this.cursor = await this.saver.load()
      this.scope.signal.throwIfAborted()
      this.fromFirst = this.cursor === '' && ['', '0', 'earliest'].includes(this.options.after ?? '')
      this.aloneFrom = performance.now() + wordWithin
      this.feed = Feed.join(this.target, this.options, this.name, this)
    }
    for (;;) {
      this.scope.signal.throwIfAborted()
      const fed = this.nextHeld()
      if (fed) {
        this.goTogether()
        return this.pass(ReceivedEvent.from(...fed.wire, this.options.parse))
      }
      const again = this.choose(this.feed)
      const woken = new Promise<undefined>((resolve) => (this.woken = () => resolve(undefined)))
      const timer = again < Infinity ? setTimeout(this.woken, again) : undefined
      const { solo } = this
      if (solo) solo.next ??= solo.follower.next()
      const result = await this.whileSaving(solo ? Promise.race([solo.next!, woken]) : woken).finally(() => clearTimeout(timer))
      if (!result) continue
      solo!.next = undefined
      this.quietFrom = performance.now() + quietFor
      if (result.done) return undefined // the stream has ended
      return this.pass(result.value)
    }
  }

  /** Waits, and saves handled cursors meanwhile. */
  private async whileSaving<T>(wait: Promise<T>): Promise<T> {
    this.saver.beginWait((error) => this.scope.abort(error))
    try {
      return await wait
    } finally {
      await this.saver.endWait()
    }
  }

  private pass(event: Received): Received {
    this.cursor = event.cursor
    this.place = placeOf(this.cursor)
    return event
  }

  /** Returns the event of the feed that follows the last one. */
  private nextHeld(): Fed | undefined {
    const { place, held } = this
    if (!place || !this.admitted) return undefined
    const at = held.findIndex(({ seq, tail }) => seq === place.seq + 1 && tail === place.tail)
    if (at < 0) return undefined
    this.held = held.slice(at + 1)
    return held[at]
  }

  /** Chooses between the feed and its own connection. Returns the milliseconds until the next look. */
  private choose(feed: Feed): number {
    const now = performance.now()
    if (!feed.at && !feed.leaderless && !feed.ended) {
      if (this.solo && this.admitted && now >= this.quietFrom) this.aloneFrom = now + wordWithin
      if (now < this.aloneFrom) {
        this.goTogether()
        return this.aloneFrom - now
      }
      this.goAlone()
      return this.admitted ? Math.max(this.quietFrom - now, 1) : Infinity
    }
    if (this.isBehind(feed)) this.goAlone()
    else this.goTogether()
    return Infinity
  }

  /** Reports whether the feed does not continue from the position of the loop. */
  private isBehind({ at, ended }: Feed): boolean {
    if (!this.admitted || !at || ended) return true
    if (!this.place && this.fromFirst && at.seq === 0) this.place = at // nothing was published yet
    return !this.place || this.place.tail !== at.tail || this.place.seq < at.seq
  }

  private goAlone(): void {
    if (this.solo) return
    const { types: _, cursors: __, after, ...options } = this.options
    const target = { ...this.target, onAnswer: () => this.admit(follower) }
    const follower: Follower = new Follower(target, {
      ...options,
      after: this.cursor || (after ?? ''),
      signal: this.scope.signal,
    })
    this.solo = { follower }
  }

  private goTogether(): void {
    const { solo } = this
    this.solo = undefined
    if (!solo) return
    solo.next?.catch(() => {})
    solo.follower.return().catch(() => {})
  }

  private admit(follower: Follower): void {
    this.admitted = true
    this.quietFrom = performance.now() + quietFor
    if (this.cursor === '' && follower.position !== '') {
      this.cursor = follower.position
      this.place = placeOf(this.cursor)
    }
    this.place ??= placeOf(this.cursor)
    this.wake()
  }
}
