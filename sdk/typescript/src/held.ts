import { ProblemError } from './errors.js'

/** How many consecutive answers with a header and no body make a loop poll. */
const heldAnswers = 2

/** The longest wait in milliseconds that the server accepts. */
const maxPoll = 60_000

/**
 * Detects a proxy that holds back an answer until it is complete. The loop then polls: it asks for answers that end with the first
 * events, or after a wait. The server sends a heartbeat in the middle of a wait, which shows when answers are no longer held back.
 */
export class Holding {
  private silent = 0 // answers in a row with a header and no body
  private unknown = false // the server is older than the parameter wait
  private beat = 0 // when the present answer has brought a heartbeat
  private readonly wait: number

  constructor(silence: number) {
    this.wait = Math.min(Math.round(silence / 3), maxPoll)
  }

  /** How long an answer may take; undefined while the loop does not poll. */
  get poll(): string | undefined {
    return this.silent < heldAnswers || this.unknown ? undefined : `${this.wait}ms`
  }

  /** Reports whether error is the refusal of a poll by a server that is too old for it. The loop does not poll any more then. */
  refused(error: unknown): boolean {
    if (!this.poll || !(error instanceof ProblemError) || error.code !== 'invalid') return false
    return (this.unknown = true)
  }

  heartbeat(): void {
    this.beat = performance.now()
  }

  /** Takes the end of an answer, and whether one has delivered something. Reports whether it is the expected end of a poll. */
  failed(over: 'held' | 'ended' | undefined, live: boolean): boolean {
    const polled = this.poll !== undefined && over === 'ended'
    const streams = this.beat > 0 && performance.now() - this.beat >= this.wait / 4
    if (over === 'held') this.silent++
    else if (polled ? streams : live && !this.poll) this.silent = 0
    this.beat = 0
    return polled
  }
}
