import { type Parse, type Received, ReceivedEvent, digits } from './event.js'
import type { Decoder } from './sse.js'

/** How many values are parsed together at most. */
const maxAhead = 64

const LF = 10
const COMMA = 44
const BRACE = 125

const seqMember = '{"seq":'
/** From the digits of the seq to the member after the time. */
const timeLength = ',"time":"2026-11-20T09:30:00.000Z",'.length
/** These mean something to the client. */
const ownTypes = new Set(['', 'end', 'gap', 'cursor'])
/** The rest of a JSON string, of an object that ends with it, and of its line. */
const restOfText = /[^\u0000-\u001f"\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^\u0000-\u001f"\\]*)*"}\n/y
/** Texts above this bound are left to JSON.parse: a match may need room for each escape. */
const maxText = 1 << 16

/**
 * Events of one type that follow each other in one chunk and look exactly as the server writes nearly all:
 *
 *     id: <seq><tail>
 *     event: <type>
 *     data: {"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"..."}
 *
 * or "data" in place of "text". None is taken apart before the program asks for it. The seqs have the same number of digits,
 * so that the same member begins at the same place in each.
 */
export class Series {
  /** Where the JSON text of each event begins and ends. */
  private readonly bounds: number[] = []
  /** Values that were parsed ahead, of the event with this index and those after it. */
  private values: unknown[] = []
  private valuesFrom = 0
  /** The event whose value is asked for next if they are asked for in turn. */
  private turn = 0
  private ahead = 1

  private constructor(
    private readonly source: string,
    readonly first: number,
    readonly tail: string,
    readonly type: string,
    readonly isText: boolean,
    /** Where what was published begins, from the beginning of the JSON text. */
    private readonly payload: number,
    readonly parse: Parse | undefined,
  ) {}

  get length(): number {
    return this.bounds.length / 2
  }

  /** Takes what is like that out of the decoder. seq is the number that comes next, tail what follows it in its cursor. */
  static take(decoder: Decoder, seq: number, tail: string, parse: Parse | undefined): Series | undefined {
    const { text } = decoder
    let at = decoder.blockStart
    const width = digits(seq)
    const typeAt = at + 4 + width + tail.length + 8
    if (at < 0 || !text.startsWith(tail + '\nevent: ', at + 4 + width)) return undefined
    const type = text.slice(typeAt, text.indexOf('\n', typeAt))
    if (ownTypes.has(type)) return undefined
    const middle = [tail, '\nevent: ', type, '\ndata: ', seqMember].join('') // in one piece: it is compared often
    const member = seqMember.length + width + timeLength
    const isText = has(text, true, at + 4 + width + middle.length - seqMember.length + member)
    const series = new Series(text, seq, tail, type, isText, member + (isText ? 8 : 7), parse)
    const { bounds, payload } = series
    for (const limit = 10 ** width; seq < limit; seq++) {
      const second = at + 4 + width + middle.length
      const start = second - seqMember.length
      // A slice is compared three times as fast as startsWith compares a text that is no constant.
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

  /** What was published, as it stands in the JSON text. */
  published(index: number): string {
    return this.source.slice(this.bounds[2 * index]! + this.payload, this.bounds[2 * index + 1]! - (this.isText ? 2 : 1))
  }

  /** The value of what was published. Once some were asked for in turn, those that follow are parsed with it. */
  value(index: number): unknown {
    if (index !== this.turn) {
      if (index > this.turn) this.restart(index)
      return JSON.parse(this.published(index))
    }
    if (this.turn - this.valuesFrom >= this.values.length) this.parseAhead()
    const value = this.values[index - this.valuesFrom]
    this.values[index - this.valuesFrom] = undefined // the program owns it
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
      // One of them is damaged, and the others are not.
    }
    this.ahead = 1
    this.values = []
    this.values = [JSON.parse(this.published(this.turn))]
  }
}

/** An event of a series. What is rare is left to the event that its JSON text makes. */
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
        // Something stands behind it.
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

/** Reports whether the member that holds what was published begins at a place. */
function has(text: string, isText: boolean, at: number): boolean {
  return isText ? text.startsWith('"text":"', at) : text.startsWith('"data":', at)
}

function isRestOfText(text: string, at: number, end: number): boolean {
  restOfText.lastIndex = at
  return end - at <= maxText && restOfText.test(text)
}

/** Reports whether so many characters are the number n, which has that many digits. */
function isNumber(text: string, at: number, width: number, n: number): boolean {
  let value = 0
  for (let i = at; i < at + width; i++) value = value * 10 + text.charCodeAt(i) - 48
  return value === n
}
