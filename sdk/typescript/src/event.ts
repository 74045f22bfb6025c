import { ProtocolError } from './errors.js'
import { memberText } from './json.js'
import type { Frame } from './sse.js'
import type { CodeException, End, Gap, Shown, Started } from './wire.js'

/** Reads JSON text; see FollowOptions.parse. */
export type Parse = (text: string) => unknown

/** The members of all events. */
export interface EventBase {
  /** 1, 2, 3, ... within an epoch of the stream; 0 for a gap. */
  readonly seq: number
  /** The position just after the event, from which a reader can resume. */
  readonly cursor: string
  readonly time: Date
  /** Exactly what was published: the text, or the JSON text. Bytes that are not UTF-8 are shown as U+FFFD; `bytes` has them. */
  readonly text: string
  /** The bytes of the event: the text in UTF-8, or the published bytes. */
  readonly bytes: Uint8Array
  /** Whether `text` is JSON: published JSON, and the events of Reprise itself such as `started` and `end`. */
  readonly isJSON: boolean
}

/** A command runs. */
export interface StartedEvent extends EventBase {
  readonly type: 'started'
  readonly data: Started
}

/** Output of a command, in chunks as they were read, not in lines. */
export interface OutputEvent extends EventBase {
  readonly type: 'stdout' | 'stderr'
  /** The text, or the bytes if they are not UTF-8. */
  readonly data: string | Uint8Array
}

/** The last event of a stream. */
export interface EndEvent extends EventBase {
  readonly type: 'end'
  readonly data: End
}

/** Events are no longer kept. A gap has no seq of its own; `cursor` is the position at which the stream continues. */
export interface GapEvent extends EventBase {
  readonly type: 'gap'
  readonly data: Gap
}

/** A published event. */
export interface PublishedEvent<Type extends string = string, Data = unknown> extends EventBase {
  readonly type: Type
  /** The parsed JSON value, or the published text or bytes. */
  readonly data: Data
}

/** The value of the last expression of code in an interpreter (`result`), or one that the code has displayed (`display`). */
export type ShownEvent = PublishedEvent<'result' | 'display', Shown>

/** Code in an interpreter has failed. */
export type ExceptionEvent = PublishedEvent<'exception', CodeException>

/** The events of an execution, distinguished by their type. The last two are those of code in an interpreter. */
export type ExecutionEvent = StartedEvent | OutputEvent | EndEvent | GapEvent | ShownEvent | ExceptionEvent

/**
 * The events of a stream. The type parameter names the types of published events: `StreamEvent<{ token: string; usage: { total:
 * number } }>`.
 */
export type StreamEvent<Types extends object = Record<string, unknown>> =
  | { [Type in keyof Types & string]: PublishedEvent<Type, Types[Type]> }[keyof Types & string]
  | EndEvent
  | GapEvent

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** An event of either form, as the parts of the client hand it to each other. */
export interface Received extends EventBase {
  readonly type: string
  readonly data: unknown
  /** What `ReceivedEvent.from` makes it of. */
  readonly wire: readonly [cursor: string, type: string, json: string]
}

/** An event that was taken apart. Most come in a Series, which does so when it is asked for. */
export class ReceivedEvent implements Received {
  private constructor(
    readonly seq: number,
    readonly cursor: string,
    readonly type: string,
    private readonly json: string,
    /** The value of the whole object. */
    private readonly value: Record<string, unknown>,
    private readonly parse: Parse | undefined,
  ) {}

  /** Makes an event of the JSON text of a frame or of an object in a page. */
  static from(cursor: string, type: string, json: string, parse: Parse | undefined): ReceivedEvent {
    let value: Record<string, unknown>
    try {
      value = JSON.parse(json) as Record<string, unknown>
    } catch (error) {
      throw new ProtocolError(`event ${JSON.stringify(cursor.slice(0, 60))} is no JSON`, { cause: error })
    }
    const seq = value?.['seq'] ?? 0
    if (cursor === '' || !Number.isSafeInteger(seq) || ((seq as number) < 1 && type !== 'gap')) {
      throw new ProtocolError(`no cursor or no seq in ${json.slice(0, 100)}`)
    }
    return new ReceivedEvent(seq as number, cursor, type, json, value, parse)
  }

  /** Makes the notice of a gap that the client has found itself, in the form of the server's. */
  static gap(cursor: string, gap: Gap): ReceivedEvent {
    return new ReceivedEvent(0, cursor, 'gap', JSON.stringify(gap), gap as unknown as Record<string, unknown>, undefined)
  }

  /** What `from` makes the event of. */
  get wire(): readonly [cursor: string, type: string, json: string] {
    return [this.cursor, this.type, this.json]
  }

  /** The same event with another cursor. */
  movedTo(cursor: string): ReceivedEvent {
    return new ReceivedEvent(this.seq, cursor, this.type, this.json, this.value, this.parse)
  }

  get time(): Date {
    return new Date(this.value['time'] as string)
  }

  get text(): string {
    switch (this.kind) {
      case 'text':
        return this.value['text'] as string
      case 'base64':
        return decoder.decode(fromBase64(this.value['base64'] as string))
      case 'data':
        return memberText(this.json, 'data') ?? JSON.stringify(this.value['data'])
    }
    return this.json
  }

  get bytes(): Uint8Array {
    return this.kind === 'base64' ? fromBase64(this.value['base64'] as string) : encoder.encode(this.text)
  }

  get isJSON(): boolean {
    return this.kind === 'data' || this.kind === 'object'
  }

  get data(): unknown {
    switch (this.kind) {
      case 'text':
        return this.value['text']
      case 'base64':
        return fromBase64(this.value['base64'] as string)
      case 'data':
        return this.parse ? this.parse(this.text) : this.value['data']
    }
    return this.parse && this.type === 'end' ? this.parse(this.json) : this.value
  }

  /** What devtools and JSON.stringify show. */
  toJSON(): unknown {
    return { seq: this.seq, cursor: this.cursor, type: this.type, time: this.time, data: this.data }
  }

  /** Which member holds what was published; the events of Reprise itself are objects. */
  private get kind(): 'text' | 'base64' | 'data' | 'object' {
    const { value } = this
    if (this.type === 'end' || this.type === 'gap') return 'object'
    if (typeof value['text'] === 'string') return 'text'
    if (typeof value['base64'] === 'string') return 'base64'
    return 'data' in value ? 'data' : 'object'
  }
}

/** Makes an event of a frame that has data. */
export function decodeFrame(frame: Frame, parse: Parse | undefined): ReceivedEvent {
  return ReceivedEvent.from(frame.id ?? '', frame.type, frame.data!, parse)
}

/** The number of digits of n. */
export function digits(n: number): number {
  let count = 1
  for (let bound = 10; n >= bound; bound *= 10) count++
  return count
}

function fromBase64(text: string): Uint8Array {
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}
