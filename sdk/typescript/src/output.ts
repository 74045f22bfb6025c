import { type Caller, type Request, broken, hasType, notOurs, parameters, pathOf } from './call.js'
import { ConnectionError, ProtocolError } from './errors.js'
import type { SHA256 } from './sha256.js'
import { type Linked, linked } from './wait.js'
import type { Execution } from './wire.js'

/** Which part of a channel to read. */
export interface OutputOptions {
  /** The first byte. Default: 0. */
  offset?: number
  /** Reads on until the execution has ended. Otherwise the bytes are those that there are when the server is asked. */
  follow?: boolean
  signal?: AbortSignal
}

/** Reads the bytes of a channel or an artifact, and goes on by itself after a lost connection. */
export class OutputReader {
  private offset: number
  private end = -1 // where the bytes end, known from the first answer on
  private sum: SHA256 | undefined // of an artifact that is read from its beginning
  private etag = ''
  private reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  private scope: Linked | undefined
  private readonly request: Request
  private readonly stop: Linked

  constructor(
    private readonly caller: Caller,
    private readonly id: string,
    /** Below the path of the execution: a channel, or an artifact. */
    private readonly what: string,
    private readonly options: OutputOptions,
  ) {
    this.offset = options.offset ?? 0
    const op = `read ${what} of execution ${id}`
    this.stop = linked(options.signal)
    this.request = { op, method: 'GET', path: pathOf('executions', id, `/${what}`), headers: { Accept: '*/*' } }
  }

  /** Hands some bytes to the stream that is read, and nothing is left after the last ones or an error. */
  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    let bytes: Uint8Array | undefined
    try {
      bytes = await this.read(this.stop.signal)
    } finally {
      if (!bytes) this.leave(closed)
    }
    if (bytes) controller.enqueue(bytes)
    else controller.close()
  }

  /** Ends the reading. */
  cancel(reason: unknown): void {
    this.leave(reason)
  }

  private leave(reason: unknown): void {
    this.close()
    this.stop.unlink()
    this.stop.abort(reason)
  }

  private read(signal: AbortSignal): Promise<Uint8Array | undefined> {
    return this.caller.tryAgain(this.request, signal, async () => {
      try {
        return await this.readOnce(signal)
      } catch (error) {
        this.close()
        throw error
      }
    })
  }

  /** Frees the connection. */
  private close(): void {
    this.reader?.cancel().catch(() => {})
    this.scope?.unlink()
    this.scope?.abort(closed)
    this.reader = this.scope = undefined
  }

  private async readOnce(signal: AbortSignal): Promise<Uint8Array | undefined> {
    if (this.end >= 0 && this.offset >= this.end) return this.verify()
    const reader = (this.reader ??= await this.open(signal))
    const { value } = await reader.read().catch((error: unknown) => {
      throw broken(error, signal)
    })
    if (value) {
      const bytes = this.end < 0 ? value : value.subarray(0, this.end - this.offset) // there may be more by now
      this.offset += bytes.length
      this.sum?.update(bytes)
      return bytes
    }
    this.close()
    if (this.options.follow) await this.checkEnd(signal)
    else if (this.end >= 0 && this.offset < this.end) throw new ConnectionError('the connection ended before the output')
    return this.verify()
  }

  /** Compares the checksum of what has come with the one that the server names, if it does. */
  private verify(): undefined {
    if (this.sum && `"${this.sum.hex()}"` !== this.etag) {
      throw new ProtocolError(`${this.request.op}: the bytes have another checksum than the server's`)
    }
    this.sum = undefined
  }

  /** Asks for what comes from the offset on. */
  private async open(signal: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const scope = (this.scope = linked(signal))
    const late = new ConnectionError('the server takes too long to answer', { code: 'timeout' })
    const timer = setTimeout(() => scope.abort(late), this.caller.settings.timeout)
    try {
      const query = parameters({ offset: this.offset, follow: this.options.follow ? 'true' : undefined })
      const response = await this.caller.send({ ...this.request, query }, scope.signal)
      await this.caller.refuse(response)
      if (response.status !== 200 || !hasType(response, 'application/octet-stream')) throw notOurs(response)
      this.caller.met = true
      const etag = response.headers.get('ETag')
      if (etag && this.offset === 0) this.sum = new (await import('./sha256.js')).SHA256()
      this.etag = etag ?? ''
      const length = response.headers.get('Content-Length')
      const plain = !response.headers.has('Content-Encoding') // otherwise the length is of the compressed bytes
      if (plain && !this.options.follow && this.end < 0 && length !== null) this.end = this.offset + Number(length)
      return (response.body ?? new ReadableStream<Uint8Array>({ start: (empty) => empty.close() })).getReader()
    } finally {
      clearTimeout(timer)
    }
  }

  /** Makes sure that an answer which ended was all: what lies between may have ended it. */
  private async checkEnd(signal: AbortSignal): Promise<void> {
    const request = { op: this.request.op, method: 'GET', path: pathOf('executions', this.id) }
    const execution = await this.caller.json<Execution>(request, signal)
    if (execution.status !== 'ended' || this.offset < execution.bytes[this.what as 'stdout' | 'stderr']) {
      throw new ConnectionError('the connection ended before the output')
    }
  }
}

const closed = new ConnectionError('the output was closed', { retryable: false })
