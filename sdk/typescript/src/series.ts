import { type Parse, type Received, ReceivedEvent, digits } from './event.js'
import type { Decoder } from './sse.js'

/** The most values that are parsed together. */
const maxAhead = 64

const COMMA = 44

const seqMember = '{"seq":'
/** The length of the text between the digits of the seq and the published data. */
const timeLength = ',"time":"2026-11-20T09:30:00.000Z",'.length
/** Types with a meaning for the client. */
const ownTypes = new Set(['', 'end', 'gap', 'cursor'])
/** Matches the rest of a JSON string. */
const restOfText = String.raw`[^\0-\x1f"\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^\0-\x1f"\\]*)*"`
/** Larger chunks are not matched: a match may need memory for each escape. */
const maxChunk = 1 << 20
/** The patterns of the last series. */
const patterns = new Map<string, RegExp>()

/**
 * Consecutive events of one type in one chunk, in exactly the form that the server writes most often:
 *
 *     event: <type>
 *     data: {"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"..."}
 *     id: <seq><tail>
 *
 * or "data" in place of "text". An event is not parsed before the program asks for its members.
 */
export class Series {
  /** The offsets of the published data and of the end of the JSON text of each event. */
  private readonly bounds: number[] = []
  /** Values parsed ahead: of the event with index valuesFrom and of those after it. */
  private values: unknown[] = []
  private valuesFrom = 0
  /** The index of the next value if values are read in order. */
  private turn = 0
  private ahead = 1

  private constructor(
    private readonly source: string,
    readonly first: number,
    readonly tail: string,
    readonly type: string,
    readonly isText: boolean,
    readonly parse: Parse | undefined,
  ) {}

  get length(): number {
    return this.bounds.length / 2
  }

  /** Takes such events from the decoder. seq is the next expected seq, tail the rest of its cursor. */
  static take(decoder: Decoder, seq: number, tail: string, parse: Parse | undefined): Series | undefined {
    const { text } = decoder
    let at = decoder.blockStart
    // The pattern is for the whole chunk: it must not be tried on each event of one that repeats events.
    if (at < 0 || text.length > maxChunk) return undefined
    const type = text.slice(at + 7, text.indexOf('\n', at))
    const seqAt = 7 + type.length + 7 + seqMember.length // from the beginning of an event
    if (ownTypes.has(type) || !text.startsWith(`\ndata: ${seqMember}${seq},`, at + 7 + type.length)) return undefined
    const isText = text.startsWith('"text":"', at + seqAt + digits(seq) + timeLength)
    const pattern = patternOf(tail, type, isText)
    pattern.lastIndex = at
    if (!pattern.test(text)) return undefined
    const series = new Series(text, seq, tail, type, isText, parse)
    const payload = timeLength + (isText ? 8 : 7)
    const idLength = '\nid: \n\n'.length + tail.length
    for (const { lastIndex } = pattern; at < lastIndex; seq++) {
      const numberAt = at + seqAt
      const comma = numberEnd(text, numberAt, seq)
      if (comma < 0) break
      const end = text.indexOf('\n', comma + payload)
      series.bounds.push(comma + payload, end)
      at = end + idLength + comma - numberAt
    }
    decoder.skip(at)
    return series
  }

  /** The JSON text of an event. */
  json(index: number): string {
    const head = seqMember.length + digits(this.first + index) + timeLength + (this.isText ? 8 : 7)
    return this.source.slice(this.bounds[2 * index]! - head, this.bounds[2 * index + 1])
  }

  /** The published data as JSON text. */
  published(index: number): string {
    return this.source.slice(this.bounds[2 * index], this.bounds[2 * index + 1]! - (this.isText ? 2 : 1))
  }

  /** The value of the published data. Once values were read in order, the following ones are parsed with it. */
  value(index: number): unknown {
    if (index !== this.turn) {
      if (index > this.turn) this.restart(index)
      return JSON.parse(this.published(index))
    }
    if (this.turn - this.valuesFrom >= this.values.length) this.parseAhead()
    const value = this.values[index - this.valuesFrom]
    this.values[index - this.valuesFrom] = undefined // the program owns the value
    this.turn++
    return value
  }

  private restart(index: number): void {
    this.turn = index + 1
    this.values = []
    this.ahead = 1
  }

  private parseAhead(): void {
    const count = Math.min(this.ahead, this.length - this.turn)
    this.ahead = Math.min(2 * this.ahead, maxAhead)
    this.valuesFrom = this.turn
    let texts = '[' + this.published(this.turn)
    for (let i = 1; i < count; i++) texts += ',' + this.published(this.turn + i)
    try {
      this.values = JSON.parse(texts + ']') as unknown[]
      if (this.values.length === count) return
    } catch {
      // One value is damaged, the others are not.
    }
    this.ahead = 1
    this.values = []
    this.values = [JSON.parse(this.published(this.turn))]
  }
}

/** An event of a series. Members that are rarely read are left to the event that is parsed from its JSON text. */
export class SeriesEvent implements Received {
  readonly type: string

  constructor(
    readonly seq: number,
    private readonly series: Series,
    private readonly index: number,
  ) {
    this.type = series.type
  }

  get cursor(): string {
    return this.seq + this.series.tail
  }

  get text(): string {
    const { series } = this
    if (!series.isText) return this.whole.text
    const text = series.published(this.index)
    return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text
  }

  get data(): unknown {
    const { series } = this
    if (series.isText) return this.text
    if (!series.parse) {
      try {
        return series.value(this.index)
      } catch {
        // The JSON text has members after it.
      }
    }
    return this.whole.data
  }

  get time(): Date {
    return this.whole.time
  }

  get bytes(): Uint8Array {
    return this.whole.bytes
  }

  get isJSON(): boolean {
    return !this.series.isText
  }

  get wire(): readonly [cursor: string, type: string, json: string] {
    return [this.cursor, this.type, this.series.json(this.index)]
  }

  toJSON(): unknown {
    return this.whole.toJSON()
  }

  private get whole(): ReceivedEvent {
    return ReceivedEvent.from(...this.wire, this.series.parse)
  }
}

/** Matches consecutive events of a type. */
function patternOf(tail: string, type: string, isText: boolean): RegExp {
  const known = `${isText}${tail} ${type}`
  let pattern = patterns.get(known)
  if (!pattern) {
    const quoted = (text: string) => text.replace(/\W/g, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))
    const head = `event: ${quoted(type)}\ndata: ${seqMember}([1-9][0-9]*),"time":".{24}",`
    const data = isText ? `"text":"${restOfText}` : '"data":[^\\n]*'
    pattern = new RegExp(`(?:${head}${data}}\nid: \\1${quoted(tail)}\n\n)+`, 'y')
    if (patterns.size > 32) patterns.clear()
    patterns.set(known, pattern)
  }
  return pattern
}

/** The offset behind the digits at an offset, up to a comma, if they are those of n; otherwise -1. */
function numberEnd(text: string, at: number, n: number): number {
  let value = 0
  for (let c; (c = text.charCodeAt(at)) !== COMMA; at++) value = value * 10 + c - 48
  return value === n ? at : -1
}
