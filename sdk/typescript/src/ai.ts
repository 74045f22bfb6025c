import { Application, type ApplicationOptions, type ApplicationRequest } from './application.js'
import { Reprise } from './client.js'
import { formatCursor, parseCursor } from './cursor.js'
import { InvalidError } from './errors.js'
import type { PublishedEvent } from './event.js'
import type { FollowOptions } from './follow.js'
import { type Answer, AnswerReader, type ReadOptions } from './answer.js'
import { randomID } from './id.js'
import type { Producer } from './producer.js'
import type { NewEvent, Stream } from './wire.js'

export type { Answer }
export type { ApplicationOptions } from './application.js'

/** Settings of the writers of answers. Times are in milliseconds. */
export interface WriterOptions<Chunk> {
  reprise: Reprise
  /** The prefix of the names of the streams. */
  prefix?: string
  /** Keeps a serverless platform awake until an answer is written. */
  waitUntil?: ((written: Promise<unknown>) => void) | null
  /** The silence after which the program that writes an answer counts as dead. Default: 15,000. */
  orphanAfter?: number
  /**
   * Continues an answer whose writer has died: it gets the written chunks and returns the following ones. Without it such an
   * answer ends as failed.
   */
  goOn?: (id: string, written: Chunk[]) => ReadableStream<Chunk> | Promise<ReadableStream<Chunk>>
}

/** Sent by writers, so that their death is noticed. */
const aliveType = 'alive'

/** Writes answers into streams, and finds answers in progress. */
class Writer<Chunk> {
  readonly reprise: Reprise
  readonly orphanAfter: number

  constructor(
    private readonly options: WriterOptions<Chunk>,
    private readonly event: (chunk: Chunk) => NewEvent,
    private readonly chunk: (event: PublishedEvent) => Chunk,
  ) {
    this.reprise = options.reprise
    this.orphanAfter = options.orphanAfter ?? 15_000
  }

  /** Creates the stream of an answer and writes what make makes into it, whether or not somebody reads. */
  async start(stream: string, make: () => ReadableStream<Chunk> | Promise<ReadableStream<Chunk>>): Promise<void> {
    await this.create(stream)
    const producer = this.producer(stream)
    await producer.publish({ type: aliveType })
    try {
      this.write(producer, await make())
    } catch (error) {
      await producer.end('failed', { data: { error: messageOf(error) } })
      throw error
    }
  }

  /** Reports whether the caller is the first to claim the stream of an answer, which it creates. The others do not write it. */
  async claim(stream: string): Promise<boolean> {
    await this.create(stream)
    const claim = randomID()
    const { duplicate } = await this.once(stream, 'claim').publish({ type: aliveType, data: claim })
    if (!duplicate) return true
    // Either another one was first, or the answer to this claim was lost and it was sent again.
    const { events } = await this.reprise.streams.page<{ [aliveType]: string }>(stream, { limit: 1 })
    const [first] = events
    return first?.type === aliveType && first.data === claim
  }

  /** A producer whose first publish has its effect once, whoever makes it. */
  once(stream: string, id: string): Producer {
    return this.reprise.producer(stream, { id, state: { load: () => '1.0', save: () => {} } })
  }

  private create(stream: string): Promise<Stream> {
    return this.reprise.streams.create(stream, { retention: { max_events: 1_000_000 } })
  }

  /** Returns the state of an answer, undefined if there is none. One whose writer has died is gone on with, or ended. */
  async find(stream: string, id: string): Promise<Stream | undefined> {
    try {
      const state = await this.reprise.streams.show(stream)
      if (state.status === 'ended' || !(await this.isOrphan(state))) return state
      await this.takeOver(stream, id)
      return await this.reprise.streams.show(stream)
    } catch (error) {
      if (['not_found', 'stream_expired'].includes((error as { code?: string }).code ?? '')) return undefined
      throw error
    }
  }

  /** Each writer of a stream has a higher epoch than the one before, which the server shuts out from then on. */
  private producer(stream: string): Producer {
    const epoch = Date.now()
    return this.reprise.producer(stream, { id: 'writer', state: { load: () => `${epoch}.0`, save: () => {} } })
  }

