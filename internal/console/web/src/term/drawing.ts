import { Grid, type Line, blankOf } from './grid'
import { defaultStyle, inverse, numberOf, styleOf } from './style'
import { widthOf } from './width'

/** What a program saves with DECSC. */
interface Cursor {
  x: number
  y: number
  style: number
  /** The next character goes to the next line. */
  wrapping: boolean
  origin: boolean
  graphics: boolean[]
  shift: number
}

const home = (): Cursor => ({ x: 0, y: 0, style: defaultStyle, wrapping: false, origin: false, graphics: [false, false, false, false], shift: 0 })
const copyOf = (cursor: Cursor): Cursor => ({ ...cursor, graphics: [...cursor.graphics] })
const within = (n: number, least: number, most: number) => Math.max(least, Math.min(n, most))

/** The DEC special graphics, from '`' on. */
const lineDrawing = '◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·'
const maxCols = 1000
const maxRows = 500
/** The private modes that change what keys send. */
export const cursorKeys = 1
export const bracketedPaste = 2004

/** What is drawn on a terminal, and the steps of which drawing consists. */
export class Drawing {
  cols: number
  rows: number
  title = ''
  /** The cursor is not shown. */
  hidden = false
  /** Changes with all that is drawn. */
  version = 0
  readonly modes = new Set<number>()
  /** Is given what answers a question of the program. */
  onAnswer: ((text: string) => void) | undefined

  protected main: Grid
  protected alt: Grid
  protected grid: Grid
  protected cursor = home()
  protected saved: [Cursor, Cursor] = [home(), home()]
  protected top = 0
  protected bottom: number
  protected tabs: boolean[] = []
  protected inserting = false
  protected newline = false
  protected noWrap = false
  protected last = ''

  constructor(cols: number, rows: number) {
    this.cols = within(cols, 1, maxCols)
    this.rows = within(rows, 1, maxRows)
    this.bottom = this.rows - 1
    this.main = this.grid = new Grid(this.cols, this.rows)
    this.alt = new Grid(this.cols, this.rows)
    this.resetTabs(0)
  }

  get alternate(): boolean {
    return this.grid === this.alt
  }

  /** Where the cursor is, undefined where it is hidden. */
  get at(): { x: number; y: number } | undefined {
    return this.hidden ? undefined : { x: this.cursor.x, y: this.cursor.y }
  }

  /** A row for drawLine; the place under the cursor is inverse. */
  row(y: number): [text: string, styles: number | number[]] {
    const cursor = y === this.cursor.y && !this.hidden ? this.cursor.x : -1
    return this.grid.lines[y]!.packed(cursor, (style) => {
      const { fg, bg, flags } = styleOf(style)
      return numberOf(fg, bg, flags ^ inverse)
    })
  }

  /** What is on the screen, without colours; empty lines at its end are left out. */
  text(): string {
    const lines = this.grid.lines.map((line) => line.packed()[0].replace(/ +$/, ''))
    return lines.join('\n').replace(/\n+$/, '')
  }

  /** Lines above the cursor go where there is no room for all. */
  resize(cols: number, rows: number): void {
    cols = within(cols, 1, maxCols)
    rows = within(rows, 1, maxRows)
    if (cols === this.cols && rows === this.rows) return
    this.version++
    for (const [i, grid] of [this.main, this.alt].entries()) {
      const at = grid === this.grid ? this.cursor : this.saved[i]!
      const gone = Math.max(0, Math.min(at.y, this.rows - 1) - (rows - 1))
      grid.resize(cols, rows, gone)
      at.y -= gone
    }
    const before = Math.min(this.cols, cols)
    ;[this.cols, this.rows, this.top, this.bottom] = [cols, rows, 0, rows - 1]
    this.resetTabs(before)
    for (const at of [this.cursor, ...this.saved]) {
      at.x = Math.min(at.x, cols - 1)
      at.y = within(at.y, 0, rows - 1)
      at.wrapping = false
    }
  }

  protected put(character: string): void {
    if (this.cursor.graphics[this.cursor.shift] && character >= '`' && character <= '~') {
      character = lineDrawing[character.charCodeAt(0) - 0x60]!
    }
    let width = widthOf(character.codePointAt(0)!)
    if (width === 0) {
      const x = this.cursor.wrapping ? this.cursor.x : this.cursor.x - 1
      if (x >= 0) this.line.mark(x, character)
      return
    }
    if (width > this.cols) [character, width] = ['\ufffd', 1]
    this.last = character
    if (this.cursor.wrapping || this.cursor.x + width > this.cols) {
      if (this.noWrap) this.cursor.x = this.cols - width
      else {
        this.cursor.x = 0
        this.index()
      }
      this.cursor.wrapping = false
    }
    if (this.inserting) this.line.insert(this.cursor.x, width, this.blank)
    this.line.set(this.cursor.x, character, width, this.cursor.style)
    this.cursor.x += width
    if (this.cursor.x >= this.cols) {
      this.cursor.x = this.cols - 1
      this.cursor.wrapping = true
    }
  }

