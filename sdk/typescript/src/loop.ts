import { GapError } from './errors.js'
import type { ExecutionEvent } from './event.js'
import { type FollowOptions, Follower, type Target } from './follow.js'
import type { End } from './wire.js'

/** A stream to follow. Each loop over it starts again and opens its own connections. */
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

/** The result of a run. */
export interface RunResult {
  id: string
  stdout: string
  stderr: string
  /** Undefined if the process did not end by itself. */
  exitCode: number | undefined
  end: End
}

/** An execution. The first loop over it starts it. */
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
   * Runs the command to its end and returns its output as text. Fails with a {@link GapError} if output is no longer kept. For
   * output that is not UTF-8 see {@link Reprise.output}.
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
    throw new Error('unreachable')
  }
}
