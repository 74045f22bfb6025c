import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Reprise } from './client.js'
import { formatCursor, parseCursor } from './cursor.js'
import { hasCode } from './errors.js'
import { type Message, isMark, noPosition, split } from './mcp-id.js'

/** What `serve` needs of a transport of the SDK. */
export interface McpTransport {
  sessionId?: string | undefined
  handleRequest(request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void>
}

/** A request whose messages are stored: the calls in it, and the response that carries them. */
export interface Exchange {
  response: ServerResponse
  /** The ids of its calls that have no answer yet. */
  calls: Set<unknown>
}

/** The request on behalf of which a message is stored. */
export const exchanges = new AsyncLocalStorage<Exchange>()

const standalone = '_GET_stream'
const maxBody = 4 << 20 // as the SDK has it
const heartbeat = 15_000

/** Whether a message answers a call. */
export function answers(message: Message): message is { id: unknown } {
  return 'id' in message && ('result' in message || 'error' in message)
}

/** What the server of a program's sessions knows of them. */
export class Sessions {
  /** The ids of the calls of this process that have no answer yet, by session and MCP stream. */
  readonly live = new Map<string, Set<unknown>>()
  /** The responses that carry MCP streams. */
  private readonly carriers = new Map<string, ServerResponse>()

  constructor(
    private readonly reprise: Reprise,
    private readonly name: (session: string) => string,
    private readonly lostAfter: number,
  ) {}

  /** Makes a response the one that carries an MCP stream; another one ends. */
  carry(key: string, response: ServerResponse): void {
    const before = this.carriers.get(key)
    if (before === response) return
    before?.destroy()
    this.carriers.set(key, response)
    response.once('close', () => {
      if (this.carriers.get(key) === response) this.carriers.delete(key)
    })
  }

  async serve(request: IncomingMessage, response: ServerResponse, transport?: McpTransport, body?: unknown): Promise<void> {
    const [session, last] = [header(request, 'mcp-session-id'), header(request, 'last-event-id')]
    const own = session !== '' && (!transport || transport.sessionId === session)
    if (request.method === 'GET' && own && last && header(request, 'accept').includes('text/event-stream')) {
      return this.resume(session, last, transport !== undefined, response)
    }
    if (!transport) return gone(response)
    if (request.method === 'GET' && own) {
      const key = `${session} ${standalone}`
      const before = this.carriers.get(key)
      if (before) {
        before.destroy()
        await closed(before)
      }
      this.carry(key, response)
    }
    if (request.method !== 'POST') return transport.handleRequest(request, response, body)
    const parsed = body ?? (await readBody(request, response))
    if (parsed === undefined) return
    await exchanges.run({ response, calls: callsOf(parsed) }, () => transport.handleRequest(request, response, parsed))
  }