  protected region(top: number, bottom: number): void {
    if (top >= bottom) return
    this.top = top
    this.bottom = bottom
    this.moveTo(0, 0)
  }

  protected eraseLine(what: number): void {
    const from = what === 0 ? this.cursor.x : 0
    this.line.erase(from, what === 1 ? this.cursor.x + 1 : this.cols, this.blank)
  }

  protected eraseLines(what: number): void {
    if (what > 2) return
    if (what < 2) this.eraseLine(what)
    const from = what === 0 ? this.cursor.y + 1 : 0
    const to = what === 1 ? this.cursor.y : this.rows
    for (const line of this.grid.lines.slice(from, to)) line.erase(0, this.cols, this.blank)
  }

  protected switchScreen(mode: number, on: boolean): void {
    const clear = () => this.alt.scroll(0, this.rows - 1, this.rows, this.blank)
    if (on && !this.alternate) {
      if (mode === 1049) this.save()
      this.grid = this.alt
      if (mode === 1049) clear()
    } else if (!on) {
      if (this.alternate && mode === 1047) clear()
      this.grid = this.main
      if (mode === 1049) this.restore()
    }
  }

  protected softReset(): void {
    this.inserting = this.noWrap = this.hidden = false
    this.top = 0
    this.bottom = this.rows - 1
    this.cursor = { ...home(), x: this.cursor.x, y: this.cursor.y }
    this.saved[this.alternate ? 1 : 0] = home()
    this.modes.delete(cursorKeys)
  }

  protected reset(): void {
    this.main = this.grid = new Grid(this.cols, this.rows)
    this.alt = new Grid(this.cols, this.rows)
    this.cursor = home()
    this.saved = [home(), home()]
    this.top = 0
    this.bottom = this.rows - 1
    this.inserting = this.newline = this.noWrap = this.hidden = false
    this.title = this.last = ''
    this.modes.clear()
    this.resetTabs(0)
  }

  protected get line(): Line {
    return this.grid.lines[this.cursor.y]!
  }

  protected get blank(): number {
    return blankOf(this.cursor.style)
  }

  protected resetTabs(from: number): void {
    this.tabs.length = this.cols
    for (let x = from; x < this.cols; x++) this.tabs[x] = x % 8 === 0 && x > 0
  }

  /** Moves the cursor by n tab stops, or back. */
  protected tab(n: number): void {
    const step = n < 0 ? -1 : 1
    let x = this.cursor.x
    for (let left = Math.abs(n); left > 0; left--) {
      for (x += step; x > 0 && x < this.cols - 1 && !this.tabs[x]; ) x += step
      if (x <= 0 || x >= this.cols - 1) break
    }
    this.move(x, this.cursor.y)
  }

  /** Moves the cursor down, and scrolls at the bottom of the region. */
  protected index(): void {
    if (this.cursor.y === this.bottom) this.scroll(this.top, 1)
    else if (this.cursor.y < this.rows - 1) this.cursor.y++
  }

  protected reverseIndex(): void {
    if (this.cursor.y === this.top) this.scroll(this.top, -1)
    else if (this.cursor.y > 0) this.cursor.y--
  }

  /** Moves the lines from one to the bottom of the region up by count, or down. */
  protected scroll(from: number, count: number): void {
    this.grid.scroll(from, this.bottom, count, this.blank)
  }

  protected move(x: number, y: number): void {
    this.cursor.x = within(x, 0, this.cols - 1)
    this.cursor.y = within(y, 0, this.rows - 1)
    this.cursor.wrapping = false
  }

  /** move to an address of the program, which may be within the region. */
  protected moveTo(x: number, y: number): void {
    this.move(x, this.cursor.origin ? within(y + this.top, this.top, this.bottom) : y)
  }

  protected save(): void {
    this.saved[this.alternate ? 1 : 0] = copyOf(this.cursor)
  }

  protected restore(): void {
    this.cursor = copyOf(this.saved[this.alternate ? 1 : 0])
    this.cursor.x = within(this.cursor.x, 0, this.cols - 1)
    this.cursor.y = within(this.cursor.y, 0, this.rows - 1)
  }
}
