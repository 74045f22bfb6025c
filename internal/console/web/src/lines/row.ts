import { defaultStyle } from './style'
import { type Glyph, glyphs } from './width'

interface Cell {
  /** Empty for the second column of a wide character. */
  text: string
  style: number
}

/** The styles of a line, to whose length-many characters text in another style is added. */
export function joinRun(styles: number | number[], length: number, style: number): number | number[] {
  if (length === 0) return style
  if (typeof styles === 'number') return styles === style ? styles : [0, styles, length, style]
  if (styles.at(-1) !== style) styles.push(length, style)
  return styles
}

/** Runs of one style: the start and the end of each in the text, and its number. */
export function* runs(text: string, styles: number | number[]): Generator<[from: number, to: number, style: number]> {
  if (typeof styles === 'number') {
    if (text !== '') yield [0, text.length, styles]
    return
  }
  for (let i = 0; i < styles.length; i += 2) {
    const to = styles[i + 2] ?? text.length
    if (to > styles[i]!) yield [styles[i]!, to, styles[i + 1]!]
  }
}

/** A line taken apart into columns, to be written over. */
export class Row {
  private readonly cells: Cell[] = []

  constructor(text: string, styles: number | number[]) {
    let column = 0
    for (const [from, to, style] of runs(text, styles)) {
      for (const glyph of glyphs(text.slice(from, to), column)) {
        this.place(column, glyph, style)
        column += glyph.width
      }
    }
  }

  get width(): number {
    return this.cells.length
  }

  /** Writes text from a column on and returns the column behind it. */
  put(column: number, text: string, style: number): number {
    while (this.cells.length < column) this.cells.push({ text: ' ', style: defaultStyle })
    for (const glyph of glyphs(text, column)) {
      this.split(column)
      this.split(column + glyph.width)
      this.place(column, glyph, style)
      column += glyph.width
    }
    return column
  }

  /** Makes columns blank, and the line shorter where nothing follows. */
  erase(from: number, to: number): void {
    this.split(from)
    this.split(to)
    if (to >= this.cells.length) {
      this.cells.length = Math.min(this.cells.length, from)
      return
    }
    for (let column = from; column < to; column++) this.cells[column] = { text: ' ', style: defaultStyle }
  }

  packed(): [text: string, styles: number | number[]] {
    let text = ''
    let styles: number | number[] = defaultStyle
    for (const cell of this.cells) {
      if (cell.text === '') continue
      styles = joinRun(styles, text.length, cell.style)
      text += cell.text
    }
    return [text, styles]
  }

  private place(column: number, glyph: Glyph, style: number): void {
    this.cells[column] = { text: glyph.text, style }
    if (glyph.width === 2) this.cells[column + 1] = { text: '', style }
  }

  /** Makes a wide character that reaches over a column blank, of which one half is about to be written over. */
  private split(column: number): void {
    if (this.cells[column]?.text !== '') return
    this.cells[column - 1]!.text = ' '
    this.cells[column]!.text = ' '
  }
}
