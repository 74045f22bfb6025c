import type { Reprise } from './client.js'
import { RepriseError } from './errors.js'
import type { StreamEvent } from './event.js'
import type { FollowOptions } from './follow.js'

/** The address of an answer, which the application sends to the page. */
export interface Answer {
  /** The name of the stream. */
  stream: string
  /** Permits reading the stream, and nothing else, for an hour. */
  ticket: string
  /** The Reprise server. */
  url: string
  /** The silence, in milliseconds, after which the writer counts as dead. */
  orphanAfter: number
}

/** Options of reading an answer. */
export interface ReadOptions extends FollowOptions {
  orphanAfter: number
  /** Is called, repeatedly, when the writer seems to be dead. Without it the answer then ends with an error. */
  onOrphan?: () => Promise<void>
}

/** Reads one answer, each chunk once and in order. */
export class AnswerReader<Chunk> {
  private readonly events: AsyncIterator<StreamEvent, undefined>
  private waitingSince: number | undefined // since when it has been asked for more and connected
  private asked = false
  private connected = false
  private watch: ReturnType<typeof setInterval> | undefined
  private orphaned: ((error: Error) => void) | undefined
  private ahead: Promise<Chunk | undefined> | undefined

  constructor(
    reprise: Reprise,
    stream: string,
    private readonly options: ReadOptions,
  ) {
    const follow: FollowOptions = {
      ...options,
      onGap: 'raise',
      onDrop: (drop) => {
        this.connected = false
        options.onDrop?.(drop)
      },
      onConnected: () => {
        this.connected = true
        this.alive()
        options.onConnected?.()
      },
    }
    this.events = reprise.streams.follow(stream, follow)[Symbol.asyncIterator]()
  }

  /** The chunks, each as map makes it; undefined is left out. */
  stream(map: (chunk: Chunk) => Chunk | undefined): ReadableStream<Chunk> {
    return this.readable(async () => {
      for (;;) {
        const chunk = await this.next()
        if (chunk === undefined) return undefined
        const mapped = map(chunk)
        if (mapped !== undefined) return mapped
      }
    })
  }

  /** The chunks, those that come within a moment merged as merge says; it is undefined for two that cannot be. */
  merged(merge: (a: Chunk, b: Chunk) => Chunk | undefined): ReadableStream<Chunk> {
    return this.readable(async () => {
      let chunk: Chunk | undefined = await this.takeAhead()
      if (chunk === undefined) return undefined
      let timer: ReturnType<typeof setTimeout> | undefined
      const moment = new Promise<'over'>((resolve) => (timer = setTimeout(() => resolve('over'), 5)))
      try {
        for (;;) {
          const next: Chunk | 'over' | undefined = await Promise.race([(this.ahead ??= this.next()), moment])
          const both: Chunk | undefined = next === 'over' || next === undefined ? undefined : merge(chunk as Chunk, next as Chunk)
          if (both === undefined) return chunk
          this.ahead = undefined
          chunk = both
        }
      } catch {
        return chunk // what has failed fails again when it is taken
      } finally {
        clearTimeout(timer)
      }
    })
  }

  private takeAhead(): Promise<Chunk | undefined> {
    const next = this.ahead ?? this.next()
    this.ahead = undefined
    return next
  }

  private readable(read: () => Promise<Chunk | undefined>): ReadableStream<Chunk> {
    return new ReadableStream<Chunk>(
      {
        pull: async (controller) => {
          try {
            const chunk = await read()
            if (chunk !== undefined) return controller.enqueue(chunk)
            this.stop()
            controller.close()
          } catch (error) {
            this.stop()
            throw error
          }
        },
        cancel: () => this.stop(),
      },
      { highWaterMark: 0 },
    )
  }

  private stop(): void {
    clearInterval(this.watch)
    this.events.return?.().catch(() => {})
  }

  /** Returns the next chunk, undefined after the last one. */
  private async next(): Promise<Chunk | undefined> {
    this.asked = true
    this.alive()
    this.watch ??= setInterval(() => this.check(), this.options.orphanAfter / 4)
    const orphaned = new Promise<never>((_, reject) => (this.orphaned = reject))
    try {
      for (;;) {
        const { value: event } = await Promise.race([this.events.next(), orphaned])
        this.alive()
        if (!event) return undefined
        if (event.type === 'chunk') return event.data as Chunk
        if (event.type === 'end') {
          const end = (event as { data: { outcome: string; data?: { error?: string } } }).data
          if (end.outcome === 'completed') return undefined
          throw new RepriseError('answer_failed', false, end.data?.error ?? `the answer is ${end.outcome}`)
        }
      }
    } finally {
      this.asked = false
    }
  }

  private alive(): void {
    this.waitingSince = performance.now()
  }

  private check(): void {
    if (!this.asked || !this.connected || performance.now() - this.waitingSince! < this.options.orphanAfter) return
    this.alive()
    if (this.options.onOrphan) this.options.onOrphan().catch(() => {}) // asked again after a while
    else this.orphaned?.(new RepriseError('answer_failed', true, 'the program that writes this answer has died'))
  }
}
