import { type Caller, type Request, parameters } from './call.js'
import { InvalidError, ProblemError, RepriseError } from './errors.js'
import { SHA256 } from './sha256.js'
import type { FileInfo, UploadProgress } from './wire.js'

/** A source that can be read in parts, such as a file. It must not change. */
export interface Readable {
  readonly size: number
  /** Returns the bytes from `start` up to `end`. */
  read(start: number, end: number): Promise<Uint8Array>
  /** The checksum in hexadecimal. If it is missing, it is computed by reading everything once more. */
  sha256?(): Promise<string>
}

/** The sources of an upload. */
export type UploadSource = Uint8Array | string | Blob | Readable

/** Options of an upload. */
export interface UploadOptions {
  /** The permissions in octal. Default: those of the replaced file, or `0644`. */
  mode?: string
  /** False refuses to replace an existing file, with `conflict`. */
  overwrite?: boolean
  /** Is called with the number of copied bytes and the total. It begins where an interrupted upload has ended. */
  onProgress?: (done: number, total: number) => void
  signal?: AbortSignal
}

/** The size of one request. If a request is cut off, the server keeps the bytes that it has received. */
const pieceSize = 4 << 20

/** How often the server may name an offset that is not ahead before that is an error. */
const maxSetbacks = 5

/** The number of bytes a millisecond at which a slow server reads for their checksum. */
const sumRate = 50_000

/** See Files.upload. */
export async function upload(caller: Caller, data: UploadSource, path: string, options: UploadOptions): Promise<FileInfo> {
  const { mode, overwrite = true, onProgress, signal } = options
  const op = `upload ${path}`
  const source = readable(data)
  const { size } = source
  const name = { path, size, sha256: await (source.sha256?.() ?? sumOf(source, signal)) }
  const asking: Request = { op, method: 'GET', path: '/v1/files/upload', query: parameters(name), patient: true }
  let at = await caller.json<UploadProgress>(asking, signal)
  if (at.complete && overwrite) {
    onProgress?.(size, size)
    return at.file!
  }
  const headers = { 'Content-Type': 'application/octet-stream' }
  for (let setbacks = 0; ; ) {
    onProgress?.(at.offset, size)
    const { offset } = at
    const body = await source.read(offset, Math.min(offset + pieceSize, size))
    const query = parameters({ ...name, offset, mode, parents: 'true', overwrite: String(overwrite) })
    const timeout = caller.settings.timeout + (offset + body.length === size ? size / sumRate : 0)
    const request: Request = { op, method: 'PUT', path: '/v1/files/content', query, headers, body, timeout }
    try {
      at = await caller.json<UploadProgress>(request, signal)
    } catch (error) {
      const there = error instanceof ProblemError ? error.problem.offset : undefined
      if (there === undefined || there > size || (there <= offset && ++setbacks > maxSetbacks)) throw changed(error, op)
      at = { offset: there, complete: false } // a restart, or an answer that was lost
    }
    if (at.complete) {
      onProgress?.(size, size)
      return at.file!
    }
  }
}

/** Bytes with another checksum are those of a source that has changed. */
function changed(error: unknown, op: string): unknown {
  if (!(error instanceof ProblemError && error.problem.field === 'sha256')) return error
  const wrong = new RepriseError('file_changed', false, `${op}: the data has changed while it was read`, { cause: error })
  wrong.op = op
  return wrong
}

function readable(data: UploadSource): Readable {
  if (typeof data === 'string') return ofBytes(new TextEncoder().encode(data))
  if (data instanceof Uint8Array) return ofBytes(data)
  if ('read' in data) return data
  if (!(data instanceof Blob)) throw new InvalidError('what is uploaded is a text, bytes, a Blob, or has size and read()')
  return { size: data.size, read: async (start, end) => new Uint8Array(await data.slice(start, end).arrayBuffer()) }
}

function ofBytes(bytes: Uint8Array): Readable {
  return { size: bytes.length, read: async (start, end) => bytes.subarray(start, end) }
}

async function sumOf(source: Readable, signal: AbortSignal | undefined): Promise<string> {
  const sum = new SHA256()
  for (let at = 0; at < source.size; at += pieceSize) {
    sum.update(await source.read(at, Math.min(at + pieceSize, source.size)))
    signal?.throwIfAborted()
  }
  return sum.hex()
}
