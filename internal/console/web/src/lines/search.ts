import type { Query } from './draw'
import type { Screen } from './screen'

/** How long one look may take before the browser draws. */
const slice = 6

/** The lines of a Screen that hold a text. It goes on as lines come. */
export class Search {
  query: Query = ''
  /** Numbers of lines, growing. */
  matches: number[] = []
  /** Which of them is the one that is shown; -1 for none. */
  at = -1

  private scanned = 0
  private dropped = 0

  constructor(private readonly screen: Screen) {}

  /** Searches for another text or expression, without regard to case. */
  begin(query: Query): void {
    this.query = typeof query === 'string' ? query.toLowerCase() : query
    this.matches = []
    this.at = -1
    this.scanned = 0
    this.dropped = this.screen.dropped
  }

  /** Looks at lines that were not looked at, or have changed, for a while. It is false if there are more. */
  advance(): boolean {
    if (this.query === '') return true
    if (this.dropped !== this.screen.dropped) this.begin(this.query)
    const from = Math.min(this.scanned, this.screen.dirtyFrom)
    this.screen.dirtyFrom = this.screen.length
    if (from < this.scanned) {
      while (this.matches.length > 0 && this.matches.at(-1)! >= from) this.matches.pop()
      this.scanned = from
    }
    const until = performance.now() + slice
    const { texts } = this.screen
    while (this.scanned < texts.length) {
      if (this.isIn(texts[this.scanned]!)) this.matches.push(this.scanned)
      this.scanned++
      if ((this.scanned & 255) === 0 && performance.now() > until) return false
    }
    return true
  }

  private isIn(text: string): boolean {
    const { query } = this
    return typeof query === 'string' ? text.toLowerCase().includes(query) : text.search(query) >= 0
  }

  /** Goes to the next match, or to the one before, and says which line that is; -1 if there is none. */
  step(by: 1 | -1): number {
    const count = this.matches.length
    if (count === 0) return -1
    this.at = this.at < 0 ? (by > 0 ? 0 : count - 1) : (this.at + by + count) % count
    return this.matches[this.at]!
  }
}
