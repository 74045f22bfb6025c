import { Problem, send, withLogin } from './api'
import { Decoder, type Frame } from './sse'

/** A tool as the server describes it. */
export interface Tool {
  name: string
  title?: string
  description?: string
  inputSchema: { properties?: Record<string, Property>; required?: string[] }
}

interface Property {
  type?: string | string[]
  enum?: unknown[]
  default?: unknown
  description?: string
}

/** What a call has come to. */
export interface ToolResult {
  content?: { type: string; text?: string }[]
  structuredContent?: unknown
  isError?: boolean
}

interface Message {
  id?: number
  method?: string
  params?: unknown
  result?: unknown
  error?: { code: number; message: string; data?: unknown }
}

const version = '2025-11-25'
/** How often a response that was cut off is asked for again, and how long it waits before each. */
const tries = 20
const pause = 500

/** A client of the server's own MCP endpoint, with a session from open to close. */
export class MCPClient {
  private session = ''
  private last = 0

  async open(): Promise<void> {
    const clientInfo = { name: 'Reprise console', version: '1' }
    await this.request('initialize', { protocolVersion: version, capabilities: {}, clientInfo })
    await this.post({ jsonrpc: '2.0', method: 'notifications/initialized' })
  }

  async tools(): Promise<Tool[]> {
    return ((await this.request('tools/list', {})) as { tools: Tool[] }).tools
  }

  /** Calls a tool. told is given what the server says meanwhile. */
  async call(name: string, args: unknown, told: (text: string) => void, signal: AbortSignal): Promise<ToolResult> {
    return (await this.request('tools/call', { name, arguments: args, _meta: { progressToken: 1 } }, told, signal)) as ToolResult
  }

  close(): void {
    if (this.session === '') return
    void fetch('/mcp', { method: 'DELETE', headers: withLogin(this.headers()), keepalive: true }).catch(() => {}) // the session expires
  }

  private headers(): Record<string, string> {
    const headers: Record<string, string> = { Accept: 'application/json, text/event-stream', 'Mcp-Protocol-Version': version }
    if (this.session !== '') headers['Mcp-Session-Id'] = this.session
    return headers
  }

  private async post(message: object, signal?: AbortSignal): Promise<Response> {
    const headers = { ...this.headers(), 'Content-Type': 'application/json' }
    const response = await send('/mcp', { method: 'POST', headers, body: JSON.stringify(message), ...(signal && { signal }) })
    this.session = response.headers.get('Mcp-Session-Id') ?? this.session
    return response
  }

  /** Sends a request and returns its result. A response that is cut off is resumed after the last event. */
  private async request(method: string, params: unknown, told: (text: string) => void = () => {}, signal?: AbortSignal): Promise<unknown> {
    const id = ++this.last
    let response = await this.post({ jsonrpc: '2.0', id, method, params }, signal)
    if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) return resultOf((await response.json()) as Message)
    for (let cursor = '', failures = 0; ; ) {
      try {
        for await (const { id: at, data } of framesOf(response)) {
          cursor = at ?? cursor
          failures = 0
          if (!data) continue
          const message = JSON.parse(data) as Message
          if (message.id === id && message.method === undefined) return resultOf(message)
          if (message.method) told(`${message.method} ${JSON.stringify(message.params ?? {})}`)
        }
      } catch (error) {
        if (signal?.aborted || (error instanceof Problem && !error.retryable)) throw error
      }
      for (;;) {
        if (cursor === '' || ++failures > tries) throw new Problem('disconnected', 'The connection ended before the answer', '', 0, true)
        await new Promise((resolve) => setTimeout(resolve, pause))
        try {
          response = await send('/mcp', { headers: { ...this.headers(), 'Last-Event-ID': cursor }, ...(signal && { signal }) })
          told('resumed where the connection was cut')
          break
        } catch (error) {
          if (signal?.aborted || (error instanceof Problem && !error.retryable)) throw error
        }
      }
    }
  }
}

function resultOf({ result, error }: Message): unknown {
  if (error) throw new Problem(String(error.code), error.message, error.data === undefined ? '' : JSON.stringify(error.data), 0, false)
  return result
}

async function* framesOf(response: Response): AsyncGenerator<Frame> {
  const decoder = new Decoder()
  const reader = response.body!.getReader()
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      decoder.push(value)
      for (let frame: Frame | undefined; (frame = decoder.next()); ) yield frame
    }
  } finally {
    reader.cancel().catch(() => {}) // it was cut
  }
}

/** Arguments to begin with: what is required, with a value of its type, and a command that does something. */
export function sampleOf({ inputSchema: { properties = {}, required = [] } }: Tool): string {
  const values: Record<string, unknown> = { string: '', number: 0, integer: 0, boolean: false, array: [], object: {} }
  const wanted = required.length > 0 ? required : Object.keys(properties).filter((name, i, all) => name === 'command' || (i === 0 && !all.includes('command')))
  const sample = wanted.map((name) => {
    const { type, enum: choices, default: preset } = properties[name] ?? {}
    if (name === 'command') return [name, 'echo hello']
    return [name, preset ?? choices?.[0] ?? values[[type ?? 'string'].flat()[0]!] ?? null]
  })
  return JSON.stringify(Object.fromEntries(sample), null, 2)
}
