import { type Parse, type Received, ReceivedEvent, digits } from './event.js'
import type { Decoder } from './sse.js'

/** The most values that are parsed together. */
const maxAhead = 64

const LF = 10
const COMMA = 44
const BRACE = 125

const seqMember = '{"seq":'
/** The length of the text between the digits of the seq and the payload. */
const timeLength = ',"time":"2026-11-20T09:30:00.000Z",'.length
/** Types with a meaning for the client. */
const ownTypes = new Set(['', 'end', 'gap', 'cursor'])
/** Matches the rest of a JSON string, of the object that ends with it, and of its line. */
const restOfText = /[^\u0000-\u001f"\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^\u0000-\u001f"\\]*)*"}\n/y
/** Longer texts are left to JSON.parse: a match may need memory for each escape. */
const maxText = 1 << 16

/**
 * Consecutive events of one type in one chunk, in exactly the form that the server writes most often:
 *
 *     id: <seq><tail>
 *     event: <type>
 *     data: {"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"..."}
 *
 * or "data" in place of "text". An event is not parsed before the program asks for its members. The seqs have the same number
 * of digits, so each member begins at the same offset in all of them.
 */
export class Series {
  /** The start and end offsets of the JSON text of each event. */
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
    /** The offset of the published data in the JSON text. */
    private readonly payload: number,
    readonly parse: Parse | undefined,
  ) {}

  get length(): number {
    return this.bounds.length / 2
  }

  /** Takes such events from the decoder. seq is the next expected seq, tail the rest of its cursor. */
  static take(decoder: Decoder, seq: number, tail: string, parse: Parse | undefined): Series | undefined {
    const { text } = decoder
    let at = decoder.blockStart
    const width = digits(seq)
    const typeAt = at + 4 + width + tail.length + 8
    if (at < 0 || !text.startsWith(tail + '\nevent: ', at + 4 + width)) return undefined
    const type = text.slice(typeAt, text.indexOf('\n', typeAt))
    if (ownTypes.has(type)) return undefined
    const middle = [tail, '\nevent: ', type, '\ndata: ', seqMember].join('') // one string, since it is compared often
    const member = seqMember.length + width + timeLength
    const isText = has(text, true, at + 4 + width + middle.length - seqMember.length + member)
    const series = new Series(text, seq, tail, type, isText, member + (isText ? 8 : 7), parse)
    const { bounds, payload } = series
    for (const limit = 10 ** width; seq < limit; seq++) {
      const second = at + 4 + width + middle.length
      const start = second - seqMember.length
      // Comparing a slice is three times as fast as startsWith with a text that is not a constant.
      if (!text.startsWith('id: ', at) || text.slice(at + 4 + width, second) !== middle) break
      if (!isNumber(text, at + 4, width, seq) || !isNumber(text, second, width, seq)) break
      const end = text.indexOf('\n', second + width)
      if (text.charCodeAt(second + width) !== COMMA || !has(text, isText, start + member)) break
      if (text.charCodeAt(end - 1) !== BRACE || text.charCodeAt(end + 1) !== LF || end <= start + payload) break
      if (isText && !isRestOfText(text, start + payload, end)) break
      bounds.push(start, end)
      at = end + 2
    }
    if (bounds.length === 0) return undefined
    decoder.skip(at)
    return series
  }

  /** The JSON text of an event. */
  json(index: number): string {
    return this.source.slice(this.bounds[2 * index], this.bounds[2 * index + 1])
  }

  /** The published data as JSON text. */
  published(index: number): string {
    return this.source.slice(this.bounds[2 * index]! + this.payload, this.bounds[2 * index + 1]! - (this.isText ? 2 : 1))
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

/** Reports whether the member with the published data begins at an offset. */
function has(text: string, isText: boolean, at: number): boolean {
  return isText ? text.startsWith('"text":"', at) : text.startsWith('"data":', at)
}

function isRestOfText(text: string, at: number, end: number): boolean {
  restOfText.lastIndex = at
  return end - at <= maxText && restOfText.test(text)
}

/** Reports whether the digits at an offset are the number n, which has width digits. */
function isNumber(text: string, at: number, width: number, n: number): boolean {
  let value = 0
  for (let i = at; i < at + width; i++) value = value * 10 + text.charCodeAt(i) - 48
  return value === n
}
