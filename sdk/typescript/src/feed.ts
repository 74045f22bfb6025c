import type { Caller } from './call.js'
import { parseCursor } from './cursor.js'
import { type FollowOptions, Follower, type Target } from './follow.js'

/** A position: the seq of an event, and the rest of its cursor, which is the same for all cursors of its epoch. */
export interface Place {
  seq: number
  tail: string
}

/** An event as pages pass it to each other. */
export interface Fed extends Place {
  wire: readonly [cursor: string, type: string, json: string]
}

/** A message of the leading page to the others. Without `at` the page no longer leads. */
interface News {
  at: string
  ended: boolean
  events: Fed[]
}

/** Receives what a feed delivers. */
export interface Hearer {
  take(events: Fed[]): void
  wake(): void
}

/** How often the leading page announces its position. */
const beatEvery = 5_000
/** The silence after which no page is considered to lead. Timers of hidden pages fire once a minute. */
const patience = 90_000

/** Parses `<seq>.<epoch>.<tag>` as a Place. */
export function placeOf(cursor: string): Place | undefined {
  const parts = parseCursor(cursor)
  return parts && { seq: parts.seq, tail: `.${parts.epoch}.${parts.tag}` }
}

/**
 * One stream for all loops of a page and, if Web Locks are available, for all pages of its origin. The page that holds the lock
 * leads: it follows the stream from its tail and passes each event to the others. When it closes, the lock goes to another
 * page, which leads and follows from the last event that it has received.
 *
 * A feed may omit or repeat events, so listeners check that seqs are contiguous.
 */
export class Feed {
  /** The position of the leading page; undefined if no page leads or it has not announced its position. */
  at: Place | undefined
  /** Whether no page leads. */
  leaderless = false
  /** Whether the stream has ended. */
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

  /** Joins the feed of a stream. The first loop of a page opens it. */
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

  /** Leaves the feed. The last loop closes it. */
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
    ;(this.timer as { unref?: () => void }).unref?.() // does not keep a Node program running
    const locks = typeof navigator === 'undefined' ? undefined : (navigator as { locks?: LockManager }).locks
    if (!locks || typeof BroadcastChannel === 'undefined') {
      void this.lead()
      return
    }
    this.channel = new BroadcastChannel(this.key)
    this.channel.onmessage = ({ data }: { data: News | 'hello' }) => this.hear(data)
    this.channel.postMessage('hello')
    locks.request(this.key, { signal: this.stop.signal }, () => this.lead()).catch(() => {}) // the feed was left
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
    if (this.leads) return // a late message of the previous leader
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

  /** Passes events to all loops of all pages. */
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

  /**
   * Follows the stream for all pages until the feed is left or the server refuses finally. In that case each loop asks the
   * server itself.
   */
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

  /** Passes on the events of a follower, in groups if they have arrived together. */
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
      // Each loop determines by itself what a gap means for it.
      if (place && event.type !== 'gap') events.push({ ...place, wire: event.wire })
    }
  }
}

/** The feeds of each client. Clients with different tokens may see different events. */
const feeds = new WeakMap<Caller, Map<string, Feed>>()

function feedsOf(caller: Caller): Map<string, Feed> {
  let own = feeds.get(caller)
  if (!own) feeds.set(caller, (own = new Map()))
  return own
}
