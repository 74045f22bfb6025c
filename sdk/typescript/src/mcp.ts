import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Reprise } from './client.js'
import { formatCursor, parseCursor } from './cursor.js'
import { hasCode } from './errors.js'
import { type Message, isMark, join, noPosition, split, tooLarge } from './mcp-id.js'
import { type McpTransport, Sessions, answers, exchanges } from './mcp-serve.js'
import type { Producer } from './producer.js'
import type { NewEvent, Published, Retention } from './wire.js'

export type { McpTransport, Message }

/** Settings of EventStores. */
export interface EventStoresOptions {
  /** The prefix of the names of the streams. Default: `mcp`. */
  prefix?: string
  /** How much of a session is kept; the server's defaults apply to missing members. */
  retention?: Retention
  /** How long, in milliseconds, a session that was not ended is kept after its last message. Default: 3,600,000. */
  maxSilence?: number
  /**
   * How long, in milliseconds, a call of another process may be silent before it counts as lost. 0, the default, is for a single
   * server; with replicas it must be above the longest silence of a tool. At most 60,000.
   */
  lostAfter?: number
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
 *     await stores.serve(request, response, transport) // in place of transport.handleRequest(request, response)
 *
 * The messages of a session are the events of one stream at the server, of which the type is the MCP stream. An event id is a
 * cursor, which is good for that session alone, and the name of the MCP stream.
 */
export class EventStores {
  private readonly prefix: string
  private readonly maxSilence: number
  private readonly sessions: Sessions
  private swept = performance.now()

  constructor(
    private readonly reprise: Reprise,
    private readonly options: EventStoresOptions = {},
  ) {
    this.prefix = options.prefix ?? 'mcp'
    this.maxSilence = options.maxSilence ?? 3600_000
    this.sessions = new Sessions(reprise, (session) => this.name(session), options.lostAfter ?? 0)
  }

  /** Returns the store of a session. Two processes may have stores of one session, one after the other. */
  session(id: string): EventStore {
    if (performance.now() - this.swept > this.maxSilence / 4) {
      this.swept = performance.now()
      this.sweep().catch(() => {}) // the next one does what this one could not
    }
    return new EventStore(this.reprise, this.name(id), this.options.retention ?? {}, this.sessions, id)
  }

  /**
   * Answers a request of a Node server with a transport of the SDK, undefined if this process has no transport of the session.
   * body is the JSON body, if it was read already.
   *
   * A GET with a Last-Event-ID is answered from the store: 400 for an unknown position, 410 for one that is no longer kept, and
   * else the missed messages and what follows them, until the call is answered. The response that carried the call before ends.
   * If the process that worked on the call has died, the answer is the error -32603 with `{"code": "server_lost"}`. The SDK does
   * the rest; without a transport that is a 404, and the client begins a new session.
   */
  async serve(request: IncomingMessage, response: ServerResponse, transport?: McpTransport, body?: unknown): Promise<void> {
    const id = request.headers['mcp-session-id']
    if (request.method === 'DELETE' && id !== undefined && transport?.sessionId === id) {
      await new EventStore(this.reprise, this.name(String(id)), {}, this.sessions, String(id)).end()
    }
    await this.sessions.serve(request, response, transport, body)
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
    private readonly sessions: Sessions,
    private readonly session: string,
  ) {}

  /**
   * Keeps a message of an MCP stream and returns its id. A message that is too large for the server is not kept: it is sent to
   * the client as usual, and a client that resumes before it is refused.
   */
  async storeEvent(streamId: string, message: Message): Promise<string> {
    const type = checkStream(streamId)
    const unanswered = this.unanswered(streamId, message)
    const calls = [...(unanswered ?? [])]
    const text = JSON.stringify(message)
    const kept = text.length < maxMessage / 3 || new TextEncoder().encode(text).length < maxMessage
    const id = await new Promise<string>((done, failed) => {
      this.waiting.push({ event: { type, data: kept ? message : tooLarge }, size: kept ? text.length : 0, done, failed })
      this.storing ??= this.storeAll()
    })
    // The transport sends a message itself unless a replay has, and it registers the connection of a replay when that is done.
    // A message that was stored while one runs must not come between.
    await this.replaying
    if (unanswered && answers(message)) {
      unanswered.delete(message.id)
      if (unanswered.size === 0) this.sessions.live.delete(`${this.session} ${streamId}`)
    }
    return join(id, streamId, calls)
  }

  /** The ids of the calls of an MCP stream that have no answer yet, if `serve` has their request. */
  private unanswered(streamId: string, message: Message): Set<unknown> | undefined {
    const key = `${this.session} ${streamId}`
    const known = this.sessions.live.get(key)
    const exchange = known ? undefined : exchanges.getStore()
    if (!exchange || streamId.startsWith('_') || (answers(message) && !exchange.calls.has(message.id))) return known
    this.sessions.live.set(key, exchange.calls)
    this.sessions.carry(key, exchange.response)
    return exchange.calls
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
    for (const key of this.sessions.live.keys()) if (key.startsWith(`${this.session} `)) this.sessions.live.delete(key)
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

/** An event type takes what the SDK makes: UUIDs and `_GET_stream`. */
function checkStream(streamId: string): string {
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(streamId)) throw new TypeError(`${JSON.stringify(streamId)} is no id of an MCP stream`)
  return streamId
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
