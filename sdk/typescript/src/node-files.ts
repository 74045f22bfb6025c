import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, link, open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Reprise } from './client.js'
import { ProtocolError, RepriseError } from './errors.js'
import type { UploadOptions } from './upload.js'
import type { FileInfo } from './wire.js'

/** Copies a local file to a path of the server; see {@link Files.upload}. Default of `mode`: that of the file. */
export async function uploadFile(reprise: Reprise, local: string, path: string, options: UploadOptions = {}): Promise<FileInfo> {
  const file = await open(local)
  try {
    const { size, mode } = await file.stat()
    const read = async (start: number, end: number) => {
      const bytes = new Uint8Array(end - start)
      const { bytesRead } = await file.read(bytes, 0, bytes.length, start)
      if (bytesRead < bytes.length) throw changed(local)
      return bytes
    }
    const permissions = (mode & 0o777).toString(8).padStart(4, '0')
    return await reprise.files.upload({ size, read, sha256: () => sumOf(local, size) }, path, { mode: permissions, ...options })
  } finally {
    await file.close()
  }
}

/** Options of downloading a file to this machine. */
export interface DownloadFileOptions {
  /** False refuses to replace an existing file. */
  overwrite?: boolean
  /** Is called with the number of present bytes and the total. */
  onProgress?: (done: number, total: number) => void
  signal?: AbortSignal
}

/**
 * Copies a file of the server to this machine, where it appears once it is complete and its checksum is verified. The copy
 * continues after lost connections. After an error or a kill it continues with the bytes that have arrived, which are in a
 * hidden file next to `local`. If the file changes meanwhile, the error is `file_changed`.
 */
export async function downloadFile(
  reprise: Reprise,
  path: string,
  local: string,
  options: DownloadFileOptions = {},
): Promise<FileInfo> {
  const { overwrite = true, signal } = options
  const scope = signal && { signal }
  let file = await reprise.files.show(path, scope)
  if (file.type === 'symlink') file = await reprise.files.show(path, { ...scope, checksum: true })
  const version = createHash('sha256').update([basename(local), path, file.etag].join('\0')).digest('hex').slice(0, 16)
  const name = join(dirname(local), `.reprise-${version}.part`)
  const part = await open(name, 'a', 0o600)
  try {
    await fill(reprise, path, file, part, options)
    const there = await reprise.files.show(path, { ...scope, checksum: true })
    if (there.etag !== file.etag) throw changed(path)
    if (there.sha256 !== (await sumOf(name, file.size))) throw new ProtocolError('the bytes have another checksum than the server\'s')
    await part.chmod(Number.parseInt(file.mode, 8) & 0o777)
    await part.sync()
    if (overwrite) {
      await rename(name, local)
    } else {
      await link(name, local)
      await rm(name)
    }
    return there
  } catch (error) {
    if (error instanceof ProtocolError || (error as { code?: string }).code === 'file_changed') await rm(name, { force: true })
    throw error
  } finally {
    await part.close()
  }
}

/** Downloads the missing bytes of part. */
async function fill(reprise: Reprise, path: string, file: FileInfo, part: FileHandle, options: DownloadFileOptions): Promise<void> {
  const { onProgress, signal } = options
  let { size: have } = await part.stat()
  if (have > file.size) {
    await part.truncate(0)
    have = 0
  }
  onProgress?.(have, file.size)
  const from = { offset: have, ...(file.etag !== undefined && { etag: file.etag }), ...(signal && { signal }) }
  for await (const bytes of reprise.files.download(path, from) as unknown as AsyncIterable<Uint8Array>) {
    await part.appendFile(bytes)
    have += bytes.length
    onProgress?.(have, file.size)
  }
}

async function sumOf(path: string, size: number): Promise<string> {
  const sum = createHash('sha256')
  if (size > 0) for await (const bytes of createReadStream(path, { end: size - 1 })) sum.update(bytes as Uint8Array)
  return sum.digest('hex')
}

function changed(what: string): RepriseError {
  return new RepriseError('file_changed', false, `${what} has changed meanwhile`)
}