  private async isOrphan(state: Stream): Promise<boolean> {
    const tail = parseCursor(state.window.tail)
    if (!tail || tail.seq === 0) return Date.now() - Date.parse(state.created) > this.orphanAfter
    const after = formatCursor({ ...tail, seq: tail.seq - 1 })
    const { events } = await this.reprise.streams.page(state.name, { after, limit: 1 })
    if (!events[0] || Date.now() - events[0].time.getTime() <= this.orphanAfter) return false
    // The Reprise server may have been away: a writer that lives makes itself heard by now.
    const next = await this.reprise.streams.page(state.name, { after: state.window.tail, limit: 1, wait: this.orphanAfter / 2 })
    return next.events.length === 0 && !next.ended
  }

  private async takeOver(stream: string, id: string): Promise<void> {
    const producer = this.producer(stream)
    await producer.publish({ type: aliveType }) // from here on nobody else writes, and what is read is all
    const { goOn } = this.options
    if (!goOn) {
      await producer.end('failed', { data: { error: 'the program that wrote this has died' } })
      return
    }
    const written: Chunk[] = []
    for (let after = 'earliest', more = true; more; ) {
      const page = await this.reprise.streams.page(stream, { after, limit: 1000, types: ['chunk'] })
      for (const event of page.events) if (event.type === 'chunk') written.push(this.chunk(event as PublishedEvent))
      after = page.nextCursor
      more = page.hasMore
    }
    this.write(producer, await goOn(id, written))
  }

  /** Publishes all of source in the background. What comes while a request is under way goes into the next one together. */
  private write(producer: Producer, source: ReadableStream<Chunk>): void {
    const written = this.writeAll(producer, source.getReader())
    written.catch(() => {}) // told to those who read, and to waitUntil
    this.options.waitUntil?.(written)
  }

  private async writeAll(producer: Producer, reader: ReadableStreamDefaultReader<Chunk>): Promise<void> {
    let waiting: NewEvent[] = []
    let publishing: Promise<void> | undefined
    let failure: { error: unknown } | undefined
    const publish = async () => {
      try {
        while (waiting.length > 0) await producer.publish(waiting.splice(0, 500))
      } catch (error) {
        failure = { error }
        reader.cancel(error).catch(() => {})
      }
      publishing = undefined
    }
    const beat = setInterval(() => {
      if (publishing) return
      waiting.push({ type: aliveType })
      publishing = publish()
    }, this.orphanAfter / 3)
    try {
      for (;;) {
        const { value, done } = await reader.read()
        if (done || failure) break
        waiting.push(this.event(value))
        publishing ??= publish()
        if (waiting.length >= 1000) await publishing
      }
    } catch (error) {
      waiting = []
      await publishing
      if (!failure) await producer.end('failed', { data: { error: messageOf(error) } })
      throw error
    } finally {
      clearInterval(beat)
    }
    await publishing
    if (failure) throw failure.error
    await producer.end('completed')
  }
}

/**
 * The interface of the package resumable-stream, on a Reprise server: streams of strings that are written whether or not
 * somebody reads, and that anybody can read from any character on. Unlike with the original, what was written is kept when the
 * program that writes dies, its death is noticed, and `goOn` goes on.
 */
export interface ResumableStreamContext {
  /** Creates a stream, or resumes the existing one. It is null if that has ended. */
  resumableStream(id: string, makeStream: () => ReadableStream<string>, skipCharacters?: number): Promise<ReadableStream<string> | null>
  /** Resumes a stream. It is null if the stream has ended, and undefined if there is none. */
  resumeExistingStream(id: string, skipCharacters?: number): Promise<ReadableStream<string> | null | undefined>
  /** Creates a stream. */
  createNewResumableStream(id: string, makeStream: () => ReadableStream<string>, skipCharacters?: number): Promise<ReadableStream<string> | null>
  /** Returns null for no such stream, `DONE` for one that has ended, and otherwise true. */
  hasExistingStream(id: string): Promise<null | true | 'DONE'>
}

