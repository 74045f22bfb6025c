/** One block of an event stream that has an id or data. */
export interface Frame {
  id: string | undefined
  type: string
  data: string | undefined
}

/**
 * Reads an event stream (HTML standard, section 9.2.6) whose lines end with LF or CRLF, from chunks that may be cut at any
 * byte. Push a chunk, then take frames until there is none.
 */
export class Decoder {
  /** The time that the stream asks to be waited before coming back, in milliseconds. */
  retry: number | undefined

  private readonly utf8 = new TextDecoder()
  private text = ''
  private at = 0
  private id: string | undefined
  private type = ''
  private data: string | undefined

  push(chunk: Uint8Array): void {
    this.pushText(this.utf8.decode(chunk, { stream: true }))
  }

  pushText(text: string): void {
    this.text = this.text.slice(this.at) + text
    this.at = 0
  }

  next(): Frame | undefined {
    for (;;) {
      const end = this.text.indexOf('\n', this.at)
      if (end < 0) return undefined
      const stop = end > this.at && this.text.charCodeAt(end - 1) === 13 ? end - 1 : end
      const line = this.text.slice(this.at, stop)
      this.at = end + 1
      if (line !== '') {
        this.field(line)
        continue
      }
      const frame = { id: this.id, type: this.type || 'message', data: this.data }
      this.id = this.data = undefined
      this.type = ''
      if (frame.id !== undefined || frame.data !== undefined) return frame
    }
  }

  private field(line: string): void {
    const colon = line.indexOf(':')
    if (colon === 0) return // a comment, which is a heartbeat
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (name === 'data') this.data = this.data === undefined ? value : `${this.data}\n${value}`
    else if (name === 'id') this.id = value
    else if (name === 'event') this.type = value
    else if (name === 'retry' && /^[0-9]+$/.test(value)) this.retry = Number(value)
  }
}
