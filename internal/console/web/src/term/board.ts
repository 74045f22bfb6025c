import { drawLine } from './draw'
import { bracketedPaste, cursorKeys } from './drawing'
import { bytesOf } from './keys'
import type { Terminal } from './terminal'

const rowHeight = 19

/** The element of a terminal: draws what has changed, at most once a frame, and hands on what is typed. */
export class Board {
  private readonly rows: HTMLElement[] = []
  private readonly drawn: string[] = []
  private readonly lines = document.createElement('div')
  private readonly keys = document.createElement('textarea')
  private readonly stopping = new AbortController()
  private asked = false
  private version = -1

  constructor(
    private readonly box: HTMLElement,
    private readonly terminal: Terminal,
    private readonly on: { type(text: string): void; focus(focused: boolean): void; size(cols: number, rows: number): void },
  ) {
    this.lines.className = 'board-lines'
    this.keys.className = 'board-keys'
    this.keys.setAttribute('aria-label', 'Keys for the terminal. Shift and Escape leave it.')
    for (const name of ['autocapitalize', 'autocomplete', 'autocorrect']) this.keys.setAttribute(name, 'off')
    this.keys.spellcheck = false
    box.replaceChildren(this.lines, this.keys)
    this.listen()
    this.request()
  }

  /** Draws soon, if anything has changed. */
  request(): void {
    if (this.asked) return
    this.asked = true
    requestAnimationFrame(() => {
      this.asked = false
      if (!this.stopping.signal.aborted) this.draw()
    })
  }

  focus(): void {
    this.keys.focus({ preventScroll: true })
  }

  close(): void {
    this.stopping.abort()
    this.box.replaceChildren()
  }

  /** The columns and rows that have room. */
  fit(): [cols: number, rows: number] {
    const probe = document.createElement('span')
    probe.textContent = '0'.repeat(50)
    this.lines.append(probe)
    const width = probe.getBoundingClientRect().width / 50
    probe.remove()
    const style = getComputedStyle(this.box)
    const across = this.box.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight)
    const down = this.box.clientHeight - Number.parseFloat(style.paddingTop) - Number.parseFloat(style.paddingBottom)
    return [Math.max(20, Math.floor(across / width)), Math.max(5, Math.floor(down / rowHeight))]
  }

  private draw(): void {
    const { terminal } = this
    if (this.version === terminal.version) return
    this.version = terminal.version
    while (this.rows.length > terminal.rows) {
      this.rows.pop()!.remove()
      this.drawn.pop()
    }
    for (let y = 0; y < terminal.rows; y++) {
      const [text, styles] = terminal.row(y)
      const key = `${text}\0${styles}`
      if (this.drawn[y] === key) continue
      this.drawn[y] = key
      let row = this.rows[y]
      if (!row) {
        row = this.rows[y] = document.createElement('div')
        row.className = 'board-row'
        this.lines.append(row)
      }
      drawLine(row, text, styles, '')
    }
    const at = terminal.at
    if (at) this.keys.style.transform = `translate(${at.x}ch, ${at.y * rowHeight}px)`
  }

  private listen(): void {
    const options = { signal: this.stopping.signal }
    const { keys } = this
    keys.addEventListener('keydown', (event) => this.key(event), options)
    keys.addEventListener(
      'input',
      (event) => {
        if ((event as InputEvent).isComposing) return
        this.send(keys.value.replaceAll('\n', '\r'))
        keys.value = ''
      },
      options,
    )
    keys.addEventListener(
      'compositionend',
      () => {
        this.send(keys.value)
        keys.value = ''
      },
      options,
    )
    keys.addEventListener(
      'paste',
      (event) => {
        event.preventDefault()
        this.paste(event.clipboardData?.getData('text') ?? '')
      },
      options,
    )
    keys.addEventListener('focus', () => this.on.focus(true), options)
    keys.addEventListener('blur', () => this.on.focus(false), options)
    this.box.addEventListener(
      'mouseup',
      () => {
        if (getSelection()?.isCollapsed ?? true) this.focus() // what was picked can be copied
      },
      options,
    )
    const observer = new ResizeObserver(() => this.on.size(...this.fit()))
    observer.observe(this.box)
    options.signal.addEventListener('abort', () => observer.disconnect())
  }

  private key(event: KeyboardEvent): void {
    if (event.isComposing || event.keyCode === 229) return // an input method, or a keyboard on glass
    if (event.key === 'Escape' && event.shiftKey) {
      this.keys.blur()
      return
    }
    if (event.ctrlKey && event.shiftKey) return // the browser's: copy, paste, new windows
    if (event.ctrlKey && event.key === 'v') return // paste comes
    if (event.getModifierState('AltGraph') && event.key.length === 1) {
      event.preventDefault()
      this.send(event.key)
      return
    }
    const bytes = bytesOf(event, this.terminal.modes.has(cursorKeys))
    if (bytes === undefined) return
    event.preventDefault()
    this.send(bytes)
  }

  private paste(text: string): void {
    text = text.replaceAll('\r\n', '\r').replaceAll('\n', '\r').replaceAll('\x1b', '')
    if (this.terminal.modes.has(bracketedPaste)) text = `\x1b[200~${text}\x1b[201~`
    this.send(text)
  }

  private send(text: string): void {
    if (text !== '') this.on.type(text)
  }
}
