import { type Query, drawLine } from './draw'
import type { Folds } from './folds'
import { marksOf } from './marks'
import { runs } from './row'
import type { Screen } from './screen'
import { stderr, styleOf } from './style'
import { isPlain } from './width'

/** A browser does not lay out elements of any height; beyond this one the scrollbar stands for more lines than pixels. */
const maxHeight = 8_000_000
const spare = 4

/** What the program around a View is told. */
export interface ViewOptions {
  /** The user has scrolled away from the end, or back to it. */
  onFollow(following: boolean): void
  /** The user has picked a line by its number; with shift, up to that line. */
  onPick(line: number, extend: boolean): void
  /** The address of a line. */
  href(line: number): string
  /** When a line was written, as it stands before it, "" for nothing. */
  stamp(line: number): string
}

interface RowElements {
  row: HTMLDivElement
  stamp: HTMLSpanElement
  number: HTMLAnchorElement
  text: HTMLSpanElement
  line: number
}

/**
 * Draws the lines of a Screen that can be seen, and no others, at most once a frame. Elements are reused; their number
 * depends on the height of the view alone.
 */
export class View {
  following = true
  /** Searched for. */
  query: Query = ''
  /** Whether lines that are longer than the view go on below. */
  wrap = false
  /** How stamps are written, to draw again when that changes. */
  stamps = ''
  /** The lines that are picked, both inclusive; -1 for none. */
  picked: [from: number, to: number] = [-1, -1]
  /** The lines that match the query. */
  found: readonly number[] = []
  /** How many frames were drawn, for those who measure. */
  frames = 0

  private readonly space = document.createElement('div')
  private readonly lines = document.createElement('div')
  private readonly marks = document.createElement('canvas')
  private readonly pool: RowElements[] = []
  private readonly resized: ResizeObserver
  private rowHeight = 19
  private height = 0 // of the box; to ask for it would make the browser lay out the page
  private total = -1 // height of all lines
  private requested = 0
  private expected = 0 // where we have scrolled to
  private drawn = '' // what the last frame showed
  private widest = 0

  constructor(
    private readonly box: HTMLElement,
    private readonly screen: Screen,
    readonly folds: Folds,
    private readonly options: ViewOptions,
  ) {
    this.space.className = 'term-space'
    this.lines.className = 'term-lines'
    const bar = document.createElement('div')
    bar.className = 'term-marks'
    bar.append(this.marks)
    box.append(bar, this.space, this.lines)
    box.addEventListener('scroll', this.scrolled, { passive: true })
    this.lines.addEventListener('click', this.clicked)
    this.lines.addEventListener('pointerover', this.pointed)
    this.resized = new ResizeObserver(() => {
      this.height = box.clientHeight
      this.request()
    })
    this.resized.observe(box)
  }

  close(): void {
    cancelAnimationFrame(this.requested)
    this.resized.disconnect()
    this.box.removeEventListener('scroll', this.scrolled)
    this.box.replaceChildren()
  }

  /** Draws with the next frame. */
  request(): void {
    this.requested ||= requestAnimationFrame(() => {
      this.requested = 0
      this.draw()
    })
  }

  follow(following: boolean): void {
    this.following = following
    this.request()
  }

  /** Scrolls so that a line is in the middle. */
  show(line: number): void {
    this.following = false
    this.folds.reveal(line)
    this.layOut()
    const visible = this.height / this.rowHeight
    this.scrollTo(this.offsetOf(Math.max(0, this.folds.indexOf(line) - visible / 2)))
    this.request()
  }

  private readonly scrolled = () => {
    const { scrollTop } = this.box
    if (Math.abs(scrollTop - this.expected) > 1) {
      const end = this.total - this.height
      const following = scrollTop >= end - this.rowHeight
      if (following !== this.following) {
        this.following = following
        this.options.onFollow(following)
      }
      this.expected = scrollTop
    }
    this.request()
  }

  /** Gives a number its address when somebody points at it: to make all of them for each frame takes longer than to draw. */
  private readonly pointed = (event: PointerEvent) => {
    const link = (event.target as HTMLElement).closest('a')
    const row = this.pool.find(({ number }) => number === link)
    if (row) row.number.href = this.options.href(row.line)
  }

