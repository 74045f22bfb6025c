import { ProtocolError } from './errors.js'

/** One block of an event stream that dispatches an event or has an id. */
export interface Frame {
  /** The id field of this block; undefined if it has none. */
  id: string | undefined
  /** The event field; `message` if there is none. */
  type: string
  /** The lines of the data field; undefined if the block dispatches no event. */
  data: string | undefined
}

/** Settings of a Decoder. */
export interface DecoderOptions {
  /** Bounds a line and the data of an event, in bytes and UTF-16 code units. Default: 16 MiB. */
  maxLength?: number
  /** Called with the text of each comment as its line is read. */
  onComment?: (text: string) => void
}

const LF = 10
const CR = 13
const COLON = 58

/**
 * Decodes an event stream by the HTML standard (section 9.2.6), from chunks that may be split at any byte.
 *
 *     decoder.push(chunk)
 *     for (let frame; (frame = decoder.next()); ) ...
 *
 * Frames are decoded on demand. The decoder holds the last chunk and the incomplete line before it.
 */
export class Decoder {
  /** The last `retry` value of the stream, in milliseconds. */
  retry: number | undefined
  private readonly maxLength: number
  private readonly onComment: ((text: string) => void) | undefined
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true })
  private readonly rest: Uint8Array[] = [] // the beginning of a line
  private restLength = 0
  /**
   * Whole lines, each of which ends with LF.
   *
   * @internal
   */
  text = ''
  private at = 0
  private begun = false
  private afterCR = false

  // The current block:
  private blockBegun = false
  private id: string | undefined
  private type = ''
  private data: string | undefined

  constructor(options: DecoderOptions = {}) {
    this.maxLength = options.maxLength ?? 16 << 20
    this.onComment = options.onComment
  }

  /** Adds a chunk. It must be called only after next has returned undefined. The decoder takes ownership of the chunk. */
  push(chunk: Uint8Array): void {
    // Search for CR only after the last LF: most chunks contain none.
    let cut = chunk.lastIndexOf(LF) + 1
    cut += chunk.subarray(cut).lastIndexOf(CR) + 1
    if (cut === 0) {
      this.keep(chunk)
      return
    }
    // UTF-8 has no line break within a character, so whole lines can be decoded separately.
    let begun = ''
    let start = 0
    if (this.rest.length > 0) {
      start = (chunk.indexOf(LF) + 1 || cut)
      start = chunk.subarray(0, start).indexOf(CR) + 1 || start
      begun = this.utf8.decode(this.joined(chunk.subarray(0, start)))
      this.rest.length = this.restLength = 0
    }
    const text = this.utf8.decode(chunk.subarray(start, cut))
    if (cut < chunk.length) this.keep(chunk.subarray(cut))
    this.take(begun + text)
  }

  private take(text: string): void {
    if (!this.begun) {
      this.begun = true
      if (text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    }
    if (this.afterCR && text.charCodeAt(0) === LF) text = text.slice(1)
    // Do not wait for an LF that may follow a CR: an event must not be delayed by what comes after it.
    this.afterCR = text === '' ? false : text.charCodeAt(text.length - 1) === CR
    if (text.includes('\r')) text = text.replace(/\r\n?/g, '\n')
    this.text = text
    this.at = 0
  }

  private keep(bytes: Uint8Array): void {
    this.rest.push(bytes)
    this.restLength += bytes.length
    if (this.restLength > this.maxLength + 16) throw new ProtocolError(`a line of more than ${this.maxLength} bytes`)
  }

  private joined(last: Uint8Array): Uint8Array {
    const all = new Uint8Array(this.restLength + last.length)
    let at = 0
    for (const part of [...this.rest, last]) {
      all.set(part, at)
      at += part.length
    }
    return all
  }

  /** Returns the next frame, or undefined if more bytes are needed. */
  next(): Frame | undefined {
    const { text } = this
    while (this.at < text.length) {
      const end = text.indexOf('\n', this.at)
      const start = this.at
      this.at = end + 1
      if (end > start) {
        this.blockBegun ||= text.charCodeAt(start) !== COLON && !text.startsWith('retry:', start)
        this.field(text, start, end)
        continue
      }
      this.blockBegun = false
      const { id, data } = this
      const type = this.type || 'message'
      this.id = this.data = undefined
      this.type = ''
      if (id !== undefined || data !== undefined) return { id, type, data }
    }
    this.text = ''
    this.at = 0
    return undefined
  }

  /**
   * The offset in text of the next block, for callers that take blocks without decoding them; -1 if the next frame does not
   * begin there.
   *
   * @internal
   */
  get blockStart(): number {
    return this.blockBegun || !this.text.startsWith('event: ', this.at) ? -1 : this.at
  }

  /**
   * Continues at an offset in text.
   *
   * @internal
   */
  skip(at: number): void {
    this.at = at
  }

  /** Handles one line that is not empty. */
  private field(text: string, start: number, end: number): void {
    // Nearly all lines are one of these two.
    if (text.startsWith('data: ', start)) {
      this.addData(text.slice(start + 6, end))
      return
    }
    if (text.startsWith('id: ', start)) {
      this.setId(text.slice(start + 4, end))
      return
    }
    const line = text.slice(start, end)
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    switch (name) {
      case 'event':
        this.type = value
        break
      case 'data':
        this.addData(value)
        break
      case 'id':
        this.setId(value)
        break
      case 'retry':
        if (/^[0-9]+$/.test(value)) this.retry = Number(value)
        break
      case '':
        this.onComment?.(value)
        break
    }
  }

  private addData(value: string): void {
    this.data = this.data === undefined ? value : `${this.data}\n${value}`
    if (this.data.length > this.maxLength) throw new ProtocolError(`an event of more than ${this.maxLength} characters`)
  }

  private setId(value: string): void {
    if (!value.includes('\0')) this.id = value
  }
}
