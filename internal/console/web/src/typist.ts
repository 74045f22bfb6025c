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
  private readonly encoder = new TextEncoder()
  private pending = ''
  private offset = 0
  private busy = false
  private stopped = false

  constructor(
    private readonly id: string,
    private readonly changed: () => void,
  ) {}

  type(text: string): void {
    if (this.problem || this.pending.length + text.length > maxPending) return
    this.pending += text
    if (!this.busy) void this.work()
  }

  stop(): void {
    this.stopped = true
  }

  private async work(): Promise<void> {
    this.busy = true
    for (let failures = 0; this.pending !== '' && !this.stopped && !this.problem; ) {
      const text = this.pending
      const body = this.encoder.encode(text)
      try {
        const query = `?writer=${this.writer}&offset=${this.offset}`
        await send(pathOf('executions', this.id, `/stdin${query}`), { method: 'POST', headers: { 'Content-Type': 'application/octet-stream' }, body })
        this.offset += body.length
        this.pending = this.pending.slice(text.length)
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
