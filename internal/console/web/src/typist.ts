import { type Problem, pathOf, problemOf, send } from './api'
import { randomID } from './format'

/** What is typed while no request gets through is kept as far as that. */
const maxPending = 1 << 20
const longestWait = 5000

/**
 * Types into the stdin of a run, each byte once: a request whose answer was lost is sent again with the same offset. Each
 * Typist counts for itself, so that several can type into one terminal.
 */
export class Typist {
  /** What the server has said no to, after which nothing is typed any more. */
  problem: Problem | undefined
  /** Something could not be sent yet. */
  waiting = false

  private readonly writer = randomID()
  private pending = new Uint8Array()
  private offset = 0
  private busy = false
  private stopped = false

  constructor(
    private readonly id: string,
    private readonly changed: () => void,
  ) {}

  type(bytes: Uint8Array): void {
    if (this.problem || this.pending.length + bytes.length > maxPending) return
    const all = new Uint8Array(this.pending.length + bytes.length)
    all.set(this.pending)
    all.set(bytes, this.pending.length)
    this.pending = all
    if (!this.busy) void this.work()
  }

  stop(): void {
    this.stopped = true
  }

  private async work(): Promise<void> {
    this.busy = true
    for (let failures = 0; this.pending.length > 0 && !this.stopped && !this.problem; ) {
      const body = this.pending
      try {
        const query = `?writer=${this.writer}&offset=${this.offset}`
        await send(pathOf('executions', this.id, `/stdin${query}`), { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body })
        this.offset += body.length
        this.pending = this.pending.slice(body.length)
        this.tell(false)
        failures = 0
      } catch (error) {
        const problem = problemOf(error)
        if (!problem.retryable) {
          this.problem = problem
          this.tell(false)
          break
        }
        this.tell(true)
        const wait = Math.max(problem.retryAfter, Math.min(longestWait, 250 * 2 ** failures++) * Math.random())
        await new Promise((resolve) => setTimeout(resolve, wait))
      }
    }
    this.busy = false
  }

  private tell(waiting: boolean): void {
    if (waiting === this.waiting && !this.problem) return
    this.waiting = waiting
    this.changed()
  }
}
