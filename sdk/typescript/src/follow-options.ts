import type { Caller, Request } from './call.js'
import type { Parse } from './event.js'
import type { CursorStore } from './saver.js'

/** Options of following a stream. Times are in milliseconds. */
export interface FollowOptions {
  /**
   * The position to begin at: a cursor; `earliest`, the first kept event; or `tail`, new events only. Default: the first event
   * of all, in which case events that are no longer kept are a gap.
   */
  after?: string
  /** Stores the position. A stored position overrides `after`. */
  cursors?: CursorStore
  /**
   * The minimum time between two saves of the cursor. A program that was killed gets the events since the last save again. The
   * cursor is also saved when a connection is lost and when the loop ends. Default: 100; negative: save after each event.
   */
  saveEvery?: number
  /** The event types to yield, in addition to the end event and gaps. Default: all. */
  types?: string[]
  /**
   * The reaction to events that are no longer kept: yield an event of type `gap` and continue (`event`, the default), or end
   * the loop with a {@link GapError} and keep the saved cursor (`raise`).
   */
  onGap?: 'event' | 'raise'
  /** The silence after which a connection counts as lost: three heartbeats of the server. Default: 45,000. */
  idleTimeout?: number
  /**
   * How long a lost connection is retried before the loop ends with the error. Default: no limit once the server has answered this
   * client, and 10 s before; 0: no retry; Infinity: no limit.
   */
  giveUp?: number
  /** Is called with each failure before the wait that follows. */
  onDrop?: (drop: Drop) => void
  /** Is called when a connection has delivered its first event or heartbeat. */
  onConnected?: () => void
  /** Ends the loop with the reason of the signal. */
  signal?: AbortSignal
  /** Parses the JSON of `event.data` instead of JSON.parse, for example to keep large integers. */
  parse?: Parse
  /**
   * A ticket for this stream, in place of the token, for a page that must not have a token. A function is called again when the
   * server no longer accepts the ticket.
   */
  ticket?: string | (() => string | Promise<string>)
}

/** Options of running a command. */
export interface RunOptions extends FollowOptions {
  /**
   * Lets the command go on if the loop is left before its end. Otherwise it is cancelled, unless the request has an `id` by which the
   * program can find it again.
   */
  detach?: boolean
}

/** A connection that was lost or could not be opened. */
export interface Drop {
  error: unknown
  /** Milliseconds since the first of the consecutive failures, and their number. */
  lasting: number
  tries: number
  /** Milliseconds until the next attempt, 0 for the first one after a useful connection. */
  wait: number
  /** The seq of the last received event, or 0 if there is none or it is unknown. */
  seq: number
  /** Whether the server has answered this client. Earlier answers may come from another program. */
  met: boolean
}

/** The stream to follow. */
export interface Target {
  caller: Caller
  op: string
  name: string
  /** Of the execution or stream. */
  path: string
  /** Sent in place of the first GET, until an event has come. */
  start?: Request
  /** Is called at the end of a loop that has sent its request and was left before the end of the stream. */
  onLeft?: () => Promise<void>
  /** Is called when the server has answered with events. */
  onAnswer?: () => void
}
