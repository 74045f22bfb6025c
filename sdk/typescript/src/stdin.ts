import { type Caller, checkName, parameters, pathOf } from './call.js'
import { InvalidError, ProblemError, ProtocolError, isDecided } from './errors.js'
import type { StdinState } from './wire.js'

/** The size of one request, and so of what is sent again after a lost connection. */
const chunkSize = 1 << 20

/**
 * Writes to the stdin of an execution that was started with `stdin_open`. Each write carries its offset, so that it can be
 * repeated and the command reads each byte once. Concurrent writes wait for each other.
 */
export class Stdin {
  private turn: Promise<unknown> = Promise.resolve()
  private closed = false
  /** The bytes of a failed write, of which the command may have some. */
  private doubt = new Uint8Array()

  /** @internal */
  constructor(
    private readonly caller: Caller,
    private readonly id: string,
    /** The number of bytes that the server has accepted. */
    public offset: number,
    private readonly options: { writer?: string; signal?: AbortSignal },
  ) {}

  /**
   * Writes text or bytes to the command. It waits while the command does not read. After an error that is `retryable`, the command
   * may have some of the bytes from `offset` on: the next write must begin with all of them, or is refused.
   */
  write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    return this.inTurn(async () => {
      if (this.closed) throw new InvalidError('write after close')
      for (let rest = bytes; rest.length > 0; ) {
        const given = await this.send(rest.subarray(0, chunkSize))
        rest = rest.subarray(given)
      }
    })
  }

  /** Ends the command's stdin. If that, or the execution, has ended already, this does nothing. */
  close(): Promise<void> {
    return this.inTurn(async () => {
      if (this.closed) return
      try {
        await writeStdin(this.caller, this.id, this.offset, new Uint8Array(), { ...this.options, eof: true })
      } catch (error) {
        if (!(error instanceof ProblemError && error.code === 'stream_ended')) throw error
      }
      this.closed = true
    })
  }

  private async send(chunk: Uint8Array): Promise<number> {
    // The server would take other bytes at this offset for those that the command has already, and skip them.
    if (this.doubt.some((byte, i) => byte !== chunk[i])) throw new InvalidError('what failed before comes first')
    try {
      const { offset } = await writeStdin(this.caller, this.id, this.offset, chunk, this.options)
      const given = offset - this.offset
      if (!(given > 0 && given <= chunk.length)) throw new ProtocolError(`stdin is at ${offset} after ${chunk.length} bytes at ${this.offset}`)
      this.offset = offset
      this.doubt = new Uint8Array()
      return given
    } catch (error) {
      if (!isDecided(error)) this.doubt = new Uint8Array(chunk) // slice() of a Buffer is no copy
      throw error
    }
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    const result = this.turn.then(work)
    this.turn = result.catch(() => {})
    return result
  }
}

/** Writes bytes to a command as those from offset on, and with eof then closes its stdin. */
export function writeStdin(
  caller: Caller,
  id: string,
  offset: number,
  data: Uint8Array,
  options: { eof?: boolean; writer?: string; signal?: AbortSignal },
): Promise<StdinState> {
  const op = `write to execution ${id}`
  checkName(op, id)
  const request = {
    op,
    method: 'POST',
    path: pathOf('executions', id, '/stdin'),
    query: parameters({ offset, writer: options.writer, eof: options.eof ? 'true' : undefined }),
    headers: { 'Content-Type': 'application/octet-stream' },
    body: data,
    patient: true,
  }
  return caller.json<StdinState>(request, options.signal)
}
