/** Waits for ms milliseconds. It rejects with the reason of signal as soon as that is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal!.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, Math.min(ms, 2 ** 31 - 1))
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** Runs work with a signal that is aborted with outer, and after ms milliseconds with the error that late makes. */
export async function within<T>(
  ms: number,
  late: () => unknown,
  outer: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const inner = linked(outer)
  const timer = setTimeout(() => inner.abort(late()), ms)
  try {
    return await work(inner.signal)
  } finally {
    clearTimeout(timer)
    inner.unlink()
  }
}

/** A controller that is aborted with another signal until it is unlinked. */
export interface Linked {
  signal: AbortSignal
  /** Whether signal is aborted. A signal of the platform reports it with a delay. */
  aborted: boolean
  abort(reason: unknown): void
  unlink(): void
}

/** Returns a Linked that follows outer. AbortSignal.any needs Safari 17.4 and leaks in Node 20. */
export function linked(outer: AbortSignal | undefined): Linked {
  const controller = new AbortController()
  const onAbort = () => link.abort(outer!.reason)
  const link: Linked = {
    signal: controller.signal,
    aborted: false,
    abort(reason) {
      link.aborted = true
      controller.abort(reason)
    },
    unlink: () => outer?.removeEventListener('abort', onAbort),
  }
  if (outer?.aborted) onAbort()
  outer?.addEventListener('abort', onAbort, { once: true })
  return link
}

/**
 * Computes the wait after each consecutive failure. The first failure after a success needs no wait. For the others it is the
 * time that the server asks for plus a random part of a span, which doubles with each failure ("full jitter").
 */
export class Failures {
  /** Failures since the last success. */
  tries = 0
  /** When the first of them was, as performance.now() counts. */
  since = 0
  private immediate = false
  private span = 0

  constructor(
    private readonly min: number,
    private readonly max: number,
  ) {}

  /** Counts a failure and returns the time to wait. */
  next(asked: number): number {
    if (this.tries === 0) this.since = performance.now()
    this.tries++
    if (this.immediate) {
      this.immediate = false
      return 0
    }
    this.span = Math.min(this.span === 0 ? this.min : this.span * 2, this.max)
    return asked + Math.random() * this.span
  }

  /** Records a success: the next failure counts as the first one. */
  succeeded(): void {
    this.tries = 0
    this.immediate = true
    this.span = 0
  }

  /** Reports whether a wait would exceed a limit on the time since the first failure; undefined is no limit. */
  outlasts(bound: number | undefined, wait: number): boolean {
    if (bound === 0) return true
    return bound !== undefined && performance.now() - this.since + wait > bound
  }
}
