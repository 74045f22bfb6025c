import type { Reprise } from './client.js'
import { formatCursor, parseCursor } from './cursor.js'
import type { Producer } from './producer.js'
import type { NewEvent, Published, Retention } from './wire.js'

/** A JSON-RPC message. */
export type Message = object

/** Settings of EventStores. */
export interface EventStoresOptions {
  /** The prefix of the names of the streams. Default: `mcp`. */
  prefix?: string
  /** How much of a session is kept; the server's defaults apply to missing members. */
  retention?: Retention
  /** How long, in milliseconds, a session that was not ended is kept after its last message. Default: 3,600,000. */
  maxSilence?: number
}

/**
 * Event stores for the transports of the official TypeScript SDK of MCP, 1.x and 2.x, one for each session. The SDK would
 * give one store to all sessions, which would then be given each other's messages: its standalone stream has the same name in
 * each of them.
 *
 *     const stores = new EventStores(reprise)
 *     const sessionId = randomUUID()
 *     const eventStore = stores.session(sessionId)
 *     const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => sessionId, eventStore })
 *     transport.onclose = () => eventStore.end()
 *
 * The messages of a session are the events of one stream at the server, of which the type is the MCP stream. An event id is a
 * cursor, which is good for that session alone, and the name of the MCP stream.
 */
export class EventStores {
  private readonly prefix: string
  private readonly maxSilence: number
  private swept = performance.now()

  constructor(
    private readonly reprise: Reprise,
    private readonly options: EventStoresOptions = {},
  ) {
    this.prefix = options.prefix ?? 'mcp'
    this.maxSilence = options.maxSilence ?? 3600_000
  }

  /** Returns the store of a session. Two processes may have stores of one session, one after the other. */
  session(id: string): EventStore {
    if (performance.now() - this.swept > this.maxSilence / 4) {
      this.swept = performance.now()
      this.sweep().catch(() => {}) // the next one does what this one could not
    }
    return new EventStore(this.reprise, this.name(id), this.options.retention ?? {})
  }

  /** Reports whether messages of a session are kept. */
  async has(id: string): Promise<boolean> {
    try {
      return (await this.reprise.streams.show(this.name(id))).status === 'open'
    } catch (error) {
      if (isGone(error)) return false
      throw error
    }
  }

  /**
   * Ends the sessions that have been silent for longer than maxSilence, such as those of killed processes, and returns their
   * number. The server removes them like all ended streams. `session` does this in the background.
   */
  async sweep(): Promise<number> {
    let ended = 0
    for (let cursor = ''; ; ) {
      const page = await this.reprise.streams.list({ limit: 1000, cursor })
      for (const stream of page.streams) {
        if (stream.status !== 'open' || !stream.name.startsWith(`${this.prefix}/`)) continue
        if (Date.now() - (await this.lastMessage(stream)) < this.maxSilence) continue
        await this.reprise.producer(stream.name).end('cancelled').catch(ignoreGone)
        ended++
      }
      cursor = page.next_cursor
      if (cursor === '') return ended
    }
  }

  private async lastMessage(stream: { name: string; created: string; window: { tail: string } }): Promise<number> {
    const tail = parseCursor(stream.window.tail)
    if (tail && tail.seq > 0) {
      const after = formatCursor({ ...tail, seq: tail.seq - 1 })
      const page = await this.reprise.streams.page(stream.name, { after, limit: 1 }).catch((error: unknown) => {
        if (!hasCode(error, ...noPosition)) throw error // it says nothing of the session's silence
      })
      if (page?.events[0]) return page.events[0].time.getTime()
    }
    return Date.parse(stream.created)
  }

  private name(id: string): string {
    return `${this.prefix}/${id.replaceAll(/[^A-Za-z0-9._-]/g, (c) => `_${c.charCodeAt(0).toString(16)}_`)}`
  }
}

/** One message that waits to be stored. */
interface Waiting {
  event: NewEvent
  size: number
  done: (id: string) => void
  failed: (error: unknown) => void
}

/** What stands for a message that is too large to be kept. */
const tooLarge = { reprise: 'too_large' }

/** How much is stored by one request: the server takes 1 MiB. */
const maxBatch = 512 << 10
const maxMessage = 1000 << 10

/** The `eventStore` of the transport of one session; see EventStores. */
export class EventStore {
  private producer: Producer | undefined
  private waiting: Waiting[] = []
  private storing: Promise<void> | undefined
  private replaying: Promise<unknown> = Promise.resolve()

  /** @internal */
  constructor(
    private readonly reprise: Reprise,
    private readonly stream: string,
    private readonly retention: Retention,
  ) {}

