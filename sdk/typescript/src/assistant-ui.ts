import { Reprise } from './client.js'
import { hasCode } from './errors.js'
import { randomID } from './id.js'
import type { Producer } from './producer.js'

/** A part of a stream. */
export interface ResumableStreamEntry {
  readonly cursor: string
  readonly chunk: Uint8Array
}

/** Whether a caller writes a stream or reads it. */
export type ResumableStreamRole = 'producer' | 'consumer'

/** What a producer shows that it is the one of this stream. */
export interface ResumableStreamLease {
  readonly token: string
}

/** Settings of {@link createResumableStreamStore}. */
export interface ResumableStreamStoreOptions {
  /** Default: the server of REPRISE_URL, with REPRISE_TOKEN. */
  reprise?: Reprise
  /** The prefix of the names of the streams. Default: `assistant-ui/`. */
  prefix?: string
  /** How long a stream is kept after its last chunk and after its end, in milliseconds. Default: 24 hours. */
  ttlMs?: number
}

/** The interface of assistant-ui. */
export interface ResumableStreamStore {
  /** Makes the first caller the producer of a stream, and all later ones its consumers. */
  acquire(streamId: string, options?: { readonly ttlMs?: number }): Promise<ResumableStreamRole>
  /** Is `acquire` with a lease, by which `append` and `finalize` are refused once another producer has the stream. */
  acquireLease(
    streamId: string,
    options?: { readonly ttlMs?: number },
  ): Promise<{ readonly role: 'producer'; readonly lease: ResumableStreamLease } | { readonly role: 'consumer' }>
  /** Stores a chunk. One of more than 512 KiB is read as several. */
  append(streamId: string, chunk: Uint8Array, lease?: ResumableStreamLease): Promise<void>
  /** Ends a stream. It resolves `false` if it has ended, or if the lease no longer has it. */
  finalize(streamId: string, status: 'done' | 'error', error?: string, lease?: ResumableStreamLease): Promise<boolean>
  /**
   * Yields what is behind a cursor, `""` for all, and what follows, over lost connections, until the stream is finalized. It throws
   * if the stream ends with an error, or if chunks that were not read are no longer kept.
   */
  read(streamId: string, cursor: string, signal: AbortSignal): AsyncGenerator<ResumableStreamEntry>
  /** Returns how a stream is. */
  status(streamId: string): Promise<'streaming' | 'done' | 'error' | 'missing'>
  /** Removes a stream, if it exists. Its readers end. */
  delete(streamId: string): Promise<void>
}

/** An error as assistant-ui knows it, by its `code`. */
export class ResumableStreamError extends Error {
  constructor(
    readonly code: 'missing' | 'finalized' | 'invalid-id',
    message: string,
  ) {
    super(message)
    this.name = 'ResumableStreamError'
  }
}

/** A stream that this process writes. */
interface Written {
  readonly token: string
  readonly producer: Producer
}

/** The largest event, in bytes. */
const maxEvent = 512 << 10

/**
 * Returns a `ResumableStreamStore` of assistant-ui on a Reprise server: streams outlive the programs that write and read them, and a
 * chunk is stored once, however often its request has to be sent. A stream whose program has died is never `done`: it becomes an
 * `error` up to ten minutes after `ttlMs`.
 *
 *     const context = createResumableStreamContext({ store: createResumableStreamStore() })
 */
