import { type Caller, type Request, checkName, jsonRequest, parameters, pathOf } from './call.js'
import type { DownloadOptions } from './download.js'
import type { EndEvent, GapEvent, PublishedEvent } from './event.js'
import type { FollowOptions } from './follow.js'
import { Follow } from './loop.js'
import type { UploadOptions, UploadSource } from './upload.js'
import type { FileChange, FileInfo, FilePage, Watch } from './wire.js'

interface CallOptions {
  signal?: AbortSignal
}

/** What has happened below a directory that is watched. What was removed is shown as it was. */
export type ChangeEvent = PublishedEvent<'created' | 'modified' | 'removed' | 'moved', FileChange> | EndEvent | GapEvent

/**
 * The files that a server with `--files` gives. A path begins with the name of a root: `work/src/main.go`. What uploads and
 * downloads is loaded when it is first used, so that pages without them need not have it.
 */
export class Files {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns one page of a directory, in the order of names; without a path, of the roots. */
  list(path = '', options: { limit?: number; cursor?: string } & CallOptions = {}): Promise<FilePage> {
    const { limit, cursor, signal } = options
    return this.get(`list ${path || 'the roots'}`, '', { path, limit, cursor }, signal)
  }

  /**
   * Returns one page of what is below a directory: `name` is a pattern for the last segment, `text` what a line has to
   * contain. A page may be empty although there is a next one.
   */
  search(
    path: string,
    options: { name?: string; text?: string; limit?: number; cursor?: string } & CallOptions = {},
  ): Promise<FilePage> {
    const { name, text, limit, cursor, signal } = options
    return this.get(`search ${path}`, '/search', { path, name, text, limit, cursor }, signal)
  }

  /** Returns one entry; with `checksum`, its SHA-256 too, for which a link is followed. */
  show(path: string, options: { checksum?: boolean } & CallOptions = {}): Promise<FileInfo> {
    const { checksum, signal } = options
    return this.get(`show ${path}`, '/stat', { path, checksum: checksum ? 'true' : undefined }, signal)
  }

  /**
   * Copies bytes, a text, a Blob or a file of a page to a path, where it appears when all of it has arrived with the right
   * checksum. It goes on through lost connections and restarts of the server, and after an error, or in another program,
   * with what has arrived before: call it again with the same data.
   */
  async upload(data: UploadSource, path: string, options: UploadOptions = {}): Promise<FileInfo> {
    const { upload } = await import('./upload.js')
    return upload(this.caller, data, path, options)
  }

  /**
   * Reads a file, through lost connections and restarts of the server. All bytes are of one version, and the checksum is
   * compared before the end: the stream fails with `file_changed` if somebody has changed the file meanwhile.
   */
  download(path: string, options: DownloadOptions = {}): ReadableStream<Uint8Array> {
    const loading = import('./download.js').then(({ Downloader }) => new Downloader(this.caller, path, options))
    loading.catch(() => {}) // pull tells
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const bytes = await (await loading).read()
          if (bytes) controller.enqueue(bytes)
          else controller.close()
        },
        cancel: async (reason) => (await loading).leave(reason),
      },
      { highWaterMark: 0 },
    )
  }

  /** Makes a directory; with `parents` those above it too, and one that is there is no conflict. */
  makeDirectory(path: string, options: { mode?: string; parents?: boolean } & CallOptions = {}): Promise<FileInfo> {
    const { signal, ...members } = options
    return this.change(`make directory ${path}`, '/directory', { path, ...members }, signal)
  }

  /** Gives a file or directory another path in its root. A file that is there is replaced with `overwrite` alone. */
  move(from: string, to: string, options: { overwrite?: boolean } & CallOptions = {}): Promise<FileInfo> {
    const { signal, ...members } = options
    return this.change(`move ${from}`, '/move', { from, to, ...members }, signal)
  }

  /** Sets the permissions, in octal: `0644`. */
  setMode(path: string, mode: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.change(`set the mode of ${path}`, '/permissions', { path, mode }, options.signal)
  }

  /** Removes a file, or a directory; with `recursive` with everything in it. What is not there is removed already. */
  remove(path: string, options: { recursive?: boolean } & CallOptions = {}): Promise<void> {
    const query = parameters({ path, recursive: options.recursive ? 'true' : undefined })
    return this.caller.empty({ op: `remove ${path}`, method: 'DELETE', path: '/v1/files', query }, options.signal)
  }

  /** Begins to watch a directory, with `recursive` the directories in it too, and says from where on {@link changes} tells. */
  watch(path: string, options: { recursive?: boolean } & CallOptions = {}): Promise<Watch> {
    const { signal, recursive = false } = options
    return this.caller.json(jsonRequest(`watch ${path}`, 'POST', '/v1/files/watches', { path, recursive }), signal)
  }

  /**
   * Yields what happens below a directory that is watched, each change once and in order; see {@link Reprise.follow}. It
   * begins with what happens after the call of {@link watch}, or for an id with the first change that is kept.
   */
  changes(watch: Watch | string, options: FollowOptions = {}): Follow<ChangeEvent> {
    const id = typeof watch === 'string' ? watch : watch.id
    const from = typeof watch === 'string' ? options : { after: watch.cursor, ...options }
    return new Follow({ caller: this.caller, op: `follow watch ${id}`, name: id, path: pathOf('files/watches', id) }, from)
  }

  /** Forgets a watch, for all who read it. */
  async unwatch(id: string, options: CallOptions = {}): Promise<void> {
    const op = `remove watch ${id}`
    checkName(op, id)
    return this.caller.empty({ op, method: 'DELETE', path: pathOf('files/watches', id) }, options.signal)
  }

  private get<T>(op: string, rest: string, query: Record<string, string | number | undefined>, signal?: AbortSignal): Promise<T> {
    const request: Request = { op, method: 'GET', path: `/v1/files${rest}`, query: parameters(query), patient: true }
    return this.caller.json(request, signal)
  }

  private change(op: string, rest: string, body: object, signal: AbortSignal | undefined): Promise<FileInfo> {
    return this.caller.json(jsonRequest(op, 'POST', `/v1/files${rest}`, body), signal)
  }
}
