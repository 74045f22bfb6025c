/** The channels of a run that the timeline shows. */
export type Channel = 'stdout' | 'stderr'

/** What was written in one span of time. */
export interface Span {
  /** The length of what each channel wrote, in characters. */
  stdout: number
  stderr: number
  /** The seq of the first event of each channel, 0 for none. */
  firstStdout: number
  firstStderr: number
}

/**
 * Counts when which channel wrote how much, in a fixed number of spans of equal length, however many events there are: when the
 * spans do not reach far enough, each two become one.
 */
export class Activity {
  static readonly size = 240

  /** The time of the first event, in milliseconds since 1970. */
  from = 0
  /** The time of the last event. */
  to = 0
  /** The length of a span in milliseconds. */
  width = 1

  private readonly amounts = { stdout: new Float64Array(Activity.size), stderr: new Float64Array(Activity.size) }
  private readonly firsts = { stdout: new Float64Array(Activity.size), stderr: new Float64Array(Activity.size) }
  private second = ''
  private secondAt = 0

  /** The number of spans up to the last event. */
  get length(): number {
    return this.to === 0 ? 0 : Math.floor((this.to - this.from) / this.width) + 1
  }

  add(channel: Channel, time: string, seq: number, length: number): void {
    const at = this.parse(time)
    if (Number.isNaN(at)) return
    if (this.to === 0) this.from = this.to = at
    this.to = Math.max(this.to, at)
    while (this.to - this.from >= this.width * Activity.size) this.halve()
    const i = Math.max(0, Math.floor((at - this.from) / this.width)) // the clock of a server may go back
    this.amounts[channel][i]! += Math.max(1, length)
    if (this.firsts[channel][i] === 0) this.firsts[channel][i] = seq
  }

  span(i: number): Span {
    return {
      stdout: this.amounts.stdout[i] ?? 0,
      stderr: this.amounts.stderr[i] ?? 0,
      firstStdout: this.firsts.stdout[i] ?? 0,
      firstStderr: this.firsts.stderr[i] ?? 0,
    }
  }

  /** The time at which a span begins. */
  timeOf(i: number): number {
    return this.from + i * this.width
  }

  /** The nearest span from i on in a direction in which something was written; -1 for none. */
  next(i: number, by: 1 | -1): number {
    for (let at = i; at >= 0 && at < this.length; at += by) {
      if (this.amounts.stdout[at]! + this.amounts.stderr[at]! > 0) return at
    }
    return -1
  }

  private halve(): void {
    for (const channel of ['stdout', 'stderr'] as const) {
      const [amounts, firsts] = [this.amounts[channel], this.firsts[channel]]
      for (let i = 0; i < Activity.size; i++) {
        const [a, b] = [2 * i, 2 * i + 1]
        amounts[i] = (amounts[a] ?? 0) + (amounts[b] ?? 0)
        firsts[i] = firsts[a] || firsts[b] || 0
      }
    }
    this.width *= 2
  }

  /** Date.parse for times of the server, of which most are of the same second as the one before. */
  private parse(time: string): number {
    if (time.length === 24 && time.startsWith(this.second) && this.second !== '') {
      return this.secondAt + (time.charCodeAt(20) - 48) * 100 + (time.charCodeAt(21) - 48) * 10 + (time.charCodeAt(22) - 48)
    }
    const at = Date.parse(time)
    if (time.length === 24 && time.endsWith('Z')) {
      this.second = JSON.parse(JSON.stringify(time.slice(0, 20))) // a part of a string keeps the whole string in memory
      this.secondAt = Math.floor(at / 1000) * 1000
    }
    return at
  }
}
