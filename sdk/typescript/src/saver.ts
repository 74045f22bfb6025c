import { RepriseError } from './errors.js'
import { within } from './wait.js'

/**
 * Keeps the cursor of one reader of one stream. A loop calls its methods one at a time and never while its body runs; what
 * it saves belongs to that loop alone.
 */
export interface CursorStore {
  /** Returns the cursor that was saved last, or undefined (or an empty text) if there is none. */
  load(): Promise<string | undefined> | string | undefined
  /** Replaces the stored cursor. Once it is done, a killed program finds this cursor again. */
  save(cursor: string): Promise<void> | void
}

/** Bounds the last save of a loop whose signal is aborted. */
const saveTimeout = 5_000

/** Saves the cursor of handled events periodically: between two events, and while the loop waits for bytes. */
export class Saver {
  private pending = '' // handled but not saved
  private saved = -Infinity
  private timer: ReturnType<typeof setTimeout> | undefined
  private running: Promise<void> | undefined

  /** @param every the least time between two saves; negative saves after each event */
  constructor(
    private readonly store: CursorStore | undefined,
    private readonly every: number,
  ) {}

  async load(): Promise<string> {
    try {
      return (await this.store?.load()) ?? ''
    } catch (error) {
      throw wrapped('load the cursor', error)
    }
  }

  /** Records that everything up to cursor was handled. Returns a promise if a save is due. */
  handled(cursor: string): Promise<void> | undefined {
    if (!this.store) return undefined
    this.pending = cursor
    return this.untilDue() > 0 ? undefined : this.flush()
  }

  private untilDue(): number {
    return this.every - (performance.now() - this.saved)
  }

  /** Starts the timer that saves the pending cursor while the loop waits. An error of the save goes to fail. */
  beginWait(fail: (error: unknown) => void): void {
    if (this.pending === '') return
    this.timer = setTimeout(() => {
      this.running = this.flush().catch(fail)
    }, Math.max(this.untilDue(), 0))
  }

  /** Stops the timer and waits for its save. */
  endWait(): Promise<void> | undefined {
    clearTimeout(this.timer)
    const { running } = this
    this.running = undefined
    return running
  }

  /** Saves the pending cursor, due or not, even if the loop was aborted. */
  async flush(): Promise<void> {
    if (this.pending === '' || !this.store) return
    const cursor = this.pending
    this.pending = ''
    this.saved = performance.now()
    try {
      await within(saveTimeout, () => new Error('it takes too long'), undefined, (late) => {
        const expired = new Promise<never>((_, reject) =>
          late.addEventListener('abort', () => reject(late.reason), { once: true }),
        )
        return Promise.race([expired, this.store!.save(cursor)])
      })
    } catch (error) {
      throw wrapped(`save the cursor ${cursor}`, error)
    }
  }
}

function wrapped(what: string, error: unknown): RepriseError {
  if (error instanceof RepriseError) return error
  return new RepriseError('cursor_store', false, `${what}: ${error instanceof Error ? error.message : error}`, { cause: error })
}
