import { ProtocolError } from './errors.js'
import { memberText } from './json.js'
import type { Frame } from './sse.js'
import type { End, Gap, Started } from './wire.js'

/** Reads JSON text; see FollowOptions.parse. */
export type Parse = (text: string) => unknown

/** What all events have. */
export interface EventBase {
  /** 1, 2, 3, ... within an epoch of the stream; 0 for a gap. */
  readonly seq: number
  /** The position just after the event: what to resume from. */
  readonly cursor: string
  readonly time: Date
  /**
   * Exactly what was published: the text, or the JSON text. Bytes that are not UTF-8 are shown with U+FFFD; `bytes` has them.
   */
  readonly text: string
  /** The bytes of the event: of the text in UTF-8, or what is no text. */
  readonly bytes: Uint8Array
  /** Whether `text` is JSON: what was published as JSON, and the events of Reprise itself such as `started` and `end`. */
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
  /** The text, or the bytes where they are not UTF-8. */
  readonly data: string | Uint8Array
}

/** The last event of a stream. */
export interface EndEvent extends EventBase {
  readonly type: 'end'
  readonly data: End
}

/** Events are no longer kept. It has no seq of its own; `cursor` is where the stream goes on. */
export interface GapEvent extends EventBase {
  readonly type: 'gap'
  readonly data: Gap
}

/** An event that somebody has published. */
export interface PublishedEvent<Type extends string = string, Data = unknown> extends EventBase {
  readonly type: Type
  /** The JSON value, parsed; or the text, or bytes, where something else than JSON was published. */
  readonly data: Data
}

/** The events of an execution, told apart by their type. */
export type ExecutionEvent = StartedEvent | OutputEvent | EndEvent | GapEvent

/**
 * The events of a stream. With the types of what is published they are told apart by their type:
 * `StreamEvent<{ token: string; usage: { total: number } }>`.
 */
export type StreamEvent<Types extends object = Record<string, unknown>> =
  | { [Type in keyof Types & string]: PublishedEvent<Type, Types[Type]> }[keyof Types & string]
  | EndEvent
  | GapEvent

const DOT = 46
const BRACE = 125
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** An event as it came. What is dear is done when it is asked for. */
export class ReceivedEvent implements EventBase {
  /** The value of the whole object, where it had to be parsed. */
  private object: Record<string, unknown> | undefined = undefined

  private constructor(
    readonly seq: number,
    /** The cursor, or what follows seq in it. */
    private readonly cursorEnd: string,
    readonly type: string,
    private readonly json: string,
    /** Where the JSON value of data begins, which ends before the last brace; 0 if that is not known. */
    private readonly at: number,
    /** Where the text begins, which ends before the last quote and has no escapes; 0 if that is not known. */
    private readonly plain: number,
    private readonly parse: Parse | undefined,
  ) {}

  get cursor(): string {
    return this.cursorEnd.charCodeAt(0) === DOT ? this.seq + this.cursorEnd : this.cursorEnd
  }

  /** Makes an event of the JSON text of a frame or of an object in a page. */
  static from(cursor: string, type: string, json: string, parse: Parse | undefined): ReceivedEvent {
    const seq = cursor === '' || type === 'end' || type === 'gap' ? 0 : fastSeq(json)
    if (seq > 0) {
      const event = ReceivedEvent.quick(seq, digits(seq), cursor, type, json, parse)
      if (event) return event
    }
    const object = parsed(json, cursor)
    const found = object?.['seq'] ?? 0
    if (cursor === '' || !Number.isSafeInteger(found) || ((found as number) < 1 && type !== 'gap')) {
      throw new ProtocolError(`no cursor or no seq in ${json.slice(0, 100)}`)
    }
    const event = new ReceivedEvent(found as number, cursor, type, json, 0, 0, parse)
    event.object = object
    return event
  }

  /**
   * Makes an event of JSON text that looks exactly as the server writes it; otherwise undefined:
   *
   *     {"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"..."}
   *
   * or "data" in place of "text". cursor may be what follows the seq in it.
   */
  static quick(
    seq: number,
    width: number,
    cursor: string,
    type: string,
    json: string,
    parse: Parse | undefined,
  ): ReceivedEvent | undefined {
    const member = width + 42
    if (json.startsWith('"text":"', member) && json.endsWith('"}') && json.length >= member + 10) {
      plainText.lastIndex = member + 8
      if (plainText.test(json)) return new ReceivedEvent(seq, cursor, type, json, 0, member + 8, parse)
    }
    if (json.startsWith('"data":', member) && json.charCodeAt(json.length - 1) === BRACE) {
      return new ReceivedEvent(seq, cursor, type, json, member + 7, 0, parse)
    }
    return undefined
  }

  /** Makes the notice of a gap that the client has found itself, in the form of the server's. */
  static gap(cursor: string, gap: Gap): ReceivedEvent {
    const event = new ReceivedEvent(0, cursor, 'gap', JSON.stringify(gap), 0, 0, undefined)
    event.object = gap as unknown as Record<string, unknown>
    return event
  }

  /** What `from` makes the event of. */
  get wire(): readonly [cursor: string, type: string, json: string] {
    return [this.cursor, this.type, this.json]
  }

  /** The same event with another cursor. */
  movedTo(cursor: string): ReceivedEvent {
    const event = new ReceivedEvent(this.seq, cursor, this.type, this.json, this.at, this.plain, this.parse)
    event.object = this.object
    return event
  }

  get time(): Date {
    if (this.plain === 0 && this.at === 0) return new Date(this.value['time'] as string)
    const start = 16 + digits(this.seq)
    return new Date(this.json.slice(start, start + 24))
  }

  get text(): string {
    if (this.plain > 0) return this.json.slice(this.plain, -2)
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
    if (this.plain > 0) return this.text
    if (this.at > 0 && !this.object && !this.parse) {
      try {
        return JSON.parse(this.json.slice(this.at, -1))
      } catch {
        // Something stands behind it.
      }
    }
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
    if (this.plain > 0) return 'text'
    const { value } = this
    if (this.type === 'end' || this.type === 'gap') return 'object'
    if (typeof value['text'] === 'string') return 'text'
    if (typeof value['base64'] === 'string') return 'base64'
    return 'data' in value ? 'data' : 'object'
  }

  private get value(): Record<string, unknown> {
    return (this.object ??= parsed(this.json, this.cursor))
  }
}

function parsed(json: string, cursor: string): Record<string, unknown> {
  try {
    return JSON.parse(json) as Record<string, unknown>
  } catch (error) {
    throw new ProtocolError(`event ${JSON.stringify(cursor.slice(0, 60))} is no JSON`, { cause: error })
  }
}

/** Makes an event of a frame that has data. */
export function decodeFrame(frame: Frame, parse: Parse | undefined): ReceivedEvent {
  return ReceivedEvent.from(frame.id ?? '', frame.type, frame.data!, parse)
}

/** The number at the beginning of `{"seq":7,`, 0 if the text does not begin so. */
function fastSeq(json: string): number {
  if (!json.startsWith('{"seq":')) return 0
  let n = 0
  let at = 7
  for (; at < 22; at++) {
    const digit = json.charCodeAt(at) - 48
    if (digit < 0 || digit > 9) break
    n = n * 10 + digit
  }
  return at > 7 && json.charCodeAt(7) !== 48 && json.charCodeAt(at) === 44 ? n : 0
}

/** The rest of a JSON string without escapes, and without what needs one, and the end of its object. */
const plainText = /[^\u0000-\u001f"\\]*"}$/y

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
