import type { Caller } from './call.js'
import { parseCursor } from './cursor.js'
import { type FollowOptions, Follower, type Target } from './follow.js'

/** A position: the number of an event, and what follows it in the cursors of its epoch. */
export interface Place {
  seq: number
  tail: string
}

/** An event as pages hand it to each other. */
export interface Fed extends Place {
  wire: readonly [cursor: string, type: string, json: string]
}

/** What the page that leads tells the others. Without an `at` it does not lead any more. */
interface News {
  at: string
  ended: boolean
  events: Fed[]
}

/** Who is told of what a feed brings. */
export interface Hearer {
  take(events: Fed[]): void
  wake(): void
}

/** How often the page that leads says where it is. */
const beatEvery = 5_000
/** After so long without a word nobody leads. Timers of hidden pages come once a minute. */
const patience = 90_000

/** Reads `<seq>.<epoch>.<tag>` as a Place. */
export function placeOf(cursor: string): Place | undefined {
  const parts = parseCursor(cursor)
  return parts && { seq: parts.seq, tail: `.${parts.epoch}.${parts.tag}` }
}

/**
 * One stream for all loops of a page and, where there are Web Locks, all pages of its origin. The page that has the lock
 * leads: it follows the stream from its tail on and hands each event to the others. When it goes, the lock and with it the
 * lead go to another page, which follows from the last event that it has heard of.
 *
 * A feed may leave events out and tell them twice: who listens checks that numbers follow each other.
 */
export class Feed {
  /** How far the page that leads is; undefined if nobody does, or it has not said so yet. */
  at: Place | undefined
  /** Nobody leads. */
  leaderless = false
  /** The stream has ended. */
  ended = false
  private cursor = ''
  private leads = false
  private heard = performance.now()
  private readonly hearers = new Set<Hearer>()
  private readonly stop = new AbortController()
  private channel: BroadcastChannel | undefined
  private timer: ReturnType<typeof setInterval> | undefined

  private constructor(
    private readonly key: string,
    private readonly target: Target,
    private readonly options: FollowOptions,
  ) {}

  /** Joins the feed of a stream, which is opened for the first loop of a page. */
  static join(target: Target, options: FollowOptions, name: string, hearer: Hearer): Feed {
    const key = `reprise ${name} ${target.caller.settings.base}${target.path}`
    const feeds = feedsOf(target.caller)
    let feed = feeds.get(key)
    if (!feed) {
      feeds.set(key, (feed = new Feed(key, target, options)))
      feed.open()
    }
    feed.hearers.add(hearer)
    return feed
  }

  /** Closes the feed with the last loop that leaves it. */
  leave(hearer: Hearer): void {
    this.hearers.delete(hearer)
    if (this.hearers.size > 0 || this.stop.signal.aborted) return
    feedsOf(this.target.caller).delete(this.key)
    this.stop.abort(new Error('the feed was left'))
    clearInterval(this.timer)
    this.channel?.close()
  }

  private open(): void {
    this.timer = setInterval(() => this.beat(), beatEvery)
    ;(this.timer as { unref?: () => void }).unref?.() // in Node it keeps no program running
    const locks = typeof navigator === 'undefined' ? undefined : (navigator as { locks?: LockManager }).locks
    if (!locks || typeof BroadcastChannel === 'undefined') {
      void this.lead()
      return
    }
    this.channel = new BroadcastChannel(this.key)
    this.channel.onmessage = ({ data }: { data: News | 'hello' }) => this.hear(data)
    this.channel.postMessage('hello')
    locks.request(this.key, { signal: this.stop.signal }, () => this.lead()).catch(() => {}) // it was left
  }

  private beat(): void {
    if (this.leads) return this.tell([])
    if (!this.channel || performance.now() - this.heard < patience) return
    this.at = undefined
    this.leaderless = true
    this.wake()
  }

  private hear(news: News | 'hello'): void {
    if (news === 'hello') {
      if (this.leads && this.at) this.tell([])
      return
    }
    this.heard = performance.now()
    if (this.leads) return // what the page before had still to say
    this.move(news.at)
    this.leaderless = news.at === ''
    this.ended = news.ended
    this.hand(news.events)
  }

  private move(cursor: string): void {
    this.cursor = cursor || this.cursor
    this.at = placeOf(cursor)
    this.leaderless &&= this.at === undefined
  }

  /** Tells all loops of all pages. */
  private tell(events: Fed[]): void {
    const news: News = { at: this.at ? this.cursor : '', ended: this.ended, events }
    this.channel?.postMessage(news)
    this.hand(events)
  }

  private hand(events: Fed[]): void {
    if (events.length > 0) for (const hearer of this.hearers) hearer.take(events)
    this.wake()
  }

  private wake(): void {
    for (const hearer of this.hearers) hearer.wake()
  }

  /** Follows the stream for all, until the feed is left or the server refuses for good: each loop then asks for itself. */
  private async lead(): Promise<void> {
    this.leads = true
    const { signal } = this.stop
    const { ticket, idleTimeout } = this.options
    const target: Target = { ...this.target, onAnswer: () => this.begin(follower.position) }
    const follower = new Follower(target, {
      after: this.cursor || 'tail',
      signal,
      ...(ticket !== undefined && { ticket }),
      ...(idleTimeout !== undefined && { idleTimeout }),
    })
    try {
      await this.pass(follower)
      this.move(follower.position)
      this.ended = true
      this.tell([])
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    } catch {
      this.at = undefined
      this.leaderless = true
      if (!signal.aborted) this.tell([])
    } finally {
      this.leads = false
    }
  }

  private begin(cursor: string): void {
    if (this.at && this.cursor === cursor) return
    this.move(cursor)
    this.tell([])
  }

  /** Hands on what a follower yields, many events at a time where they have come together. */
  private async pass(follower: Follower): Promise<void> {
    let events: Fed[] = []
    for (;;) {
      let ready = false
      const next = follower.next()
      const note = () => (ready = true)
      next.then(note, note)
      await undefined
      await undefined
      if (!ready && events.length > 0) {
        this.tell(events)
        events = []
      }
      const { value: event, done } = await next.catch((error: unknown) => {
        this.tell(events)
        throw error
      })
      if (done) return this.tell(events)
      const { cursor } = event
      const place = placeOf(cursor)
      this.move(cursor)
      // Each loop finds out by itself what a gap means to it.
      if (place && event.type !== 'gap') events.push({ ...place, wire: event.wire })
    }
  }
}

/** The feeds of each client: one with another token may not see the same. */
const feeds = new WeakMap<Caller, Map<string, Feed>>()

function feedsOf(caller: Caller): Map<string, Feed> {
  let own = feeds.get(caller)
  if (!own) feeds.set(caller, (own = new Map()))
  return own
}
