import { type Caller, type Request, checkName, jsonRequest, parameters, pathOf } from './call.js'
import { InvalidError, ProblemError } from './errors.js'
import { randomID } from './id.js'
import type { CursorStore } from './saver.js'
import type { NewEvent, Published, StreamOutcome } from './wire.js'

/** Settings of a Producer. */
export interface ProducerOptions {
  /** 1 to 64 characters. A program that continues after a restart needs the same one. Default: a random one. */
  id?: string
  /**
   * Stores the number of the next publish, so that a program continues with it after it was killed. The program must then first
   * publish again the events without an acknowledgement: they are appended once, whether or not they had arrived.
   */
  state?: CursorStore
}

/**
 * Publishes to one stream, in order, and each event once, however often a request has to be sent. Concurrent publishes wait for
 * each other. A stream remembers the 64 newest producers, so keep a Producer for as long as you publish.
 */
export class Producer {
  /** The name of this producer at the server. */
  readonly id: string
  private epoch = 0
  private seq = 0
  private loaded = false
  private turn: Promise<unknown> = Promise.resolve()

  /** @internal */
  constructor(
    private readonly caller: Caller,
    private readonly name: string,
    private readonly options: ProducerOptions = {},
  ) {
    this.id = options.id ?? randomID()
  }

  /**
   * Appends events, next to each other, and resolves when they are kept. Either all of them are appended or none. If it fails
   * with an error that is `retryable`, or because of signal, it is unknown whether they were appended. After any other error
   * they were not.
   */
  publish(events: NewEvent | NewEvent[], options?: { signal?: AbortSignal }): Promise<Published> {
    const body = { events: Array.isArray(events) ? events : [events] }
    return this.send(jsonRequest(`publish to ${this.name}`, 'POST', pathOf('streams', this.name, '/events'), body), options)
  }

  /** Appends one event of text, or of any bytes. Default type: `message`. */
  publishBytes(data: string | Uint8Array, options?: { type?: string; signal?: AbortSignal }): Promise<Published> {
    const request: Request = {
      op: `publish to ${this.name}`,
      method: 'POST',
      path: pathOf('streams', this.name, '/events'),
      query: parameters({ type: options?.type }),
      headers: { 'Content-Type': 'application/octet-stream' },
      body: data,
    }
    return this.send(request, options)
  }

  /** Ends the stream. The error has the code `stream_ended` if it has ended. */
  end(outcome: StreamOutcome = 'completed', options?: { data?: unknown; signal?: AbortSignal }): Promise<Published> {
    const body = options?.data === undefined ? { outcome } : { outcome, data: options.data }
    return this.send(jsonRequest(`end stream ${this.name}`, 'POST', pathOf('streams', this.name, '/end'), body), options)
  }

  /** Sends one numbered request after the previous ones, and retries it with the same number. */
  private send(request: Request, options: { signal?: AbortSignal } | undefined): Promise<Published> {
    checkName(request.op, this.name)
    const result = this.turn.then(() => this.sendNow(request, options?.signal))
    this.turn = result.catch(() => {})
    return result
  }

  private async sendNow(request: Request, signal: AbortSignal | undefined): Promise<Published> {
    signal?.throwIfAborted()
    if (!this.loaded) await this.load()
    const numbers = {
      'Producer-Id': this.id,
      'Producer-Epoch': String(this.epoch),
      'Producer-Seq': String(this.seq),
    }
    try {
      const published = await this.caller.json<Published>({ ...request, headers: { ...request.headers, ...numbers } }, signal)
      this.seq++
      await this.save()
      return published
    } catch (error) {
      // A refusal means that nothing was appended: the number is still free. Otherwise the request may have been appended, or
      // the server has forgotten where we were. Another request under the same number would be taken for it and lost, and
      // one that is still under way must not come after those that follow: a new epoch fences it off.
      const decided = error instanceof ProblemError && !error.retryable && error.code !== 'conflict'
      if (!decided && this.options.state === undefined) {
        this.epoch++
        this.seq = 0
      }
      throw error
    }
  }

  private async load(): Promise<void> {
    const text = (await this.options.state?.load()) ?? ''
    const match = /^([0-9]+)\.([0-9]+)$/.exec(text)
    if (text !== '' && !match) throw new InvalidError(`${JSON.stringify(text.slice(0, 60))} is no state of a producer`)
    if (match) [this.epoch, this.seq] = [Number(match[1]), Number(match[2])]
    this.loaded = true
  }

  private async save(): Promise<void> {
    await this.options.state?.save(`${this.epoch}.${this.seq}`)
  }
}
