import { ForeignError } from './errors.js'

/**
 * For how long, in milliseconds, an answer that is not the server's is tried again once the server was met, and one that may be the
 * beginning of the server's answer in any case.
 */
export const foreignPatience = 60_000

/** A run of consecutive answers that are not the server's. */
export class ForeignSpell {
  private since: number | undefined

  /**
   * Reports whether a request that failed with error is sent again after pause. Any other error ends the spell.
   * giveUp bounds it too; undefined is no bound of its own.
   */
  allows(error: unknown, met: boolean, giveUp: number | undefined, pause: number): boolean {
    if (!(error instanceof ForeignError) || !(met || error.cutShort)) {
      this.since = undefined
      return false
    }
    this.since ??= performance.now()
    return performance.now() - this.since + pause <= Math.min(foreignPatience, giveUp ?? Infinity)
  }
}
