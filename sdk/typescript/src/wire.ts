// What goes over the wire, in the words of openapi.yaml. Members that a later version adds are passed on. Objects are
// generated from it, some under other names here; what the client adds to them, and the data of events, follows.

import type { ExecutionOutcome, ExecutionRequest, ExecutionStatus, File, StreamOutcome } from './schemas.js'
import type { Bytes, Isolation, Usage } from './schemas.js'

export type { Access, Artifact, Change, Execution, ExecutionOutcome, ExecutionStatus, FilePage, Interpreter } from './schemas.js'
export type { InterpreterList, InterpreterRequest, Isolation, Key, KeyList, KeyRequest, Layers, Limits } from './schemas.js'
export type { Replica, Retention, RetentionChange, Screen, Session, Stream, StreamOutcome, TTY, Task } from './schemas.js'
export type { Ticket, TicketRequest, UploadProgress, Usage, Watch, Window } from './schemas.js'
export type {
  Bytes as ByteCounts,
  EventToPublish as NewEvent,
  ExecutionPage as ExecutionList,
  File as FileInfo,
  InputTaken as StdinState,
  PublishedEvents as Published,
  ReplicaPage as ReplicaList,
  SessionPage as SessionList,
  StreamPage as StreamList,
  StreamRequest as StreamConfig,
  TaskPage as TaskList,
} from './schemas.js'

/** A Go duration, for example `"1m30s"`. */
export type Duration = string

/** What a request has for all that runs. If its id and both keys are missing, the client makes an unguessable id. */
interface StartMembers extends Omit<ExecutionRequest, 'argv' | 'command' | 'shell' | 'language' | 'code'> {
  /** Sent as the header of that name, from which the server derives the id if there is none; see docs/protocol.md. */
  idempotencyKey?: string
  /**
   * For {@link Reprise.run}: makes the command wait while the loop is far behind, so that unread output is not trimmed. The
   * wait ends if the loop takes nothing for this long. At most `5m`.
   */
  hold?: Duration
}

/** A request for one run of a command: a program and its arguments, a shell command, or code in a language. */
export type StartRequest = StartMembers &
  (
    | { argv: string[]; command?: never; language?: never; code?: never }
    | { command: string; shell?: 'sh' | 'bash'; argv?: never; language?: never; code?: never }
    | { language: string; code: string; argv?: never; command?: never }
    | { interpreter: string; code?: string; argv?: never; command?: never; language?: never }
  )

/** A displayed value, by MIME type; binary types in base64. */
export interface Shown {
  mime: Record<string, string>
  /** The sizes of omitted representations, by MIME type. */
  omitted?: Record<string, number>
}

/** The failure of code. */
export interface CodeException {
  name: string
  value: string
  traceback: string[]
}

export interface ExecutionQuery {
  session?: string
  status?: ExecutionStatus
  /** Labels that an execution must have. */
  labels?: Record<string, string>
  /** 1 to 1,000. Default: 100. */
  limit?: number
  /** `next_cursor` of the previous page. */
  cursor?: string
  signal?: AbortSignal
}

/** The first event of an execution. */
export interface Started {
  id: string
  argv?: string[]
  command?: string
  language?: string
  interpreter?: string
  /** The directory on the server in which the command was started. */
  cwd?: string
  pid?: number
  isolation?: Isolation
}

/** The end of a stream. A stream that is not an execution has only `outcome` and `data`. */
export interface End {
  outcome: ExecutionOutcome | StreamOutcome
  exit_code?: number | null
  signal?: string | null
  /** Why a run did not start, was lost, or was ended by the server. */
  error?: string
  limit?: string
  output_truncated?: boolean
  processes_left?: boolean
  killed_processes?: number
  killed_commands?: string[]
  started?: string
  duration_ms?: number | null
  usage?: Usage | null
  bytes?: Bytes
  bytes_from?: number
  isolation?: Isolation
  data?: unknown
}

/** The stream does not continue at the cursor. */
export interface Gap {
  code: 'cursor_expired' | 'epoch_changed' | 'cursor_ahead'
  /** Cursors; empty if the server has not sent them. */
  earliest?: string
  tail?: string
  /** For `epoch_changed`: the cursor up to which the new epoch has the events of the old one. */
  fork?: string
  /** The number of events that are gone and were never received, or 0 if it is unknown. */
  missed: number
  /** The number of events up to the cursor that the server has lost. */
  taken_back?: number
}

/** A change of a file. */
export interface FileChange extends File {
  /** The previous path of a moved file. */
  from?: string
}
