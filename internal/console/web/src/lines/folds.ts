import type { Screen } from './screen'

const begin = '::group::'
const end = '::endgroup::'

/** A part of the output. The numbers of lines count those that were dropped. */
interface Group {
  /** The line that begins it, and stays when it is folded. */
  from: number
  /** The line after its last one; Infinity as long as it goes on. */
  to: number
}

/** The parts of a Screen that begin with a line "::group::title", of which each can be folded into that line. */
export class Folds {
  /** Grows when another part is folded. */
  version = 0

  private readonly groups: Group[] = []
  private folded: Group[] = []
  private scanned = 0

  constructor(private readonly screen: Screen) {}

  /** Whether there are parts at all. */
  get any(): boolean {
    return this.groups.length > 0
  }

  /** Whether one of them is folded. */
  get anyFolded(): boolean {
    return this.folded.length > 0
  }

  /** Looks at the lines that are complete and were not looked at. */
  advance(): void {
    const { texts, dropped } = this.screen
    for (this.scanned = Math.max(this.scanned, dropped); this.scanned < dropped + texts.length - 1; this.scanned++) {
      const text = texts[this.scanned - dropped]!
      if (text.charCodeAt(0) !== 58) continue // ':'
      const last = this.groups.at(-1)
      if (text.startsWith(begin)) {
        if (last?.to === Infinity) last.to = this.scanned
        this.groups.push({ from: this.scanned, to: Infinity })
      } else if (text.startsWith(end) && last?.to === Infinity) {
        last.to = this.scanned + 1
      }
    }
  }

  /** The number of lines that are not folded away. */
  get length(): number {
    return this.indexOf(this.screen.length)
  }

  /** The line in a place among those that are not folded away. */
  lineOf(index: number): number {
    let line = index
    for (const group of this.folded) {
      const [from, to] = this.hidden(group)
      if (from > line) break
      line += to - from
    }
    return line
  }

  /** The place of a line; of one that is folded away, that of the line which stands for it. */
  indexOf(line: number): number {
    let away = 0
    for (const group of this.folded) {
      const [from, to] = this.hidden(group)
      if (line < from) break
      if (line < to) return Math.max(0, from - away - 1)
      away += to - from
    }
    return line - away
  }

  /** How the line of a part stands: undefined for other lines. */
  at(line: number): 'open' | 'folded' | undefined {
    const group = this.groupAt(line)
    return group && (this.folded.includes(group) ? 'folded' : 'open')
  }

  /** Folds the part that a line begins, or unfolds it. */
  toggle(line: number): void {
    const group = this.groupAt(line)
    if (group) this.fold(this.folded.includes(group) ? this.folded.filter((other) => other !== group) : [...this.folded, group])
  }

  /** Folds all parts, or none. */
  foldAll(away: boolean): void {
    this.fold(away ? [...this.groups] : [])
  }

  /** Unfolds the part in which a line is. */
  reveal(line: number): void {
    const inside = (group: Group) => {
      const [from, to] = this.hidden(group)
      return from <= line && line < to
    }
    if (this.folded.some(inside)) this.fold(this.folded.filter((group) => !inside(group)))
  }

  private fold(folded: Group[]): void {
    this.folded = folded.sort((a, b) => a.from - b.from)
    this.version++
  }

  private groupAt(line: number): Group | undefined {
    if (this.screen.texts[line]?.startsWith(begin) !== true) return undefined
    const from = line + this.screen.dropped
    return this.groups.find((group) => group.from === from)
  }

  /** The lines of a part that are away when it is folded. */
  private hidden({ from, to }: Group): [from: number, to: number] {
    const { dropped, length } = this.screen
    const last = Math.max(0, Math.min(to - dropped, length))
    return [Math.min(Math.max(0, from + 1 - dropped), last), last]
  }
}
