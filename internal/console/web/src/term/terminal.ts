import { Drawing } from './drawing'
import { type Actions, Parser } from './parser'
import { defaultStyle, select } from './style'

/** A terminal on which programs draw a whole screen, as internal/screen of the server draws it. It neither knows nor draws a page. */
export class Terminal extends Drawing implements Actions {
  private readonly parser = new Parser(this)

  write(text: string): void {
    this.version++
    this.parser.write(text)
  }

  print(text: string): void {
    for (const character of text) this.put(character)
  }

  execute(code: number): void {
    switch (code) {
      case 8:
        this.move(this.cursor.x - 1, this.cursor.y)
        break
      case 9:
        this.tab(1)
        break
      case 10:
      case 11:
      case 12:
        this.cursor.wrapping = false
        this.index()
        if (this.newline) this.cursor.x = 0
        break
      case 13:
        this.move(0, this.cursor.y)
        break
      case 14:
      case 15:
        this.cursor.shift = 15 - code
        break
    }
  }

  escape(between: string, final: string): void {
    const set = '()*+'.indexOf(between)
    if (between !== '' && set >= 0) this.cursor.graphics[set] = final === '0'
    if (between === '#' && final === '8') {
      for (const line of this.grid.lines) {
        line.places.fill('E')
        line.styles.fill(defaultStyle)
      }
    }
    if (between !== '') return
    switch (final) {
      case '7':
        this.save()
        break
      case '8':
        this.restore()
        break
      case 'D':
        this.index()
        break
      case 'E':
        this.cursor.x = 0
        this.index()
        break
      case 'H':
        this.tabs[this.cursor.x] = true
        break
      case 'M':
        this.reverseIndex()
        break
      case 'c':
        this.reset()
        break
      case 'n':
      case 'o':
        this.cursor.shift = final === 'n' ? 2 : 3
        break
    }
  }

  command(text: string): void {
    const [, number, rest] = /^([0-9]*);?(.*)$/su.exec(text) ?? []
    if (number === '0' || number === '2') this.title = rest ?? ''
  }

  control(prefix: string, parameters: string, between: string, final: string): void {
    if (between === '!' && final === 'p') this.softReset()
    if (between !== '') return
    if (final === 'm') {
      if (prefix === '') this.cursor.style = select(this.cursor.style, parameters)
      return
    }
    const values = parameters.split(/[;:]/).map((value) => Math.min(Number(value) || 0, 65535))
    if (prefix === '?' && (final === 'h' || final === 'l')) {
      for (const mode of values) this.setPrivate(mode, final === 'h')
      return
    }
    const n = values[0] || 1
    const m = values[1] || 0
    if (prefix === '?' ? final === 'J' || final === 'K' : prefix === '') {
      if (!this.moveBy(final, n, m)) this.edit(final, n, values)
    }
    if (final === 'c' && prefix !== '?' && values[0] === 0) this.onAnswer?.(prefix === '>' ? '\x1b[>0;0;0c' : '\x1b[?62;22c')
    if (final === 'n' && prefix === '' && values[0] === 5) this.onAnswer?.('\x1b[0n')
    if (final === 'n' && prefix === '' && values[0] === 6) this.onAnswer?.(`\x1b[${this.cursor.y + 1};${this.cursor.x + 1}R`)
  }

  /** Carries out what moves the cursor, and reports whether it was that. */
  private moveBy(final: string, n: number, m: number): boolean {
    const { x, y } = this.cursor
    const upper = y >= this.top ? this.top : 0
    const lower = y <= this.bottom ? this.bottom : this.rows - 1
    const moves: Record<string, () => void> = {
      A: () => this.move(x, Math.max(y - n, upper)),
      B: () => this.move(x, Math.min(y + n, lower)),
      C: () => this.move(x + n, y),
      D: () => this.move(x - n, y),
      E: () => this.move(0, Math.min(y + n, lower)),
      F: () => this.move(0, Math.max(y - n, upper)),
      G: () => this.move(n - 1, y),
      d: () => this.moveTo(x, n - 1),
      H: () => this.moveTo((m || 1) - 1, n - 1),
      I: () => this.tab(Math.min(n, this.cols)),
      Z: () => this.tab(-Math.min(n, this.cols)),
      s: () => this.save(),
      u: () => this.restore(),
      r: () => this.region(n - 1, Math.min(m || this.rows, this.rows) - 1),
    }
    const same: Record<string, string> = { e: 'B', a: 'C', '`': 'G', f: 'H' }
    const move = moves[same[final] ?? final]
    move?.()
    return move !== undefined
  }

  /** Carries out what changes what is drawn. */
  private edit(final: string, n: number, values: number[]): void {
    const { x, y } = this.cursor
    switch (final) {
      case '@':
        this.line.insert(x, n, this.blank)
        break
      case 'P':
        this.line.remove(x, n, this.blank)
        break
      case 'X':
        this.line.erase(x, x + n, this.blank)
        break
      case 'J':
        this.eraseLines(values[0]!)
        break
      case 'K':
        this.eraseLine(values[0]!)
        break
      case 'L':
      case 'M':
        if (y < this.top || y > this.bottom) break
        this.scroll(y, final === 'L' ? -n : n)
        this.cursor.x = 0
        break
      case 'S':
        this.scroll(this.top, n)
        break
      case 'T':
        this.scroll(this.top, -n)
        break
      case 'b':
        if (this.last !== '') for (let i = Math.min(n, this.cols); i > 0; i--) this.put(this.last)
        break
      case 'g':
        if (values[0] === 0) this.tabs[x] = false
        if (values[0] === 3) this.tabs.fill(false)
        break
      case 'h':
      case 'l':
        if (values.includes(4)) this.inserting = final === 'h'
        if (values.includes(20)) this.newline = final === 'h'
        break
    }
    if ('@PXJKLM'.includes(final)) this.cursor.wrapping = false
  }

  private setPrivate(mode: number, on: boolean): void {
    switch (mode) {
      case 6:
        this.cursor.origin = on
        this.moveTo(0, 0)
        return
      case 7:
        this.noWrap = !on
        return
      case 25:
        this.hidden = !on
        return
      case 47:
      case 1047:
      case 1049:
        this.switchScreen(mode, on)
        return
      case 1048:
        if (on) this.save()
        else this.restore()
        return
    }
    if (on) this.modes.add(mode)
    else this.modes.delete(mode)
  }
}