  /** Answers a GET with a Last-Event-ID. here: whether this process has the session. */
  private async resume(session: string, last: string, here: boolean, response: ServerResponse): Promise<void> {
    const { cursor, streamId, calls } = split(last)
    const key = `${session} ${streamId}`
    const [stream, types] = [this.name(session), [streamId]]
    const unknown = () => (here ? refuse(response, 400, -32000, 'Unknown event ID') : gone(response))
    if (cursor === '') return unknown()
    const abort = new AbortController()
    response.once('close', () => abort.abort())
    const options = { types, limit: 1000, signal: abort.signal }
    const read = (after: string, wait = 0) => this.reprise.streams.page(stream, { ...options, after, wait })
    let page: Awaited<ReturnType<typeof read>>
    try {
      page = await read(cursor)
      const shown = page.ended ? await this.reprise.streams.show(stream) : undefined
      if (shown?.outcome === 'completed') return unknown() // the client has ended the session
      await this.forget(calls, stream, cursor, types)
    } catch (error) {
      if (abort.signal.aborted) return
      if (!hasCode(error, ...noPosition)) return refuse(response, 503, -32603, 'The event store is not available')
      if (!hasCode(error, 'cursor_expired', 'epoch_changed')) return unknown()
      return refuse(response, 410, -32000, 'The event is no longer kept', error)
    }
    this.carry(key, response)
    const head = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache, no-transform', 'X-Accel-Buffering': 'no' }
    response.writeHead(200, { ...head, 'Mcp-Session-Id': session }).flushHeaders()
    const beat = setInterval(() => response.destroyed || response.write(': \n\n'), heartbeat)
    try {
      for (let at = cursor; ; ) {
        let answered = false
        for (const event of page.events) {
          const message = event.data as Message
          if (isMark(message)) return void response.destroy() // a client that resumes is refused
          if (Object.keys(message).length === 0) continue // {} only carries an id
          write(response, message, `${event.cursor}:${last.slice(last.indexOf(':') + 1)}`)
          answered ||= answers(message)
          if (answers(message)) calls?.delete(message.id)
        }
        if (response.writableNeedDrain) await once(response, 'drain', { signal: abort.signal }) // a slow reader
        at = page.nextCursor
        const live = streamId === standalone ? here : this.live.has(key)
        if (!page.hasMore && (calls ? calls.size === 0 : answered || !live) && streamId !== standalone) break
        if (!page.hasMore && streamId === standalone && !live) break
        page = page.hasMore ? await read(at) : await read(at, live ? 20_000 : this.lostAfter)
        if (page.events.length > 0 || page.ended || live || this.live.has(key)) continue
        for (const id of calls ?? []) write(response, lost(id))
        break
      }
      response.end()
    } catch (error) {
      if (!abort.signal.aborted) response.destroy(error as Error)
    } finally {
      clearInterval(beat)
    }
  }

  /** Takes a call out of calls if the event at a cursor is its answer. */
  private async forget(calls: Set<unknown> | undefined, stream: string, cursor: string, types: string[]): Promise<void> {
    const at = parseCursor(cursor)
    if (!calls || !at || at.seq === 0) return
    const before = formatCursor({ ...at, seq: at.seq - 1 })
    const page = await this.reprise.streams.page(stream, { after: before, limit: 1, types }).catch((error: unknown) => {
      if (!hasCode(error, ...noPosition)) throw error // else the event is no longer kept
    })
    const event = page?.events[0]
    if (event?.cursor === cursor && answers(event.data as Message)) calls.delete((event.data as { id: unknown }).id)
  }
}

/** The answer to a call whose process has died. */
function lost(id: unknown): object {
  const error = { code: -32603, message: 'the server was lost during the call', data: { code: 'server_lost' } }
  return { jsonrpc: '2.0', id, error }
}

function write(response: ServerResponse, message: object, id?: string): void {
  const escape = (c: string) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`
  const data = JSON.stringify(message).replaceAll(/[\u0085\u2028\u2029]/g, escape) // some readers end lines there
  if (response.destroyed) return
  response.write(`event: message\ndata: ${data}\n${id ? `id: ${id}\n` : ''}\n`)
}

function gone(response: ServerResponse): void {
  refuse(response, 404, -32001, 'Session not found')
}

function refuse(response: ServerResponse, status: number, code: number, message: string, error?: unknown): void {
  const data = error ? { code: (error as { code?: string }).code } : undefined
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code, message, data }, id: null }))
}

function header(request: IncomingMessage, name: string): string {
  const value = request.headers[name]
  return typeof value === 'string' ? value : ''
}

/** The body as JSON; undefined if it was refused. */
async function readBody(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > maxBody) {
      refuse(response, 413, -32000, `The body is larger than ${maxBody} bytes`)
      return undefined
    }
    parts.push(part)
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString()) as unknown
  } catch {
    refuse(response, 400, -32700, 'Parse error: Invalid JSON')
    return undefined
  }
}

function callsOf(body: unknown): Set<unknown> {
  const messages = (Array.isArray(body) ? body : [body]) as { id?: unknown; method?: unknown }[]
  const calls = messages.filter((message) => typeof message?.method === 'string' && message.id !== undefined)
  return new Set(calls.map(({ id }) => id))
}

/** Is done when a response has closed and the SDK has heard of it. */
async function closed(response: ServerResponse): Promise<void> {
  if (!response.closed) await once(response, 'close')
  await new Promise((resolve) => setImmediate(resolve))
}