/** Returns a ResumableStreamContext. */
export function createResumableStreamContext(options: WriterOptions<string>): ResumableStreamContext {
  const writer = new Writer<string>(
    options,
    (text) => ({ type: 'chunk', data: text }),
    (event) => event.data as string,
  )
  const name = (id: string) => `${options.prefix ?? 'resumable-stream'}/${segment(id)}`
  const read = (id: string, skip: number): ReadableStream<string> => {
    const reader = new AnswerReader<string>(options.reprise, name(id), { orphanAfter: writer.orphanAfter })
    return reader.stream((text) => {
      const rest = text.slice(skip)
      skip -= text.length - rest.length
      return rest === '' ? undefined : rest
    })
  }
  const context: ResumableStreamContext = {
    async resumableStream(id, makeStream, skip = 0) {
      const found = await context.resumeExistingStream(id, skip)
      return found === undefined ? context.createNewResumableStream(id, makeStream, skip) : found
    },
    async resumeExistingStream(id, skip = 0) {
      const state = await writer.find(name(id), id)
      if (!state) return undefined
      return state.status === 'ended' ? null : read(id, skip)
    },
    async createNewResumableStream(id, makeStream, skip = 0) {
      await writer.start(name(id), makeStream)
      return read(id, skip)
    },
    async hasExistingStream(id) {
      const state = await writer.find(name(id), id)
      if (!state) return null
      return state.status === 'ended' ? 'DONE' : true
    },
  }
  return context
}

/** Options of starting an answer. */
export interface AnswerOptions {
  /**
   * 1 to 64 letters, digits, `-` and `_`. A repeated request with the same key gets the answer of the first one, and `make` is
   * called once. RepriseChatTransport sends such a key in the header `Idempotency-Key`.
   */
  key?: string | null | undefined
}

/** Settings of ChatStreams. */
export interface ChatStreamsOptions<Chunk> extends WriterOptions<Chunk> {
  /** The URL at which pages reach the Reprise server. Default: the URL of `reprise`. */
  url?: string
}

/**
 * The server's side of {@link RepriseChatTransport}: answers of the AI SDK's chat, each of which is a stream at the Reprise
 * server that the page follows by itself.
 *
 *     const chats = new ChatStreams({ reprise })
 *     POST /api/chat              const key = request.headers.get('Idempotency-Key')
 *                                 Response.json(await chats.start(id, () => streamText(...).toUIMessageStream(), { key }))
 *     GET  /api/chat/ID/stream    const answer = await chats.resume(id)     204 if that is null
 */
export class ChatStreams<Chunk = unknown> {
  private readonly writer: Writer<Chunk>
  private readonly prefix: string

  constructor(private readonly options: ChatStreamsOptions<Chunk>) {
    this.prefix = options.prefix ?? 'chat'
    this.writer = new Writer<Chunk>(
      options,
      (chunk) => ({ type: 'chunk', data: chunk }),
      (event) => event.data as Chunk,
    )
  }

  /** Starts to write an answer, and returns where pages can read it immediately. */
  async start(
    chatId: string,
    make: () => ReadableStream<Chunk> | Promise<ReadableStream<Chunk>>,
    options: AnswerOptions = {},
  ): Promise<Answer> {
    const key = options.key ?? randomID()
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(key)) throw new InvalidError(`${JSON.stringify(key.slice(0, 70))} is no key of an answer`)
    const answers = `${this.prefix}/${segment(chatId)}`
    await this.options.reprise.streams.create(answers, { retention: { max_events: 10 } })
    const stream = `${answers}/${key}`
    if (await this.writer.claim(stream)) await this.writer.start(stream, make)
    await this.writer.once(answers, key).publish({ type: 'answer', data: stream })
    return this.answer(stream)
  }

  /**
   * Returns where pages can read the newest answer of a chat, also a complete one, or null if there is none. An answer whose
   * writer has died is continued.
   */
  async resume(chatId: string): Promise<Answer | null> {
    const answers = `${this.prefix}/${segment(chatId)}`
    try {
      const { events } = await this.options.reprise.streams.page<{ answer: string }>(answers, { limit: 1000 })
      const newest = events.at(-1)
      if (newest?.type !== 'answer') return null
      return (await this.writer.find(newest.data, chatId)) ? await this.answer(newest.data) : null
    } catch (error) {
      if ((error as { code?: string }).code === 'not_found') return null
      throw error
    }
  }

  private async answer(stream: string): Promise<Answer> {
    const { ticket } = await this.options.reprise.tickets.create({ stream, ttl: '1h' })
    return { stream, ticket, url: this.options.url ?? this.options.reprise.url, orphanAfter: this.writer.orphanAfter }
  }
}

