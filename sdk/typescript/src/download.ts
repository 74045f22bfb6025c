import { type Caller, type Request, broken, notOurs, parameters } from './call.js'
import { ConnectionError, ProtocolError, RepriseError } from './errors.js'
import { SHA256 } from './sha256.js'
import { type Linked, linked } from './wait.js'
import type { FileInfo } from './wire.js'

/** How to download. */
export interface DownloadOptions {
  /** Goes on with a download: the number of bytes that there are, and the version that they are of. The checksum is not compared then. */
  offset?: number
  etag?: string
  /** Is told what is downloaded, before the first byte. */
  onFile?: (file: FileInfo) => void
  /** The silence after which a connection is given up, in milliseconds. Default: 45,000. */
  idleTimeout?: number
  signal?: AbortSignal
}

/** Reads one version of a file, and goes on by itself after a lost connection. */
export class Downloader {
  private readonly op: string
  private readonly sum: SHA256 | undefined
  private offset: number
  private file: FileInfo | undefined
  private reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  private scope: Linked | undefined
  private readonly stop: Linked

  constructor(
    private readonly caller: Caller,
    private readonly path: string,
    private readonly options: DownloadOptions,
  ) {
    this.op = `download ${path}`
    this.offset = options.offset ?? 0
    this.sum = this.offset === 0 ? new SHA256() : undefined
    this.stop = linked(options.signal)
  }

  /** Hands some bytes to the stream that is read, and nothing is left after the last ones or an error. */
  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    let bytes: Uint8Array | undefined
    try {
      bytes = await this.next()
    } finally {
      if (!bytes) this.cancel(closed)
    }
    if (bytes) controller.enqueue(bytes)
    else controller.close()
  }

  /** Ends the download. */
  cancel(reason: unknown): void {
    this.close()
    this.stop.unlink()
    this.stop.abort(reason)
  }

  private async next(): Promise<Uint8Array | undefined> {
    const { signal } = this.stop
    if (!this.file) {
      this.file = await this.show(signal)
      this.options.onFile?.(this.file)
    }
    const { size } = this.file
    if (this.offset >= size) return this.verify(signal)
    const request: Request = { op: this.op, method: 'GET', path: '/v1/files/content' }
    return this.caller.tryAgain(request, signal, async () => {
      try {
        const reader = (this.reader ??= await this.open(request, signal))
        const { value } = await this.watched(() => reader.read())
        if (!value) throw new ConnectionError('the connection ended before the file')
        const bytes = value.subarray(0, size - this.offset)
        this.offset += bytes.length
        this.sum?.update(bytes)
        return bytes
      } catch (error) {
        this.close()
        throw error
      }
    })
  }

  /** The version that is downloaded. What a link leads to has its own checksum. */
  private async show(signal: AbortSignal): Promise<FileInfo> {
    let file = await this.ask(signal, false)
    if (file.type === 'symlink') file = await this.ask(signal, true)
    if (this.options.etag !== undefined && file.etag !== this.options.etag) throw this.changed()
    return file
  }

  private ask(signal: AbortSignal, checksum: boolean): Promise<FileInfo> {
    const query = parameters({ path: this.path, checksum: checksum ? 'true' : undefined })
    return this.caller.json({ op: this.op, method: 'GET', path: '/v1/files/stat', query, patient: true }, signal)
  }

  /** Asks for what comes after the bytes that there are. */
  private async open(request: Request, signal: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    this.scope = linked(signal)
    const { etag = '' } = this.file!
    const headers = { Accept: 'application/octet-stream', Range: `bytes=${this.offset}-`, 'If-Range': etag }
    const response = await this.watched(async () => {
      const answer = await this.caller.send({ ...request, query: parameters({ path: this.path }), headers }, this.scope!.signal)
      await this.caller.refuse(answer)
      return answer
    })
    this.caller.met = true
    const version = response.headers.get('ETag')
    if (!version || !response.body) throw notOurs(response)
    if (version !== etag) throw this.changed()
    const range = response.headers.get('Content-Range') ?? ''
    const right = response.status === 206 ? range.startsWith(`bytes ${this.offset}-`) : this.offset === 0
    if (!right) throw notOurs(response)
    return response.body.getReader()
  }

  /** Waits for bytes, and not for ever. */
  private async watched<T>(wait: () => Promise<T>): Promise<T> {
    const scope = this.scope!
    const silent = new ConnectionError('the connection is silent', { code: 'timeout' })
    const timer = setTimeout(() => scope.abort(silent), this.options.idleTimeout ?? 45_000)
    try {
      return await wait()
    } catch (error) {
      throw error instanceof RepriseError ? error : broken(error, scope.signal)
    } finally {
      clearTimeout(timer)
    }
  }

  /** Compares what has come with what the server has, which is still the same version. */
  private async verify(signal: AbortSignal): Promise<undefined> {
    if (!this.sum) return undefined
    const there = await this.ask(signal, true)
    if (there.etag !== this.file!.etag) throw this.changed()
    if (there.sha256 !== this.sum.hex()) throw new ProtocolError(`${this.op}: the bytes have another checksum than the server's`)
    return undefined
  }

  private changed(): RepriseError {
    const error = new RepriseError('file_changed', false, `${this.op}: the file has changed meanwhile`)
    error.op = this.op
    return error
  }

  private close(): void {
    this.reader?.cancel().catch(() => {})
    this.scope?.unlink()
    this.scope?.abort(closed)
    this.reader = this.scope = undefined
  }
}

const closed = new ConnectionError('the download was left', { retryable: false })
