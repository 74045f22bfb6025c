import { Row, joinRun } from './row'
import { defaultStyle, numberOf, select, stderr, styleOf } from './style'
import { columnsOf } from './width'

/** Where in the stream a line begins: after a cursor, and how many lines further on. */
export interface Anchor {
  seq: number
  /** The lines that begin in the same event before this one. */
  nth: number
}

// Anything that is not plain text: control characters, and escape sequences (ECMA-48): CSI, OSC and other strings, short ones.
const special =
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\`-~]|[\x00-\x08\x0a-\x1f\x7f]/g
// The beginning of an escape sequence at the end of a chunk.
const unfinished = /\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?$/
const needsCare = /[\x00-\x08\x0b-\x1f\x7f]/
const longestSequence = 4096

/**
 * Output as lines that a terminal would show, of which the last `height` can be written again by moving the cursor. It holds
 * text and styles, and neither knows nor draws elements of a page.
 */
export class Screen {
  /** Text of each line, and its styles: one number, or pairs of a start and a number. */
  readonly texts: string[] = ['']
  readonly styles: (number | number[])[] = [defaultStyle]
  /** Lines that were let go at the beginning. */
  dropped = 0
  /** Changes with each write. */
  version = 0
  /** The first line that the last writes may have changed; whoever has dealt with it sets it to texts.length. */
  dirtyFrom = 0

  private row = 0
  private column = 0
  private atEnd = true
  private style = defaultStyle
  private rest = ''
  private saved: [row: number, column: number] = [0, 0]
  // The events in which lines begin: seq, and the number of the first line that begins in it, both growing.
  private eventSeqs: number[] = []
  private eventLines: number[] = []

  /** @param height lines of the terminal; @param maxLines the oldest lines beyond this many are let go */
  constructor(
    private readonly height = 50,
    private readonly maxLines = 1_500_000,
  ) {}

  get length(): number {
    return this.texts.length
  }

  /** Takes the output of one event. */
  write(text: string, channel: 'stdout' | 'stderr', seq: number): void {
    this.version++
    this.setChannel(channel)
    const before = this.dropped + this.texts.length
    if (this.rest !== '') {
      text = this.rest + text
      this.rest = ''
    }
    if (text.includes('\r\n')) text = text.replaceAll('\r\n', '\n')
    if (this.atEnd && this.row === this.texts.length - 1 && !needsCare.test(text)) this.append(text)
    else this.interpret(this.hold(text))
    this.anchor(seq, before)
    this.trim()
  }

  /** Where line begins, counted from 0 without those that were dropped; undefined for the very first line. */
  anchorOf(line: number): Anchor {
    const absolute = line + this.dropped
    const at = this.eventBefore(absolute)
    if (at < 0) return { seq: 0, nth: 0 }
    return { seq: this.eventSeqs[at]!, nth: absolute - this.eventLines[at]! }
  }

  /** The line that begins at an anchor; -1 if it has not come or was dropped. */
  lineAt(anchor: Anchor): number {
    if (anchor.seq === 0) return this.dropped > 0 ? -1 : 0
    let low = 0
    let high = this.eventSeqs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.eventSeqs[middle]! < anchor.seq) low = middle + 1
      else high = middle
    }
    if (this.eventSeqs[low] !== anchor.seq) return -1
    const line = this.eventLines[low]! + anchor.nth - this.dropped
    return line < this.texts.length ? line : -1
  }

  /** Puts a line of our own between those of the command. */
  note(text: string, seq: number): void {
    this.version++
    this.row = this.texts.length - 1
    const before = this.dropped + this.texts.length
    const style = numberOf(3, -1, 4)
    if (this.texts[this.row] !== '') this.newLines([''])
    this.texts[this.row] = text
    this.styles[this.row] = style
    this.newLines([''])
    this.anchor(seq, before)
  }

  private setChannel(channel: 'stdout' | 'stderr'): void {
    const { fg, bg, flags } = styleOf(this.style)
    this.style = numberOf(fg, bg, channel === 'stderr' ? flags | stderr : flags & ~stderr)
  }

  /** Keeps back what may be half of an escape sequence, or of a line end. */
  private hold(text: string): string {
    const cut = text.endsWith('\r') ? text.length - 1 : (unfinished.exec(text)?.index ?? text.length)
    if (cut === text.length || text.length - cut > longestSequence) return text
    this.rest = text.slice(cut)
    return text.slice(0, cut)
  }

  /** Puts text without control characters behind the last line. */
  private append(text: string): void {
    const cut = text.indexOf('\n')
    this.extend(cut < 0 ? text : text.slice(0, cut))
    if (cut >= 0) this.newLines(text.slice(cut + 1).split('\n'))
  }

  private extend(text: string): void {
    if (text === '') return
    const at = this.row
    this.touch(at)
    const old = this.texts[at]!
    this.styles[at] = joinRun(this.styles[at]!, old.length, this.style)
    this.texts[at] = old + text
    this.column = -1 // not known before somebody asks
  }

  /** Adds lines behind the last one, which the cursor goes to the end of. */
  private newLines(lines: string[]): void {
    for (const text of lines) {
      this.texts.push(text)
      this.styles.push(this.style)
    }
    this.row = this.texts.length - 1
    this.column = -1
    this.atEnd = true
  }

  private interpret(text: string): void {
    let at = 0
    special.lastIndex = 0
    for (let match: RegExpExecArray | null; (match = special.exec(text)); at = special.lastIndex) {
      if (match.index > at) this.put(text.slice(at, match.index))
      this.control(match[0])
    }
    if (at < text.length) this.put(text.slice(at))
  }

  /** Writes text without control characters at the cursor. */
  private put(text: string): void {
    if (this.atEnd) {
      this.extend(text)
      return
    }
    this.touch(this.row)
    const row = new Row(this.texts[this.row]!, this.styles[this.row]!)
    this.column = row.put(this.column, text, this.style)
    this.keep(row)
  }

  private keep(row: Row): void {
    ;[this.texts[this.row], this.styles[this.row]] = row.packed()
    this.atEnd = this.column >= row.width
  }

  private control(sequence: string): void {
    switch (sequence) {
      case '\n':
      case '\v':
      case '\f':
        this.lineFeed()
        return
      case '\r':
        this.moveTo(this.row, 0)
        return
      case '\b':
        this.moveTo(this.row, this.where() - 1)
        return
      case '\x1b7':
        this.saved = [this.row, this.where()]
        return
      case '\x1b8':
        this.moveTo(...this.saved)
        return
    }
    if (sequence.startsWith('\x1b[')) this.sequence(sequence.at(-1)!, sequence.slice(2, -1))
  }

  private lineFeed(): void {
    if (this.row === this.texts.length - 1) this.newLines([''])
    else this.moveTo(this.row + 1, 0)
  }

  private sequence(final: string, parameters: string): void {
    if (final === 'm') {
      if (/^[0-9;:]*$/.test(parameters)) this.style = select(this.style, parameters)
      return
    }
    const [first = 0, second = 0] = parameters.split(';').map((text) => Number(text) || 0)
    const count = Math.min(Math.max(first, 1), 10_000)
    switch (final) {
      case 'A':
      case 'F':
        this.moveTo(Math.max(this.row - count, this.top()), final === 'F' ? 0 : this.where())
        break
      case 'B':
      case 'E':
        this.moveTo(Math.min(this.row + count, this.texts.length - 1), final === 'E' ? 0 : this.where())
        break
      case 'C':
        this.moveTo(this.row, this.where() + count)
        break
      case 'D':
        this.moveTo(this.row, this.where() - count)
        break
      case 'G':
        this.moveTo(this.row, count - 1)
        break
      case 'H':
      case 'f':
        this.moveTo(this.top() + Math.min(count, this.height) - 1, Math.max(second, 1) - 1)
        break
      case 'K':
        this.eraseLine(first)
        break
      case 'J':
        this.eraseScreen(first)
        break
    }
  }

  /** The first line that the cursor can reach. */
  private top(): number {
    return Math.max(0, this.texts.length - this.height)
  }

  /** The column of the cursor. */
  private where(): number {
    if (this.atEnd || this.column < 0) this.column = columnsOf(this.texts[this.row]!)
    return this.column
  }

  private moveTo(row: number, column: number): void {
    while (row >= this.texts.length) this.newLines([''])
    this.row = Math.max(row, 0)
    this.column = Math.min(Math.max(column, 0), 10_000)
    this.atEnd = columnsOf(this.texts[this.row]!) === this.column
  }

  private eraseLine(mode: number): void {
    this.touch(this.row)
    const column = this.where()
    const row = new Row(this.texts[this.row]!, this.styles[this.row]!)
    row.erase(mode === 0 ? column : 0, mode === 1 ? column + 1 : row.width)
    this.column = column
    this.keep(row)
  }

  private eraseScreen(mode: number): void {
    const from = mode === 0 ? this.row + 1 : this.top()
    const to = mode === 1 ? this.row : this.texts.length
    if (mode < 2) this.eraseLine(mode)
    for (let line = from; line < to; line++) {
      this.touch(line)
      this.texts[line] = ''
      this.styles[line] = defaultStyle
    }
    this.moveTo(this.row, this.where())
  }

  private touch(line: number): void {
    if (line < this.dirtyFrom) this.dirtyFrom = line
  }

  /** Notes the lines that began with the event seq, of which the first has the number before. */
  private anchor(seq: number, before: number): void {
    if (this.dropped + this.texts.length === before) return
    this.eventSeqs.push(seq)
    this.eventLines.push(before)
  }

  private eventBefore(line: number): number {
    let low = 0
    let high = this.eventLines.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.eventLines[middle]! <= line) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  private trim(): void {
    if (this.texts.length <= this.maxLines * 1.1) return
    const count = this.texts.length - this.maxLines
    this.texts.splice(0, count)
    this.styles.splice(0, count)
    this.dropped += count
    this.row = Math.max(0, this.row - count)
    this.dirtyFrom = 0
    const gone = this.eventBefore(this.dropped)
    this.eventSeqs.splice(0, gone)
    this.eventLines.splice(0, gone)
  }
}