/** Settings of RepriseChatTransport. */
export interface ChatTransportOptions extends ApplicationOptions {
  /** The URL at which the application starts answers, and finds them at `/ID/stream` below it. Default: `/api/chat`. */
  api?: string
  /** How answers are followed; `onDrop` and `onConnected` report the state of the connection. */
  follow?: Pick<FollowOptions, 'onDrop' | 'onConnected' | 'idleTimeout' | 'giveUp'>
}

interface RequestOptions {
  chatId: string
  abortSignal?: AbortSignal | undefined
  headers?: Record<string, string> | Headers | undefined
  body?: object | undefined
}

/**
 * A ChatTransport of the AI SDK for answers that {@link ChatStreams} writes. The page reads them from the Reprise server
 * itself, with a ticket, and goes on through connections that break, reloads, and the death of the server that writes.
 *
 * A request to the application that is lost, or whose answer is lost, is repeated with the same `Idempotency-Key`, which the
 * application passes to `start`. An application that does not must set `giveUp` to 0. A page that stops an answer stops reading
 * it; the application goes on writing.
 *
 *     const { messages } = useChat({ id, resume: true, transport: new RepriseChatTransport() })
 */
export class RepriseChatTransport<Message = any, Chunk = any> {
  /** A resumed answer comes from its beginning. */
  readonly resumeStreamIsReplay = true
  private readonly api: string
  private readonly application: Application

  constructor(private readonly options: ChatTransportOptions = {}) {
    this.api = options.api ?? '/api/chat'
    this.application = new Application(options)
  }

  /** Asks the application for an answer. */
  async sendMessages(
    request: RequestOptions & { trigger: string; messageId: string | undefined; messages: Message[] },
  ): Promise<ReadableStream<Chunk>> {
    const { chatId, messages, trigger, messageId, body } = request
    const headers = new Headers(request.headers)
    headers.set('Idempotency-Key', randomID())
    const answer = await this.application.ask<Answer>('ask for an answer', {
      ...this.about(request, this.api),
      headers,
      body: { ...body, id: chatId, messages, trigger, messageId },
    })
    if (!answer) throw new Error('the application has no answer')
    return this.read(request, answer)
  }

  /** Finds the newest answer of a chat, after a reload. */
  async reconnectToStream(request: RequestOptions): Promise<ReadableStream<Chunk> | null> {
    const answer = await this.find(request)
    return answer && this.read(request, answer)
  }

  private find(request: RequestOptions): Promise<Answer | null> {
    const url = `${this.api}/${encodeURIComponent(request.chatId)}/stream`
    return this.application.ask<Answer>('find an answer', this.about(request, url))
  }

  private about({ headers, abortSignal }: RequestOptions, url: string): ApplicationRequest {
    return { url, headers, signal: abortSignal }
  }

  private read(request: RequestOptions, answer: Answer): ReadableStream<Chunk> {
    let { ticket } = answer
    const options: ReadOptions = { ...this.options.follow, orphanAfter: answer.orphanAfter }
    if (request.abortSignal) options.signal = request.abortSignal
    // A ticket that has expired is asked for anew; so is the answer of a program that has died, which makes another one go on.
    options.ticket = async () => {
      const given = ticket
      ticket = ''
      return given || (await this.find(request))?.ticket || ''
    }
    options.onOrphan = async () => void (await this.find(request))
    return new AnswerReader<Chunk>(new Reprise({ url: answer.url, token: '' }), answer.stream, options).merged(mergeDeltas as never)
  }
}

interface Delta {
  type?: string
  id?: string
  delta?: string
}

/** Makes one of two chunks of the same text, so that a page that catches up renders once and not for each; else undefined. */
function mergeDeltas(a: Delta, b: Delta): Delta | undefined {
  const same = (a.type === 'text-delta' || a.type === 'reasoning-delta') && a.type === b.type && a.id === b.id
  return same && Object.keys(b).length === 3 && Object.keys(a).length === 3 ? { ...a, delta: a.delta! + b.delta! } : undefined
}

/** A segment of a stream's name. */
function segment(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9.-]/g, (c) => `_${c.charCodeAt(0).toString(16)}_`).replace(/^\.+$/, (dots) => `_${dots}`)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
