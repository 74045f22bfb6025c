import type { Caller, Request } from './call.js'
import type { Parse } from './event.js'
import type { CursorStore } from './saver.js'

/** How to follow a stream. Times are in milliseconds. */
export interface FollowOptions {
  /**
   * Where to begin: a cursor; `earliest`, the first event that is kept; `tail`, from now on. Default: the first event of
   * all, in which case one that is no longer kept is a gap.
   */
  after?: string
  /** Keeps the position. What it has wins over `after`. */
  cursors?: CursorStore
  /**
   * The least time between two saves of the cursor; a program that is killed is given again what it has handled since the
   * last one. The cursor is also saved when a connection is lost and when the loop ends. Default: 100; negative: save after
   * each event.
   */
  saveEvery?: number
  /** The event types to yield; the end event and gaps come as well. Default: all. */
  types?: string[]
  /**
   * What to do about events that are no longer kept: yield an event of type `gap` and go on (`event`, the default), or end
   * the loop with a {@link GapError} and leave the saved cursor alone (`raise`).
   */
  onGap?: 'event' | 'raise'
  /** The silence after which a connection is given up: three heartbeats of the server. Default: 45,000. */
  idleTimeout?: number
  /** For how long a lost connection is tried again before the loop ends with the error. Default: without end; 0: no second try. */
  giveUp?: number
  /** Is told of each failure before the wait that follows. */
  onDrop?: (drop: Drop) => void
  /** Is called when a connection has brought its first event or heartbeat. */
  onConnected?: () => void
  /** Ends the loop with the reason of the signal. */
  signal?: AbortSignal
  /** Reads the JSON of `event.data` in place of JSON.parse, for example to keep large integers. */
  parse?: Parse
  /**
   * A ticket for this stream, in place of the token: for a page that must not have one. A function is asked again when the
   * server no longer takes the ticket.
   */
  ticket?: string | (() => string | Promise<string>)
}

/** A connection that was lost or did not come about. */
export interface Drop {
  error: unknown
  /** Milliseconds since the first failure in a row, and how many there have been. */
  lasting: number
  tries: number
  /** Milliseconds until the next try, 0 for the first one after a connection that has brought something. */
  wait: number
  /** The seq of the last event that was received, 0 where there is none or it is not known. */
  seq: number
  /** Whether the server has answered this client. What answers before may be something else. */
  met: boolean
}

/** What is to be followed. */
export interface Target {
  caller: Caller
  op: string
  name: string
  /** Of the execution or stream. */
  path: string
  /** Sent in place of the first GET, until an event has come. */
  start?: Request
  /** Is called when the server has answered with events. */
  onAnswer?: () => void
}
