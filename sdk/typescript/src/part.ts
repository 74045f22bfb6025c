import { ConnectionError } from './errors.js'

/** Waits for a module that is loaded on first use. In a page that needs the network, which may be down. */
export async function part<T>(loading: Promise<T>): Promise<T> {
  try {
    return await loading
  } catch (error) {
    throw new ConnectionError('a part of the client cannot be loaded', { cause: error })
  }
}

/** What fills a stream of bytes. */
export interface Source {
  pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void>
  cancel(reason: unknown): Promise<void> | void
}

/** A stream of bytes whose source is being loaded. */
export function lazyStream(loading: Promise<Source>): ReadableStream<Uint8Array> {
  loading.catch(() => {}) // pull tells
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => (await loading).pull(controller),
      cancel: async (reason) => (await loading).cancel(reason),
    },
    { highWaterMark: 0 },
  )
}
