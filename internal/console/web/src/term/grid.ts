import { joinRun } from './row'
import { defaultStyle, numberOf, styleOf } from './style'

/** One place of a terminal: a character with what combines with it, '' where nothing is, null for the right half of a wide one. */
type Place = string | null

/** The style of what is erased: it keeps the background alone. */
export const blankOf = (style: number): number => numberOf(-1, styleOf(style).bg, 0)

/** A row of a terminal, which has a fixed number of columns. */
export class Line {
  readonly places: Place[]
  readonly styles: number[]

  constructor(cols: number) {
    this.places = Array<Place>(cols).fill('')
    this.styles = Array<number>(cols).fill(defaultStyle)
  }

  /** Draws a character, and erases the other half of wide ones that it covers. */
  set(x: number, text: string, width: 1 | 2, style: number): void {
    this.split(x)
    this.split(x + width)
    this.places[x] = text
    this.styles[x] = style
    if (width === 2) {
      this.places[x + 1] = null
      this.styles[x + 1] = style
    }
  }

  /** Adds what combines to the character at x, if there is one. */
  mark(x: number, text: string): void {
    if (x > 0 && this.places[x] === null) x--
    const place = this.places[x]
    if (place && place.length < 32) this.places[x] = place + text
  }

  /** Makes the places from one to before another blank. */
  erase(from: number, to: number, style: number): void {
    from = Math.min(from, this.places.length)
    to = Math.min(to, this.places.length)
    this.split(from)
    this.split(to)
    this.places.fill('', from, Math.max(from, to))
    this.styles.fill(style, from, Math.max(from, to))
  }

  /** Moves what is at x and behind it to the right. */
  insert(x: number, count: number, style: number): void {
    const cols = this.places.length
    const n = Math.min(count, cols - x)
    this.split(x)
    this.split(cols - n)
    this.places.copyWithin(x + n, x, cols - n)
    this.styles.copyWithin(x + n, x, cols - n)
    this.erase(x, x + n, style)
  }

  /** Moves what is behind count places at x to the left. */
  remove(x: number, count: number, style: number): void {
    const cols = this.places.length
    const n = Math.min(count, cols - x)
    this.split(x)
    this.split(x + n)
    this.places.copyWithin(x, x + n)
    this.styles.copyWithin(x, x + n)
    this.places.fill('', cols - n)
    this.styles.fill(style, cols - n)
  }

  resize(cols: number): void {
    const before = this.places.length
    if (cols < before) this.split(cols)
    this.places.length = this.styles.length = cols
    if (cols > before) {
      this.places.fill('', before)
      this.styles.fill(defaultStyle, before)
    }
  }

  /** The text with the styles that joinRun makes; the place at cursor is drawn in another style. */
  packed(cursor = -1, ofCursor: (style: number) => number = (style) => style): [text: string, styles: number | number[]] {
    let used = this.places.length
    while (used > cursor + 1 && (this.places[used - 1] === '' || this.places[used - 1] === ' ') && this.styles[used - 1] === defaultStyle) used--
    let text = ''
    let styles: number | number[] = defaultStyle
    for (let x = 0; x < used; x++) {
      const place = this.places[x]
      if (place === null) continue
      const under = x === cursor || (x + 1 === cursor && this.places[x + 1] === null)
      styles = joinRun(styles, text.length, under ? ofCursor(this.styles[x]!) : this.styles[x]!)
      text += place === '' ? ' ' : place!
    }
    return [text, styles]
  }

  /** Erases a wide character that lies on both sides of x. */
  private split(x: number): void {
    if (x > 0 && x < this.places.length && this.places[x] === null) this.places[x - 1] = this.places[x] = ''
  }
}

/** The main or the alternate screen. */
export class Grid {
  lines: Line[]

  constructor(cols: number, rows: number) {
    this.lines = Array.from({ length: rows }, () => new Line(cols))
  }

  /** Moves the lines between two, inclusive, up by count, or down where that is negative. */
  scroll(top: number, bottom: number, count: number, style: number): void {
    const size = bottom + 1 - top
    const n = Math.max(-size, Math.min(count, size))
    const gone = n < 0 ? this.lines.splice(bottom + 1 + n, -n) : this.lines.splice(top, n)
    for (const line of gone) line.erase(0, line.places.length, style)
    this.lines.splice(n < 0 ? top : bottom + 1 - n, 0, ...gone)
  }

  /** Drops lines at the top, and cuts or fills up the rest. */
  resize(cols: number, rows: number, gone: number): void {
    this.lines = this.lines.slice(gone, gone + rows)
    for (const line of this.lines) line.resize(cols)
    while (this.lines.length < rows) this.lines.push(new Line(cols))
  }
}
