import { type Caller, type Request, checkName, jsonRequest, parameters, pathOf } from './call.js'
import { InvalidError, ProblemError, isDecided, isWrong } from './errors.js'
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
 * Publishes to one stream, in order, and each event once, however often a request has to be sent. One request is under way at a
 * time, and calls of {@link Producer.publish} that wait for it go together in the next one (with `state`, each goes alone). A stream remembers the 64 newest producers, so keep a Producer for as long as you publish. `E` is the type of the
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
  private queue: Publication[] = [] // not sent yet, in order
  private sending = false

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
    const list = Array.isArray(events) ? events : [events]
    const request = jsonRequest(`publish to ${this.name}`, 'POST', pathOf('streams', this.name, '/events'), { events: list })
    const joins = !this.options.state && list.length > 0 && list.length <= maxTogether
    return this.send(request, options, joins ? list.length : 0)
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

  /** Sends one numbered request after the previous ones, together with what waits too if it has a count of events. */
  private send(request: Request, options: { signal?: AbortSignal } | undefined, count = 0): Promise<Published> {
    checkName(request.op, this.name)
    const signal = options?.signal
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const one: Publication = { request, count, resolve, reject }
      const leave = () => {
        reject(signal!.reason)
        this.queue = this.queue.filter((other) => other !== one)
        one.leave?.(signal!.reason)
      }
      signal?.addEventListener('abort', leave, { once: true })
      one.over = () => signal?.removeEventListener('abort', leave)
      this.queue.push(one)
      if (!this.sending) void this.drain()
    })
  }

  /** Sends what waits, one request after the other. */
  private async drain(): Promise<void> {
    this.sending = true
    await undefined // calls of this moment go together, too
    for (let batch; (batch = this.next()).length > 0; ) await this.sendTogether(batch)
    this.sending = false
  }

  /** Takes the publications that go into the next request. */
  private next(): Publication[] {
    let [count, size, n] = [0, 0, 0]
    for (const one of this.queue) {
      count += one.count
      size += one.request.body?.length ?? 0
      if (n > 0 && (one.count === 0 || this.queue[0]!.count === 0 || count > maxTogether || size > maxTogetherLength)) break
      n++
    }
    return this.queue.splice(0, n)
  }

  /** Sends a request for several publications. It is aborted when nobody waits for it any more. */
  private async sendTogether(batch: Publication[]): Promise<void> {
    const stop = new AbortController()
    let waiting = batch.length
    for (const one of batch) {
      one.leave = (reason) => {
        if (--waiting === 0) stop.abort(reason)
      }
    }
    try {
      const published = await this.sendNow(together(batch), stop.signal)
      let { first } = published
      for (const { count, resolve } of batch) {
        resolve(batch.length === 1 ? published : part(published, first, count))
        if (first > 0) first += count
      }
    } catch (error) {
      // Each for itself: one of them is wrong, or all together are too much.
      const alone = batch.length > 1 && error instanceof ProblemError && error.tries < 2 && isRefusedWhole(error)
      for (const { request, resolve, reject } of batch) {
        if (alone) await this.sendNow(request, undefined).then(resolve, reject)
        else reject(error)
      }
    } finally {
      for (const one of batch) one.over?.()
    }
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

/** A publish that has not been answered. */
interface Publication {
  request: Request
  /** The number of its events; 0 if it goes alone. */
  count: number
  resolve: (published: Published) => void
  reject: (reason: unknown) => void
  /** Tells a request that is under way that nobody waits for this part of it. */
  leave?: (reason: unknown) => void
  over?: () => void
}

/** The most that one request takes of what waits: events, and UTF-16 code units. The server takes 1 MiB. */
const maxTogether = 1000
const maxTogetherLength = 256 << 10

const listStart = '{"events":['

function together(batch: Publication[]): Request {
  const [{ request }] = batch as [Publication]
  if (batch.length === 1) return request
  const lists = batch.map((one) => (one.request.body as string).slice(listStart.length, -2))
  return { ...request, body: `${listStart}${lists.join()}]}` }
}

/** What was published of count events of a request, from a seq on; 0 if that is no longer known. */
function part(all: Published, first: number, count: number): Published {
  if (first === 0) return all
  const last = first + count - 1
  return { ...all, first, last, ...(all.cursor && { cursor: all.cursor.replace(/^[0-9]+/, String(last)) }) }
}

/** Reports whether a request was refused for its contents, so that nothing of it was appended. */
function isRefusedWhole({ code }: ProblemError): boolean {
  return code === 'invalid' || code === 'payload_too_large'
}

/** Tells the requests of a producer apart by what they append. */
function contentOf({ path, query, body }: Request): string {
  return [path, query, typeof body === 'string' ? body : new Uint8Array(body!)].join()
}
