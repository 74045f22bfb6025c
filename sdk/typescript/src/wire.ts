// What goes over the wire, in the words of openapi.yaml. Members that a later version adds are passed on.

/** A Go duration, for example `"1m30s"`. */
export type Duration = string

/** The cursors of what is kept: just before the first event, just after the last. */
export interface Window {
  earliest: string
  tail: string
}

export interface Retention {
  max_events?: number
  max_bytes?: number
  /** Counts from the end of the stream. */
  max_age?: Duration
}

export interface Limits {
  /** For both channels together. */
  output_bytes?: number
  memory_bytes?: number
  processes?: number
  cpu_time?: Duration
}

export interface TTY {
  cols?: number
  rows?: number
}

export interface Usage {
  user_ms: number
  system_ms: number
  max_rss_bytes: number
}

/** The output of each channel, kept or not. */
export interface ByteCounts {
  stdout: number
  stderr: number
}

/** What is in force, not what was asked for. */
export interface Isolation {
  level: string
  kill: string
  memory_bytes?: string
  processes?: string
  cpu_time?: string
  layers?: Layers
}

/** What the process of a run was started with. A layer that is not in force has no member. */
export interface Layers {
  no_new_privileges?: boolean
  capabilities?: string
  hidden?: string
  writable?: string
  signals?: string
  cgroups?: string
  system_calls?: string
  network?: string
  /** The user that the command runs as, if not the server's. */
  user?: string
}

/** What a command may beside its level of isolation, which is not `none`. */
export interface Access {
  network?: '' | 'on' | 'off'
  /** Directories below which it may write. */
  writable?: string[]
  /** Absolute paths that it does not get at. */
  hidden?: string[]
}

interface StartMembers {
  /** 1 to 128 letters, digits, `.`, `_` and `-`. The client makes an unguessable one where there is none. */
  id?: string
  /** Sent as the header of that name; see docs/protocol.md. */
  idempotencyKey?: string
  /**
   * In place of an id: the same request attaches while the command runs and after it has exited with 0, and starts it again
   * after any other end.
   */
  key?: string
  session?: string
  cwd?: string
  env?: Record<string, string>
  /** Further variables, with the names of secrets that the server has: the command gets the values, and nobody else. */
  secrets?: Record<string, string>
  /** Has the server replace the values of `secrets` in the output by `***`. */
  mask_secrets?: boolean
  /** Runs `code` in this interpreter, in place of a command; docs/interpreters.md has what goes with it. */
  interpreter?: string
  /** With `interpreter`, in place of `code`: forgets all that was declared. */
  clear?: boolean
  /** Patterns of files below `cwd` that are kept with the execution at its end. */
  artifacts?: string[]
  /** What the command reads; `stdin_base64` is the same for any bytes. */
  stdin?: string
  stdin_base64?: string
  /** Keeps stdin open for {@link Reprise.stdin}. */
  stdin_open?: boolean
  tty?: TTY
  timeout?: Duration
  /** The time between TERM and KILL. */
  grace?: Duration
  kill_on_disconnect?: boolean
  labels?: Record<string, string>
  limits?: Limits
  retention?: Retention
  isolation?: string
  access?: Access
  /** The user of the server's machine that the command runs as. It needs the scope `admin`, and a server that is root. */
  user?: string
  /**
   * For {@link Reprise.run}: holds the output of the command back while the loop has much to read, so that nothing that it has
   * not read is trimmed. A loop that takes nothing for this long is waited for no more. At most `5m`.
   */
  hold?: Duration
}

/** Asks for one run of a command: a program and its arguments, a shell command, or code in a language. */
export type StartRequest = StartMembers &
  (
    | { argv: string[]; command?: never; language?: never; code?: never }
    | { command: string; argv?: never; language?: never; code?: never }
    | { language: string; code: string; argv?: never; command?: never }
    | { interpreter: string; code?: string; argv?: never; command?: never; language?: never }
  )

export type ExecutionStatus = 'queued' | 'running' | 'ended'
export type ExecutionOutcome =
  | 'exited'
  | 'signaled'
  | 'timed_out'
  | 'cancelled'
  | 'limit_exceeded'
  | 'failed_to_start'
  | 'lost'

/** A file that was kept with an execution. */
export interface Artifact {
  path: string
  size: number
  sha256: string
}

