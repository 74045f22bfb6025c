import { type Caller, type Request, checkName, jsonRequest, parameters, pathOf } from './call.js'
import type { DownloadOptions } from './download.js'
import type { EndEvent, GapEvent, PublishedEvent } from './event.js'
import type { FollowOptions } from './follow.js'
import { Follow } from './loop.js'
import { lazyStream, part } from './part.js'
import type { UploadOptions, UploadSource } from './upload.js'
import type { FileChange, FileInfo, FilePage, Watch } from './wire.js'

interface CallOptions {
  signal?: AbortSignal
}

/** A change below a watched directory. A removed file is described as it was. */
export type ChangeEvent = PublishedEvent<'created' | 'modified' | 'removed' | 'moved', FileChange> | EndEvent | GapEvent

/**
 * The files of a server with `--files`. A path begins with the name of a root: `work/src/main.go`. The code for uploads and
 * downloads is loaded on first use, so that other pages do not load it.
 */
export class Files {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns one page of a directory, ordered by name; without a path, of the roots. */
  list(path = '', options: { limit?: number; cursor?: string } & CallOptions = {}): Promise<FilePage> {
    const { limit, cursor, signal } = options
    return this.get(`list ${path || 'the roots'}`, '', { path, limit, cursor }, signal)
  }

  /**
   * Returns one page of the entries below a directory: `name` is a pattern for the last segment, `text` is text that a line
   * must contain. A page may be empty although there is a next one.
   */
  search(
    path: string,
    options: { name?: string; text?: string; limit?: number; cursor?: string } & CallOptions = {},
  ): Promise<FilePage> {
    const { name, text, limit, cursor, signal } = options
    return this.get(`search ${path}`, '/search', { path, name, text, limit, cursor }, signal)
  }

  /** Returns one entry; with `checksum`, also its SHA-256, for which links are followed. */
  show(path: string, options: { checksum?: boolean } & CallOptions = {}): Promise<FileInfo> {
    const { checksum, signal } = options
    return this.get(`show ${path}`, '/stat', { path, checksum: checksum ? 'true' : undefined }, signal)
  }

  /**
   * Copies bytes, a text, a Blob or a file of a page to a path, where it appears once it is complete and its checksum is
   * verified. The copy continues after lost connections and restarts of the server. Called again with the same data after an
   * error, or in another program, it continues with the bytes that have arrived.
   */
  async upload(data: UploadSource, path: string, options: UploadOptions = {}): Promise<FileInfo> {
    const { upload } = await part(import('./upload.js'))
    return upload(this.caller, data, path, options)
  }

  /**
   * Reads a file, over lost connections and restarts of the server. All bytes belong to one version, and the checksum is
   * verified before the end: the stream fails with `file_changed` if the file changes meanwhile.
   */
  download(path: string, options: DownloadOptions = {}): ReadableStream<Uint8Array> {
    return lazyStream(part(import('./download.js')).then(({ Downloader }) => new Downloader(this.caller, path, options)))
  }

  /**
   * Makes a directory; with `parents`, also the missing ones above it, and an existing directory is not an error. Without `parents`
   * the request is not sent again once it may have arrived, because a second one would find the directory.
   */
  makeDirectory(path: string, options: { mode?: string; parents?: boolean } & CallOptions = {}): Promise<FileInfo> {
    const { signal, ...members } = options
    return this.change(`make directory ${path}`, '/directory', { path, ...members }, signal, !members.parents)
  }

  /**
   * Moves a file or directory within its root. An existing target is replaced only with `overwrite`. The request is not sent again
   * once it may have arrived, because a second move would find nothing.
   */
  move(from: string, to: string, options: { overwrite?: boolean } & CallOptions = {}): Promise<FileInfo> {
    const { signal, ...members } = options
    return this.change(`move ${from}`, '/move', { from, to, ...members }, signal, true)
  }

  /** Sets the permissions, in octal: `0644`. */
  setMode(path: string, mode: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.change(`set the mode of ${path}`, '/permissions', { path, mode }, options.signal)
  }

  /** Removes a file or a directory; with `recursive`, including its contents. A missing file is not an error. */
  remove(path: string, options: { recursive?: boolean } & CallOptions = {}): Promise<void> {
    const query = parameters({ path, recursive: options.recursive ? 'true' : undefined })
    return this.caller.empty({ op: `remove ${path}`, method: 'DELETE', path: '/v1/files', query }, options.signal)
  }

  /** Begins to watch a directory, with `recursive` including subdirectories, and returns where {@link changes} begins. */
  watch(path: string, options: { recursive?: boolean } & CallOptions = {}): Promise<Watch> {
    const { signal, recursive = false } = options
    return this.caller.json(jsonRequest(`watch ${path}`, 'POST', '/v1/files/watches', { path, recursive }), signal)
  }

  /**
   * Yields the changes below a watched directory, each once and in order; see {@link Reprise.follow}. It begins after the call
   * of {@link watch} or, for an id, with the first change that is kept.
   */
  changes(watch: Watch | string, options: FollowOptions = {}): Follow<ChangeEvent> {
    const id = typeof watch === 'string' ? watch : watch.id
    const from = typeof watch === 'string' ? options : { after: watch.cursor, ...options }
    return new Follow({ caller: this.caller, op: `follow watch ${id}`, name: id, path: pathOf('files/watches', id) }, from)
  }

  /** Removes a watch, for all its readers. */
  async unwatch(id: string, options: CallOptions = {}): Promise<void> {
    const op = `remove watch ${id}`
    checkName(op, id)
    return this.caller.empty({ op, method: 'DELETE', path: pathOf('files/watches', id) }, options.signal)
  }

  private get<T>(op: string, rest: string, query: Record<string, string | number | undefined>, signal?: AbortSignal): Promise<T> {
    const request: Request = { op, method: 'GET', path: `/v1/files${rest}`, query: parameters(query), patient: true }
    return this.caller.json(request, signal)
  }

  private change(op: string, rest: string, body: object, signal: AbortSignal | undefined, once = false): Promise<FileInfo> {
    return this.caller.json({ ...jsonRequest(op, 'POST', `/v1/files${rest}`, body), once }, signal)
  }
}
