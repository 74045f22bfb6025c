import { GapError } from './errors.js'
import type { ExecutionEvent } from './event.js'
import { type FollowOptions, Follower, type Target } from './follow.js'
import type { End } from './wire.js'

/** A stream that is to be followed. Each loop over it begins anew and makes connections of its own. */
export class Follow<E> implements AsyncIterable<E> {
  /** @internal */
  constructor(
    /** @internal */
    readonly target: Target,
    /** @internal */
    readonly options: FollowOptions,
  ) {}

  [Symbol.asyncIterator](): AsyncIterator<E, undefined> {
    return new Follower(this.target, this.options) as unknown as AsyncIterator<E, undefined>
  }
}

/** What a run has come to. */
export interface RunResult {
  id: string
  stdout: string
  stderr: string
  /** Undefined if the process did not end by itself. */
  exitCode: number | undefined
  end: End
}

/** An execution that is started by the first loop over it. */
export class Run extends Follow<ExecutionEvent> {
  /** @internal */
  constructor(
    /** The id of the execution. */
    readonly id: string,
    target: Target,
    options: FollowOptions,
  ) {
    super(target, options)
  }

  /**
   * Runs the command to its end and returns its output, as text. Output that is no longer kept is a {@link GapError}. For
   * output that is no UTF-8 see {@link Reprise.output}.
   */
  async result(): Promise<RunResult> {
    const channels = { stdout: '', stderr: '' }
    for await (const event of this) {
      if (event.type === 'stdout' || event.type === 'stderr') channels[event.type] += event.text
      if (event.type === 'gap') throw new GapError(event.data)
      if (event.type === 'end') {
        return { id: this.id, ...channels, exitCode: event.data.exit_code ?? undefined, end: event.data }
      }
    }
    throw new Error('unreachable: a loop without an end event throws')
  }
}