/** Asks for an interpreter that remembers. */
export interface InterpreterRequest {
  /** 1 to 128 letters, digits, `.`, `_` and `-`. The client makes an unguessable one where there is none. */
  id?: string
  session?: string
  /** `bash`, `javascript` or `python`. */
  language: string
  cwd?: string
  env?: Record<string, string>
  labels?: Record<string, string>
  /** Ends it when it has had no code for so long. At most what the server allows. */
  idle_timeout?: Duration
  /** Ends it after so long in all. */
  timeout?: Duration
  /** How long code that was cancelled may take to end before the interpreter is killed. */
  grace?: Duration
  limits?: Limits
  isolation?: string
  access?: Access
}

/** A process that runs code, one piece after the other, and remembers what was declared. */
export interface Interpreter {
  id: string
  language: string
  session?: string
  status: ExecutionStatus
  outcome: ExecutionOutcome | null
  error?: string
  cwd: string
  labels: Record<string, string> | null
  created: string
  ended: string | null
  /** The execution whose code it runs now. */
  running?: string
  /** How often it was given code. Not there once it has ended. */
  runs?: number
  /** When its last code ended. */
  used?: string
  idle_timeout?: Duration
  timeout?: Duration
  isolation: Isolation | null
  links: { self: string; execution: string }
}

export interface InterpreterList {
  interpreters: Interpreter[]
}

/** A value that code has shown, by MIME type; binary types in base64. */
export interface Shown {
  mime: Record<string, string>
  /** The sizes of what was too large, by MIME type. */
  omitted?: Record<string, number>
}

/** Why code has failed. */
export interface CodeException {
  name: string
  value: string
  traceback: string[]
}

/** One run of a command. */
export interface Execution {
  id: string
  session?: string
  /** That of the request; it may stand for a later execution by now. */
  key?: string
  status: ExecutionStatus
  outcome: ExecutionOutcome | null
  exit_code: number | null
  /** A name without SIG. */
  signal: string | null
  error?: string
  /** The interpreter that the code runs in. */
  interpreter?: string
  artifacts?: Artifact[]
  /** What was left out of the artifacts. */
  artifact_notes?: string[]
  limit?: string
  output_truncated?: boolean
  /** What owned the processes of the run was killed, and some of them may still run. */
  processes_left?: boolean
  argv?: string[]
  command?: string
  language?: string
  cwd: string
  env_names?: string[]
  tty?: TTY
  timeout?: Duration
  labels: Record<string, string> | null
  created: string
  started: string | null
  ended: string | null
  duration_ms: number | null
  window: Window
  usage: Usage | null
  bytes: ByteCounts
  isolation: Isolation | null
  links: { self: string; events: string; stdout: string; stderr: string }
}

/** One page of executions, newest first. `next_cursor` is empty on the last page. */
export interface ExecutionList {
  executions: Execution[]
  next_cursor: string
}

export interface ExecutionQuery {
  session?: string
  status?: ExecutionStatus
  /** Labels that an execution must have. */
  labels?: Record<string, string>
  /** 1 to 1,000. Default: 100. */
  limit?: number
  /** `next_cursor` of the page before. */
  cursor?: string
  signal?: AbortSignal
}

export interface Session {
  id: string
  created: string
  updated: string
  count: number
  running: number
  queued: number
  last_seq: number
  executions?: Execution[]
  links: { self: string; executions: string }
}

export interface SessionList {
  sessions: Session[]
  next_cursor: string
}

export interface StreamConfig {
  retention?: Retention
  labels?: Record<string, string>
}

export type StreamOutcome = 'completed' | 'failed' | 'cancelled'

/** A stream that is no execution. */
export interface Stream {
  name: string
  status: 'open' | 'ended'
  outcome: StreamOutcome | null
  labels: Record<string, string>
  retention: Retention
  created: string
  ended: string | null
  expires: string | null
  window: Window
  /** What is kept. */
  events: number
  bytes: number
  links: { self: string; events: string }
}

export interface StreamList {
  streams: Stream[]
  next_cursor: string
}

/** How far the stdin of an execution is. */
export interface StdinState {
  /** The number of bytes that the server has taken. */
  offset: number
  open: boolean
}

