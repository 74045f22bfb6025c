import { FitAddon } from '@xterm/addon-fit'
import { Unicode11Addon } from '@xterm/addon-unicode11'
import { WebLinksAddon } from '@xterm/addon-web-links'
import { type ITheme, Terminal as Xterm } from '@xterm/xterm'

/** Lines above the screen that can be scrolled to. The tab "Output" has all. */
const scrollback = 1000
/** What a terminal answers when a program asks it: where the cursor is, what it can do, its colours. */
const answer = /^\x1b(?:\[[?>]?[\d;]*\$?[cnRtuy]|[P\]].*(?:\x1b\\|\x07))$/s
const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const

/** What a panel that shows a terminal is called with. */
export interface Hearer {
  type(bytes: Uint8Array): void
  focus(focused: boolean): void
  /** The room for the terminal has changed. */
  room(): void
}

/** A terminal of xterm.js, which draws from the first output on and is shown while a panel asks for it. */
export class Terminal {
  title = ''
  private readonly term: Xterm
  private readonly fitting = new FitAddon()
  private readonly host = document.createElement('div')
  private readonly encoder = new TextEncoder()
  private hearer: Hearer | undefined
  private live = false
  private answers = false

  constructor(cols: number, rows: number) {
    this.term = new Xterm({
      cols,
      rows,
      scrollback,
      allowProposedApi: true, // widths of Unicode 11 are one
      fontSize: 12.5,
      lineHeight: 1.2,
      minimumContrastRatio: 4.5,
      linkHandler: {
        activate: (_, address) => open(address),
        hover: (_, address) => (this.host.title = address), // its text may name another one
        leave: () => (this.host.title = ''),
      },
    })
    this.host.className = 'terminal-host'
    this.term.loadAddon(this.fitting)
    this.term.loadAddon(new Unicode11Addon())
    this.term.unicode.activeVersion = '11'
    this.term.loadAddon(new WebLinksAddon((_, address) => open(address)))
    this.term.attachCustomKeyEventHandler((event) => this.mayType(event))
    this.term.onTitleChange((title) => (this.title = title))
    this.term.onData((text) => {
      if (this.answers || !answer.test(text)) this.hearer?.type(this.encoder.encode(text))
    })
    this.term.onBinary((text) => this.hearer?.type(Uint8Array.from(text, (byte) => byte.charCodeAt(0))))
    this.host.addEventListener('paste', (event) => this.paste(event), true)
    this.host.addEventListener('focusin', () => this.hearer?.focus(true))
    this.host.addEventListener('focusout', () => this.hearer?.focus(false))
  }

  get cols(): number {
    return this.term.cols
  }

  get rows(): number {
    return this.term.rows
  }

  /** Draws output; a question in output of the past is not answered again. */
  write(text: string, live: boolean): void {
    if (live !== this.live) this.term.write('', () => (this.answers = live))
    this.live = live
    this.term.write(text)
  }

  resize(cols: number, rows: number): void {
    this.term.resize(Math.min(Math.max(cols, 2), 1000), Math.min(Math.max(rows, 1), 500))
  }

  /** Shows the terminal in an element, and returns what takes it away. */
  show(box: HTMLElement, hearer: Hearer): () => void {
    box.append(this.host)
    this.hearer = hearer
    this.term.options.fontFamily = getComputedStyle(box).fontFamily
    this.term.open(this.host)
    const paint = () => (this.term.options.theme = themeOf(box))
    paint()
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', paint)
    const chosen = new MutationObserver(paint)
    chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] })
    const sized = new ResizeObserver(() => hearer.room())
    sized.observe(box)
    return () => {
      scheme.removeEventListener('change', paint)
      chosen.disconnect()
      sized.disconnect()
      this.hearer = undefined
      this.host.remove()
    }
  }

  /** The columns and rows that have room. */
  fit(): [cols: number, rows: number] {
    const { cols = 80, rows = 24 } = this.fitting.proposeDimensions() ?? {}
    return [Math.max(20, cols), Math.max(5, rows)]
  }

  /** Lays the lines out for screen readers too, and has them read what is written. */
  readAloud(on: boolean): void {
    this.term.options.screenReaderMode = on
  }

  close(): void {
    this.term.dispose()
  }

  /** Reports whether a key is the program's. */
  private mayType(event: KeyboardEvent): boolean {
    if (event.key === 'Escape' && event.shiftKey) {
      this.term.blur()
      return false
    }
    if (!event.ctrlKey) return true
    if (event.shiftKey && event.code === 'KeyC' && event.type === 'keydown' && this.term.hasSelection()) {
      event.preventDefault()
      document.execCommand('copy')
    }
    return !event.shiftKey && event.key !== 'v' // the browser's: windows, and a paste, which comes
  }

  /** Pastes without what could end a paste and give a command. */
  private paste(event: ClipboardEvent): void {
    event.preventDefault()
    event.stopPropagation()
    this.term.paste((event.clipboardData?.getData('text') ?? '').replaceAll('\x1b', ''))
  }
}

/** Opens an address that output contains; it learns nothing about the page. */
function open(address: string): void {
  window.open(address, '_blank', 'noopener,noreferrer')
}

/** The colours of the page, as they are now. */
function themeOf(box: HTMLElement): ITheme {
  const probe = document.createElement('span')
  box.append(probe)
  const colour = (name: string) => {
    probe.style.color = `var(${name})`
    return getComputedStyle(probe).color
  }
  const theme: ITheme = {
    background: colour('--term'),
    foreground: colour('--term-ink'),
    cursor: colour('--term-ink'),
    cursorAccent: colour('--term'),
    selectionBackground: colour('--found'),
  }
  names.forEach((name, i) => {
    theme[name] = colour(`--c${i}`)
    theme[`bright${name[0]!.toUpperCase()}${name.slice(1)}` as 'brightRed'] = colour(`--c${i + 8}`)
  })
  probe.remove()
  return theme
}
