import { type Caller, type Request, checkName, jsonRequest, parameters, pathOf } from './call.js'
import { InvalidError, isDecided, isWrong } from './errors.js'
import { randomID } from './id.js'
import type { CursorStore } from './saver.js'
import type { NewEvent, Published, StreamOutcome } from './wire.js'

/** Settings of a Producer. */
export interface ProducerOptions {
  /** 1 to 64 characters. A program that continues after a restart needs the same one. Default: a random one. */
  id?: string
  /**
   * Stores how many publishes were kept, so that a program goes on after it was killed: with the one after `kept()`, which is
   * appended once, whether or not it had arrived. After a publish of which it is unknown whether it was kept, or whose number
   * could not be stored, the same events have to be published again: until then others are refused.
   */
  state?: CursorStore
}

/**
 * Publishes to one stream, in order, and each event once, however often a request has to be sent. Concurrent publishes wait for
 * each other. A stream remembers the 64 newest producers, so keep a Producer for as long as you publish. `E` is the type of the
 * events that {@link Producer.publish} takes.
 */
export class Producer<E extends NewEvent = NewEvent> {
  /** The name of this producer at the server. */
  readonly id: string
  private epoch = 0
  private seq = 0
  private loading: Promise<void> | undefined
  /** The content of the request that may have been appended under the present number. */
  private doubt: string | undefined
  private turn: Promise<unknown> = Promise.resolve()

  /** @internal */
  constructor(
    private readonly caller: Caller,
    private readonly name: string,
    private readonly options: ProducerOptions = {},
  ) {
    this.id = options.id ?? randomID()
  }

  /** With `state`: the number of publishes that were kept, including those of earlier programs. */
  async kept(): Promise<number> {
    this.loading ??= this.load()
    await this.loading
    return this.seq
  }

  /**
   * Appends events, next to each other, and resolves when they are kept. Either all of them are appended or none. If it fails
   * with an error that is `retryable`, or because of signal or `state`, it is unknown whether they were appended. After any other
   * error of the first attempt (`tries` is 1) they were not; after one of a later attempt, an earlier one may have appended them.
   */
  publish(events: E | E[], options?: { signal?: AbortSignal }): Promise<Published> {
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
    await this.kept()
    const content = this.options.state && contentOf(request)
    if (this.doubt !== undefined && this.doubt !== content) throw new InvalidError('what failed before comes first')
    const numbers = {
      'Producer-Id': this.id,
      'Producer-Epoch': String(this.epoch),
      'Producer-Seq': String(this.seq),
    }
    try {
      const published = await this.caller.json<Published>({ ...request, headers: { ...request.headers, ...numbers } }, signal)
      await this.options.state?.save(`${this.epoch}.${this.seq + 1}`)
      this.seq++
      this.doubt = undefined
      return published
    } catch (error) {
      // A refusal at once means that nothing was appended: the number is still free. Otherwise the request may have been appended, or
      // the server has forgotten where we were. Another request under the same number would be taken for it and lost, and
      // one that is still under way must not come after those that follow: a new epoch fences it off. Where the number is
      // stored, it stays, and the same request has to come again.
      const refused = isDecided(error)
      if (content) this.doubt = refused && (!this.doubt || isWrong(error)) ? undefined : content
      else if (!refused || error.code === 'conflict') {
        this.epoch++
        this.seq = 0
      }
      throw error
    }
  }

  private async load(): Promise<void> {
    try {
      const text = (await this.options.state?.load()) || '0.0'
      const match = /^([0-9]+)\.([0-9]+)$/.exec(text)
      if (!match) throw new InvalidError(`${JSON.stringify(text.slice(0, 60))} is no state of a producer`)
      ;[this.epoch, this.seq] = [Number(match[1]), Number(match[2])]
    } catch (error) {
      this.loading = undefined // the next call tries again
      throw error
    }
  }
}

/** Tells the requests of a producer apart by what they append. */
function contentOf({ path, query, body }: Request): string {
  return [path, query, typeof body === 'string' ? body : new Uint8Array(body!)].join()
}