export function createResumableStreamStore(options: ResumableStreamStoreOptions = {}): ResumableStreamStore {
  const reprise = options.reprise ?? new Reprise()
  const prefix = options.prefix ?? 'assistant-ui/'
  const written = new Map<string, Written>() // by stream, until its end

  const nameOf = (streamId: string): string => {
    if (!/^[A-Za-z0-9_.:-]{1,256}$/.test(streamId)) {
      throw new ResumableStreamError('invalid-id', `Invalid streamId: ${streamId}`)
    }
    // Names of streams have no colon, and no dot alone.
    return prefix + streamId.replaceAll('_', '__').replaceAll(':', '_c').replace(/^\./, '_d')
  }

  const numbered = (name: string, id: string, epoch: number): Producer =>
    reprise.producer(name, { id, state: { load: () => `${epoch}.0`, save: () => {} } })

  const isClaimedBy = async (name: string, token: string): Promise<boolean> => {
    const { events } = await reprise.streams.page<{ claim: string }>(name, { limit: 1 })
    const [first] = events
    return first?.type === 'claim' && first.data === token
  }

  const acquireLease: ResumableStreamStore['acquireLease'] = async (streamId, { ttlMs } = {}) => {
    const name = nameOf(streamId)
    const ttl = `${ttlMs ?? options.ttlMs ?? 24 * 60 * 60 * 1000}ms`
    const token = randomID()
    try {
      await reprise.streams.create(name, { retention: { max_age: ttl, max_idle: ttl, max_events: 1_000_000 } })
      // The first to publish under this number is the producer. What it publishes names it, in case the answer is lost.
      const { duplicate } = await numbered(name, 'claim', 1).publish({ type: 'claim', data: token })
      if (duplicate && !(await isClaimedBy(name, token))) return { role: 'consumer' }
    } catch (error) {
      if (hasCode(error, 'conflict', 'stream_ended')) return { role: 'consumer' } // it was made with another time, or is over
      throw error
    }
    // The epoch is higher than that of a producer which had a stream of this name before.
    written.set(streamId, { token, producer: numbered(name, 'writer', Date.now()) })
    return { role: 'producer', lease: { token } }
  }

  const status: ResumableStreamStore['status'] = async (streamId) => {
    try {
      const stream = await reprise.streams.show(nameOf(streamId))
      if (stream.status !== 'ended') return 'streaming'
      return stream.outcome === 'completed' ? 'done' : 'error'
    } catch (error) {
      if (isMissing(error)) return 'missing'
      throw error
    }
  }

  /** Calls f with the producer of a stream, which was acquired here. */
  const write = async (streamId: string, lease: ResumableStreamLease | undefined, f: (producer: Producer) => Promise<unknown>) => {
    nameOf(streamId) // checks it
    const mine = written.get(streamId)
    if (!mine || (lease && lease.token !== mine.token)) {
      const now = await status(streamId)
      if (now === 'missing') throw notFound(streamId)
      throw now === 'streaming' ? superseded(streamId) : finalized(streamId)
    }
    try {
      await f(mine.producer)
    } catch (error) {
      if (isMissing(error)) throw notFound(streamId)
      if (hasCode(error, 'stream_ended')) throw finalized(streamId)
      throw hasCode(error, 'conflict') ? superseded(streamId) : error
    }
  }

  return {
    acquire: async (streamId, options) => (await acquireLease(streamId, options)).role,
    acquireLease,
    status,

    async append(streamId, chunk, lease) {
      await write(streamId, lease, async (producer) => {
        for (let at = 0; at === 0 || at < chunk.length; at += maxEvent) {
          await producer.publishBytes(chunk.slice(at, at + maxEvent), { type: 'chunk' })
        }
      })
    },

    async finalize(streamId, status, error = 'Stream errored', lease) {
      try {
        await write(streamId, lease, (producer) =>
          status === 'done' ? producer.end('completed') : producer.end('failed', { data: { error } }),
        )
        return true
      } catch (refused) {
        if (hasCode(refused, 'missing', 'finalized')) return false
        throw refused
      } finally {
        if (!lease || written.get(streamId)?.token === lease.token) written.delete(streamId)
      }
    },

    async *read(streamId, cursor, signal) {
      const name = nameOf(streamId)
      if ((await status(streamId)) === 'missing') throw notFound(streamId)
      if (signal.aborted) return
      const after = cursor === '' ? {} : { after: cursor }
      try {
        const events = reprise.streams.follow<{ chunk: Uint8Array }>(name, { ...after, signal, types: ['chunk'], onGap: 'raise' })
        for await (const event of events) {
          if (signal.aborted) return
          if (event.type === 'chunk') yield { cursor: event.cursor, chunk: new Uint8Array(event.bytes) }
          if (event.type === 'end' && event.data.outcome !== 'completed') throw new Error(reason(event.data.data))
        }
      } catch (error) {
        if (signal.aborted || hasCode(error, 'not_found')) return // it was deleted
        throw error
      }
    },

    async delete(streamId) {
      try {
        await reprise.streams.remove(nameOf(streamId))
      } catch (error) {
        if (!isMissing(error)) throw error
      }
    },
  }
}

function isMissing(error: unknown): boolean {
  return hasCode(error, 'not_found', 'stream_expired')
}

function notFound(streamId: string): Error {
  return new Error(`Stream not found: ${streamId}`)
}

function finalized(streamId: string): Error {
  return new ResumableStreamError('finalized', `Stream already finalized: ${streamId}`)
}

function superseded(streamId: string): Error {
  return new ResumableStreamError('missing', `Stream superseded by a new acquisition: ${streamId}`)
}

/** Returns why a stream ended with an error. */
function reason(data: unknown): string {
  const { error, code } = (data ?? {}) as { error?: string; code?: string }
  return error ?? (code === 'idle' ? 'the program that wrote this has died' : 'Stream errored')
}