  private readonly clicked = (event: MouseEvent) => {
    const link = (event.target as HTMLElement).closest('a')
    const row = this.pool.find(({ number }) => number === link)
    const group = this.pool.find(({ text }) => text.contains(event.target as Node))
    if (group && this.folds.at(group.line) && getSelection()?.isCollapsed !== false) {
      this.folds.toggle(group.line)
      this.options.onFollow(false) // the line stays where it is
      this.follow(false)
    }
    if (!row || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    this.options.onPick(row.line, event.shiftKey)
  }

  private scrollTo(top: number): void {
    this.expected = top
    this.box.scrollTop = top
    this.expected = this.box.scrollTop
  }

  /** The height of all lines in pixels, and how many lines there are beyond what can be seen. */
  private layOut(): void {
    const total = Math.min(this.folds.length * this.rowHeight, maxHeight)
    if (total === this.total) return
    this.total = total
    this.space.style.height = `${total}px`
  }

  /** Pixels for each line that is scrolled. */
  private get scale(): number {
    const lines = this.folds.length - this.height / this.rowHeight
    if (this.folds.length * this.rowHeight <= maxHeight || lines <= 0) return this.rowHeight
    return (maxHeight - this.height) / lines
  }

  private offsetOf(line: number): number {
    return line * this.scale
  }

  private draw(): void {
    this.frames++
    this.folds.advance()
    if (this.drawn === '') this.rowHeight = Number.parseFloat(getComputedStyle(this.box).lineHeight) || 19
    this.layOut()
    const { height } = this
    if (this.following) this.scrollTo(Math.max(0, this.total - height))
    const { scrollTop } = this.box
    const top = scrollTop / this.scale
    const first = Math.max(0, Math.floor(top))
    const count = Math.min(Math.ceil(height / this.rowHeight) + spare, this.folds.length - first)
    const now = `${first} ${count} ${this.screen.version} ${this.screen.dropped} ${this.query} ${this.picked} ${height} ${this.wrap} ${this.stamps} ${this.folds.version} ${this.found.length} ${this.folds.length}`
    const changed = now !== this.drawn
    if (changed) {
      this.drawn = now
      for (let i = 0; i < count; i++) this.drawRow((this.pool[i] ??= this.newRow()), this.folds.lineOf(first + i))
      this.pool.forEach(({ row }, i) => (row.hidden = i >= count))
      this.mark()
    }
    let above = (top - first) * this.rowHeight
    if (this.wrap) {
      // The scrollbar stands for lines, of which some are higher than others. The last one ends where the view does.
      const last = this.folds.length - height / this.rowHeight
      above = ((top - first) * (this.pool[0]?.row.offsetHeight ?? 0)) || 0
      if (top >= last - 1) above = Math.max(above, this.lines.offsetHeight - height)
    }
    this.lines.style.transform = `translateY(${scrollTop - above}px)`
  }

  /** Marks beside the scroll bar where lines match. */
  private mark(): void {
    const { marks, height, folds } = this
    marks.hidden = this.found.length === 0
    if (marks.hidden) return
    Object.assign(marks, { width: 6, height })
    const context = marks.getContext('2d')!
    context.fillStyle = getComputedStyle(marks).color
    for (const row of marksOf(this.found, folds.length, height, (place) => folds.lineOf(place))) context.fillRect(0, row - 1, 6, 2)
  }

  /** Draws everything again, in another form. */
  restyle(form: { wrap: boolean; stamps: string }): void {
    Object.assign(this, form)
    this.box.classList.toggle('is-wrapped', form.wrap)
    this.request()
  }

  private newRow(): RowElements {
    const row = document.createElement('div')
    const stamp = document.createElement('span')
    const number = document.createElement('a')
    const text = document.createElement('span')
    row.className = 'term-row'
    number.className = 'term-number'
    text.className = 'term-text'
    stamp.className = 'term-stamp'
    number.tabIndex = -1
    number.href = '#'
    row.append(number, stamp, text)
    this.lines.append(row)
    return { row, stamp, number, text, line: -1 }
  }

  private drawRow(elements: RowElements, line: number): void {
    const { row, stamp, number, text } = elements
    const content = this.screen.texts[line]!
    const styles = this.screen.styles[line]!
    elements.line = line
    // The last line is where the cursor stands; before something is written there, it is no line.
    const isLine = content !== '' || line < this.screen.length - 1
    number.textContent = isLine ? String(line + 1 + this.screen.dropped) : '·'
    number.inert = !isLine
    stamp.textContent = isLine ? this.options.stamp(line) : ''
    const [from, to] = this.picked
    const group = this.folds.at(line)
    row.className = `term-row${hasStderr(content, styles) ? ' is-stderr' : ''}${line >= from && line <= to ? ' is-picked' : ''}${group ? ` is-${group}` : ''}`
    drawLine(text, content, styles, this.query)
    if (content.length > this.widest) this.widen(content)
  }

  /** Makes room for a line that is longer than those before. */
  private widen(content: string): void {
    this.widest = content.length
    const columns = isPlain(content) ? content.length : content.length * 2
    this.lines.style.width = `max(100%, calc(${Math.min(columns, 10_000) + 2}ch + 5.5rem))`
  }
}

function hasStderr(text: string, styles: number | number[]): boolean {
  for (const [, , style] of runs(text, styles)) if (styleOf(style).flags & stderr) return true
  return false
}