/** What a terminal shows. */
export interface Screen {
  /** The position just after the last event that was drawn. */
  cursor: string
  cols: number
  rows: number
  /** What can be read on it, a line for each row. */
  text: string
  /** What makes a terminal of this size show the same, with colours, cursor and modes. */
  paint: string
}

export interface TicketRequest {
  execution?: string
  stream?: string
  /** Default: 10 minutes. */
  ttl?: Duration
}

/** Reads one stream until `expires`, as the query parameter `ticket`. It is a secret. */
export interface Ticket {
  ticket: string
  expires: string
  /** The path of the events with the ticket in it. */
  events: string
}

/** An event to publish. `data` is anything that JSON can say; left out, it is null. */
export interface NewEvent {
  /** 1 to 64 letters, digits, `.`, `_` and `-`. Default: `message`. */
  type?: string
  data?: unknown
}

/** Which events a publish has become. */
export interface Published {
  /** Both are 0 for a duplicate of which that is no longer known. */
  first: number
  last: number
  cursor?: string
  /** A try before, whose answer was lost, had published them. */
  duplicate?: boolean
}

/** The first event of an execution. */
export interface Started {
  id: string
  argv?: string[]
  command?: string
  language?: string
  interpreter?: string
  pid?: number
  isolation?: Isolation
}

/** How a stream has ended. A stream that is no execution has `outcome` and `data` alone. */
export interface End {
  outcome: ExecutionOutcome | StreamOutcome
  exit_code?: number | null
  signal?: string | null
  /** Why a run did not start, was lost, or was ended by the server. */
  error?: string
  limit?: string
  output_truncated?: boolean
  processes_left?: boolean
  started?: string
  duration_ms?: number | null
  usage?: Usage | null
  bytes?: ByteCounts
  bytes_from?: number
  isolation?: Isolation
  data?: unknown
}

/** The stream does not go on at the cursor. */
export interface Gap {
  code: 'cursor_expired' | 'epoch_changed' | 'cursor_ahead'
  /** Cursors; empty where the server has not told. */
  earliest?: string
  tail?: string
  /** For `epoch_changed`: up to here the new epoch has the events of the one before. */
  fork?: string
  /** Events that are gone and were never received, 0 where it cannot be known. */
  missed: number
  /** Events up to the cursor that the server has had and no longer has. */
  taken_back?: number
}

/** What is at a path of the server. */
export interface FileInfo {
  /** Bytes that are not UTF-8 are replaced; `path_base64` has them all then. */
  path: string
  path_base64?: string
  type: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'
  /** 0 for what is no file. */
  size: number
  /** Octal permissions. */
  mode: string
  modified: string
  /** Another one whenever the file is another one, or was changed. */
  etag?: string
  /** What a link says. */
  target?: string
  sha256?: string
  /** The first line that has the text that was searched for. */
  line?: number
  text?: string
}

/** One page of files, in the order of their names. `next_cursor` is empty on the last page. */
export interface FilePage {
  files: FileInfo[]
  next_cursor: string
}

/** What has happened to a file. */
export interface FileChange extends FileInfo {
  /** The path that it had before it was moved. */
  from?: string
}

/** How far an upload is. */
export interface UploadProgress {
  offset: number
  complete: boolean
  file?: FileInfo
}

/** A directory that is watched. */
export interface Watch {
  id: string
  path: string
  recursive: boolean
  /** After it comes what happens from now on. */
  cursor: string
  links: { self: string; events: string }
}

/** An API key. */
export interface Key {
  id: string
  name: string
  tenant: string
  scopes: string[]
  /** Its quotas, by their names. */
  limits?: Record<string, number>
  created: string
  rotated: string | null
  expires: string | null
  revoked: string | null
  /** Its text, where it was just made. It is a secret. */
  key?: string
  links: { self: string }
}

export interface KeyList {
  keys: Key[]
}

export interface KeyRequest {
  name: string
  /** Default: `default`. */
  tenant?: string
  /** `read`, `publish`, `run`, `control`, `admin` or `audit`; the first four with a prefix where there is one: `run:ci-`. */
  scopes: string[]
  /** How long it is good. Default: for ever. */
  ttl?: Duration
  /** Quotas of its own, by their names: `running`, `queued`, `starts`, `streams`, `bytes`, `readers`, `sessions`, `upload`. */
  limits?: Record<string, number>
}
