import { type Caller, type Request, notOurs, parameters, parseDuration, receiptsHeader } from './call.js'
import { ConnectionError } from './errors.js'
import { Failures, linked, sleep, within } from './wait.js'

/** The longest delay of a receipt for a few events, in milliseconds. It is shorter for a server with little patience. */
const receiptEvery = 1000
/** Bounds one try to send a receipt: the server counts the time. */
const receiptTimeout = 5000
/** The spans of the first and of the longest pause after a failed receipt. */
const minPause = 50
const maxPause = 10_000

/**
 * Reports handled events to a server that holds output back. Sent but unhandled events may be lost with the connection, so the
 * server keeps them. A quarter of what may lie without a receipt makes one due at once, less makes it due after a second.
 */
export class Receipts {
  /** The last event that was handled, and the last one with a receipt. */
  private seq = 0
  private sent = 0
  /** Received since the last receipt: of handled events, and of those that the loop has yet to hand out. */
  private bytes = 0
  private unhandled = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private sending: Promise<void> | undefined
  private readonly scope = linked(undefined)

  private constructor(
    private readonly caller: Caller,
    private readonly receipt: Request,
    private readonly enoughEvents: number,
    private readonly enoughBytes: number,
    private readonly every: number,
  ) {}

  /** Returns undefined unless the header of an answer to start, a request for the execution at path, asks for receipts. */
  static wanted(caller: Caller, start: Request, path: string, head: Headers): Receipts | undefined {
    const found = /^events=([0-9]+), bytes=([0-9]+)$/.exec(head.get(receiptsHeader) ?? '')
    if (!found) return undefined
    const patience = parseDuration(start.query?.get('hold')) ?? Infinity
    const headers = { 'Execution-Hold': head.get('Execution-Hold') ?? '' }
    const receipt: Request = { op: start.op, method: 'POST', path: `${path}/receipts`, headers }
    const [events, bytes] = [Number(found[1]) / 4, Number(found[2]) / 4]
    return new Receipts(caller, receipt, Math.max(1, events), Math.max(1, bytes), Math.min(receiptEvery, patience / 4))
  }

  /** Records that the loop has handled all events up to seq. */
  handled(seq: number): void {
    if (seq <= this.seq) return
    this.seq = seq
    this.plan()
  }

  /** Records that the loop has handled all that was received, and waits for more. */
  drained(): void {
    this.bytes += this.unhandled
    this.unhandled = 0
    this.plan()
  }

  /** Records bytes of a connection. */
  received(bytes: number): void {
    this.unhandled = bytes
  }

  /** Ends the sending of receipts, and waits until nothing of it is left. */
  async stop(): Promise<void> {
    this.scope.abort(new ConnectionError('the loop has ended'))
    clearTimeout(this.timer)
    await this.sending
  }

  /** Sends a receipt, now or later, if one is due and none is on its way. */
  private plan(): void {
    if (this.seq <= this.sent || this.sending || this.scope.aborted) return
    if (this.seq - this.sent >= this.enoughEvents || this.bytes >= this.enoughBytes) this.begin()
    else this.timer ??= setTimeout(() => this.begin(), this.every)
  }

  private begin(): void {
    clearTimeout(this.timer)
    this.timer = undefined
    this.sending = this.send().then(() => {
      this.sending = undefined
      this.plan()
    })
  }

  /** Sends one receipt, for all that was handled, until it has arrived or the loop has ended. */
  private async send(): Promise<void> {
    const { signal } = this.scope
    const wait = new Failures(minPause, maxPause)
    while (!this.scope.aborted) {
      const { seq } = this
      this.bytes = 0
      try {
        await within(receiptTimeout, tooLate, signal, (inner) => this.post(seq, inner))
        this.sent = seq
        return
      } catch {
        await sleep(wait.next(0), signal).catch(() => {})
      }
    }
  }

  private async post(seq: number, signal: AbortSignal): Promise<void> {
    const response = await this.caller.send({ ...this.receipt, query: parameters({ seq }) }, signal)
    await this.caller.refuse(response)
    if (response.status !== 204) throw notOurs(response)
  }
}

const tooLate = () => new ConnectionError('the server takes too long to take a receipt', { code: 'timeout' })
