// What a tab knows of the connection that all tabs share; see hub.ts.

import { theLogin } from './login'
import type { Frame } from './sse'

export type ToHub =
  | { kind: 'enter' | 'exit' | 'bye'; id: number }
  | { kind: 'join'; id: number; of: string; cursor: string; secret: string }
  | { kind: 'handled'; id: number; size: number }
  | { kind: 'leave'; id: number; cut: boolean }

export type FromHub =
  | { kind: 'followers'; count: number }
  | { kind: 'head'; id: number; tail: string }
  | { kind: 'frames'; id: number; frames: Frame[]; size: number }
  | { kind: 'lost'; id: number }

export type News = Exclude<FromHub, { kind: 'followers' }>

/** A place in the shared connection. */
export class Seat {
  private readonly news: News[] = []
  private wake: (() => void) | undefined

  constructor(
    private readonly link: Link,
    readonly id: number,
  ) {}

  /** Waits for what comes next. It is "lost" when the signal is aborted. */
  async next(signal: AbortSignal): Promise<News> {
    while (this.news.length === 0) {
      if (signal.aborted) return { kind: 'lost', id: this.id }
      await new Promise<void>((resolve) => {
        this.wake = resolve
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
    return this.news.shift()!
  }

  push(news: News): void {
    this.news.push(news)
    this.wake?.()
  }

  handled(size: number): void {
    this.link.say({ kind: 'handled', id: this.id, size })
  }

  /** Leaves; with cut, the connection is closed under those who share it, too. */
  leave(cut: boolean): void {
    this.link.leave(this.id, cut)
  }
}

/** The tab's line to the hub. */
export class Link {
  /** How many followers there are in all tabs. */
  followers = 1

  private readonly seats = new Map<number, Seat>()
  private readonly entered = new Map<number, () => void>()
  private last = 0

  constructor(private readonly port: MessagePort) {
    port.onmessage = ({ data }: MessageEvent<FromHub>) => this.hear(data)
    addEventListener('pagehide', () => this.say({ kind: 'bye', id: 0 }))
    addEventListener('pageshow', ({ persisted }) => persisted && location.reload()) // it was forgotten
  }

  /** Takes part in the count of followers until exit is called. changed is called when the count changes. */
  enter(changed: () => void): { exit(): void } {
    const id = ++this.last
    this.entered.set(id, changed)
    this.say({ kind: 'enter', id })
    return {
      exit: () => {
        this.entered.delete(id)
        this.say({ kind: 'exit', id })
      },
    }
  }

  join(of: string, cursor: string): Seat {
    const seat = new Seat(this, ++this.last)
    this.seats.set(seat.id, seat)
    this.say({ kind: 'join', id: seat.id, of, cursor, secret: theLogin.secret })
    return seat
  }

  leave(id: number, cut: boolean): void {
    this.seats.delete(id)
    this.say({ kind: 'leave', id, cut })
  }

  say(message: ToHub): void {
    this.port.postMessage(message)
  }

  /** The hub does not answer any more: everybody goes on alone. */
  fail(): void {
    for (const id of this.seats.keys()) this.hear({ kind: 'lost', id })
    this.hear({ kind: 'followers', count: 1 })
  }

  private hear(message: FromHub): void {
    if (message.kind !== 'followers') {
      this.seats.get(message.id)?.push(message)
      return
    }
    this.followers = message.count
    for (const changed of this.entered.values()) changed()
  }
}

let link: Link | undefined

/** The line of this page to the hub. It is undefined where there are no shared workers: each tab then has a connection of its own. */
export function theLink(): Link | undefined {
  const script = typeof document === 'undefined' ? undefined : document.getElementById('app')?.dataset.hub
  if (!link && script && typeof SharedWorker !== 'undefined') {
    try {
      const worker = new SharedWorker(script)
      const made = new Link(worker.port)
      worker.addEventListener('error', () => made.fail())
      link = made
    } catch {
      // The browser allows none here.
    }
  }
  return link
}