  /**
   * Keeps a message of an MCP stream and returns its id. A message that is too large for the server is not kept: it is sent to
   * the client as usual, and a client that resumes before it is refused.
   */
  async storeEvent(streamId: string, message: Message): Promise<string> {
    const type = checkStream(streamId)
    const text = JSON.stringify(message)
    const kept = text.length < maxMessage / 3 || new TextEncoder().encode(text).length < maxMessage
    const id = await new Promise<string>((done, failed) => {
      this.waiting.push({ event: { type, data: kept ? message : tooLarge }, size: kept ? text.length : 0, done, failed })
      this.storing ??= this.storeAll()
    })
    // The transport sends a message itself unless a replay has, and it registers the connection of a replay when that is done.
    // A message that was stored while one runs must not come between.
    await this.replaying
    return `${id}:${streamId}`
  }

  /** Returns the MCP stream of an id; undefined for an id of another session or before the kept messages. */
  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    const { cursor, streamId } = split(eventId)
    if (cursor === '') return undefined
    try {
      await this.reprise.streams.page(this.stream, { after: cursor, limit: 1, types: [checkStream(streamId)] })
      return streamId
    } catch (error) {
      if (hasCode(error, ...noPosition)) return undefined
      throw error
    }
  }

  /** Sends the messages of an MCP stream after an id, in order, and returns the stream. */
  replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: never) => Promise<void> },
  ): Promise<string> {
    const replay = this.replay(lastEventId, send as (eventId: string, message: Message) => Promise<void>)
    const settled = replay.then(nextTask, nextTask)
    this.replaying = Promise.all([this.replaying, settled])
    return replay
  }

  /** Ends the session: the server removes its messages like those of all ended streams. */
  async end(): Promise<void> {
    await this.storing
    await this.reprise.producer(this.stream).end('completed').catch(ignoreGone)
  }

  private async replay(lastEventId: string, send: (id: string, message: Message) => Promise<void>): Promise<string> {
    const { cursor, streamId } = split(lastEventId)
    for (let after = cursor; ; ) {
      const page = await this.reprise.streams.page(this.stream, { after, limit: 1000, types: [checkStream(streamId)] })
      for (const event of page.events) {
        const message = event.data as Message
        if (isMark(message)) throw new Error('a message of this stream was too large to be kept')
        if (Object.keys(message).length > 0) await send(`${event.cursor}:${streamId}`, message) // {} only carries an id
      }
      if (!page.hasMore) return streamId
      after = page.nextCursor
    }
  }

  /** Stores what waits, many messages by one request. */
  private async storeAll(): Promise<void> {
    while (this.waiting.length > 0) {
      let size = 0
      let count = 0
      while (count < this.waiting.length && (count === 0 || size + this.waiting[count]!.size < maxBatch / 3)) {
        size += this.waiting[count++]!.size
      }
      const batch = this.waiting.splice(0, count)
      try {
        const ids = await this.publish(batch.map((waiting) => waiting.event))
        batch.forEach((waiting, i) => waiting.done(ids[i]!))
      } catch (error) {
        for (const waiting of batch) waiting.failed(error)
      }
    }
    this.storing = undefined
  }

  private async publish(events: NewEvent[]): Promise<string[]> {
    const published = await this.append(events).catch((error: unknown) => {
      if (!hasCode(error, 'not_found')) throw error
      this.producer = undefined // somebody has removed the stream
      return this.append(events)
    })
    const last = parseCursor(published.cursor ?? '')
    if (!last) throw new Error('the server has stored messages and does not say where')
    return events.map((_, i) => formatCursor({ ...last, seq: published.first + i }))
  }

  private async append(events: NewEvent[]): Promise<Published> {
    if (!this.producer) {
      await this.reprise.streams.create(this.stream, { retention: this.retention })
      this.producer = this.reprise.producer(this.stream)
    }
    return this.producer.publish(events)
  }
}

function isMark(message: Message): boolean {
  return (message as { reprise?: unknown }).reprise === tooLarge.reprise && !('jsonrpc' in message)
}

/** An event type takes what the SDK makes: UUIDs and `_GET_stream`. */
function checkStream(streamId: string): string {
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(streamId)) throw new TypeError(`${JSON.stringify(streamId)} is no id of an MCP stream`)
  return streamId
}

function split(eventId: string): { cursor: string; streamId: string } {
  const colon = eventId.indexOf(':')
  const [cursor, streamId] = [eventId.slice(0, Math.max(colon, 0)), eventId.slice(colon + 1)]
  return { cursor: /^[A-Za-z0-9._-]{1,64}$/.test(streamId) && parseCursor(cursor) ? cursor : '', streamId }
}

/** What the server says of a position that there is not. */
const noPosition = [
  'cursor_malformed',
  'cursor_foreign',
  'cursor_ahead',
  'cursor_expired',
  'epoch_changed',
  'not_found',
  'stream_expired',
]

/** Errors are told by their code: the client may be of another copy of this package. */
function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as { code?: string }).code ?? '')
}

function isGone(error: unknown): boolean {
  return hasCode(error, 'not_found', 'stream_ended', 'stream_expired')
}

function ignoreGone(error: unknown): void {
  if (!isGone(error)) throw error
}

/** Is done when what waits for a promise that is settled now has run. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0))
}
