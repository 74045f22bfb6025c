/** What the parts of the output of a program are handed to. */
export interface Actions {
  /** Text without control characters. */
  print(text: string): void
  /** A control character. */
  execute(code: number): void
  /** ESC, with what stands between it and the last character. */
  escape(between: string, final: string): void
  /** CSI: what begins it ('?', '>', '=', '<' or ''), the parameters as text, what stands before the last character, and that. */
  control(prefix: string, parameters: string, between: string, final: string): void
  /** OSC. */
  command(text: string): void
}

const plain = /[^\x00-\x1f\x7f-\x9f]+/y
const csi = /\x1b\[([<-?]*)([0-9:;]*)[<-?]*([ -/]*)[<-?0-9:;]*([@-~])/y
const osc = /\x1b\]([^\x07\x18\x1a\x1b]*)(?:\x07|\x1b\\)/y
const otherString = /\x1b[PX^_][^\x18\x1a\x1b]*(?:\x1b\\|(?=[\x18\x1a\x1b]))/y
const short = /\x1b([ -/]*)([0-OQ-WYZ\\`-~])/y
/** A sequence that may go on with the next output. */
const unfinished = /\x1b(?:\[[<-?0-9:; -/]*|[\]PX^_][^\x07\x18\x1a\x1b]*\x1b?|[ -/]*)?$/
const longest = 8192

/** Takes output apart into text, control characters and sequences (ECMA-48), which may lie in several pieces. */
export class Parser {
  private rest = ''

  constructor(private readonly actions: Actions) {}

  write(text: string): void {
    text = this.rest + text
    this.rest = ''
    const cut = text.slice(-longest).search(unfinished)
    if (cut >= 0) {
      const at = Math.max(0, text.length - longest) + cut
      this.rest = text.slice(at)
      text = text.slice(0, at)
    }
    for (let at = 0; at < text.length; ) at = this.step(text, at)
  }

  /** Handles what begins at a place, and returns where the next thing begins. */
  private step(text: string, at: number): number {
    const match = (pattern: RegExp) => {
      pattern.lastIndex = at
      return pattern.exec(text)
    }
    let found = match(plain)
    if (found) this.actions.print(found[0])
    else if (text[at] !== '\x1b') {
      const code = text.charCodeAt(at)
      if (code < 0x20 && code !== 0x18 && code !== 0x1a) this.actions.execute(code)
      return at + 1
    } else if ((found = match(csi))) this.actions.control(found[1]!.slice(-1), found[2]!, found[3]!.slice(-1), found[4]!)
    else if ((found = match(osc))) this.actions.command(found[1]!)
    else if ((found = match(otherString))) return at + Math.max(1, found[0].length)
    else if ((found = match(short))) this.actions.escape(found[1]!.slice(-1), found[2]!)
    else return at + 1
    return at + found[0].length
  }
}
