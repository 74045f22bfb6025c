// What goes over the wire, in the words of openapi.yaml. Members that a later version adds are passed on.

/** A Go duration, for example `"1m30s"`. */
export type Duration = string

/** The cursors of the kept events: just before the first, and just after the last. */
export interface Window {
  earliest: string
  tail: string
}

export interface Retention {
  max_events?: number
  max_bytes?: number
  /** Counts from the end of the stream. */
  max_age?: Duration
  /**
   * How long a stream may be open without new events. Then the server ends it as `failed`, with the code `idle`. It is
   * refused for executions.
   */
  max_idle?: Duration
  /** How old an event may become while the stream is open. */
  max_age_each?: Duration
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

/** The isolation in force, which may differ from the requested one. */
export interface Isolation {
  level: string
  kill: string
  memory_bytes?: string
  processes?: string
  cpu_time?: string
  layers?: Layers
}

/** The layers around the process of a run. A layer that is not in force has no member. */
export interface Layers {
  no_new_privileges?: boolean
  capabilities?: string
  hidden?: string
  readable?: string
  temporary?: string
  writable?: string
  signals?: string
  cgroups?: string
  system_calls?: string
  network?: string
  /** The user of the command, if not the server's. */
  user?: string
}

/** The access of a command, at every level of isolation except `none`. */
export interface Access {
  network?: '' | 'on' | 'off'
  /** Directories below which the command may write. */
  writable?: string[]
  /** Files and directories that the command may read, in addition to those of the system and the writable ones. */
  readable?: string[]
  /** Absolute paths that the command cannot reach. */
  hidden?: string[]
}

interface StartMembers {
  /** 1 to 128 letters, digits, `.`, `_` and `-`. If it and both keys are missing, the client makes an unguessable one. */
  id?: string
  /** Sent as the header of that name, from which the server derives the id if there is none; see docs/protocol.md. */
  idempotencyKey?: string
  /**
   * In place of an id: the same request attaches while the command runs and after it has exited with 0, and starts the command
   * again after any other end.
   */
  key?: string
  session?: string
  cwd?: string
  env?: Record<string, string>
  /** Further variables, with the names of secrets of the server. Only the command gets the values. */
  secrets?: Record<string, string>
  /** Has the server replace the values of `secrets` in the output by `***`. */
  mask_secrets?: boolean
  /** Runs `code` in this interpreter instead of a command; docs/interpreters.md lists the members that apply. */
  interpreter?: string
  /** With `interpreter`, in place of `code`: deletes all definitions. */
  clear?: boolean
  /** Patterns of files below `cwd` that are kept with the execution at its end. */
  artifacts?: string[]
  /** The stdin of the command; `stdin_base64` is the same for arbitrary bytes. */
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
  /** The user of the server's machine that runs the command. It needs the scope `admin`, and a server that runs as root. */
  user?: string
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

/** A request for an interpreter. */
export interface InterpreterRequest {
  /** 1 to 128 letters, digits, `.`, `_` and `-`. If it is missing, the client makes an unguessable one. */
  id?: string
  session?: string
  /** `bash`, `javascript` or `python`. */
  language: string
  cwd?: string
  env?: Record<string, string>
  labels?: Record<string, string>
  /** Ends the interpreter after this time without code. At most the limit of the server. */
  idle_timeout?: Duration
  /** Ends the interpreter after this total time. */
  timeout?: Duration
  /** How long cancelled code may take to end before the interpreter is killed. */
  grace?: Duration
  limits?: Limits
  isolation?: string
  access?: Access
}

/** A process that runs one piece of code after the other and keeps its definitions. */
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
  /** The running execution. */
  running?: string
  /** The number of runs so far. Missing once the interpreter has ended. */
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

/** One run of a command. */
export interface Execution {
  id: string
  session?: string
  /** The key of the request. It may belong to a later execution now. */
  key?: string
  status: ExecutionStatus
  /** It has ended, and the server remembers only how and when. `window` and the links to the output are missing. */
  expired?: boolean
  /** When the output expired; missing if it was removed before, to make room. */
  expired_at?: string
  /** `storage` while output waits until there is room for it, since `waiting_since`. */
  waiting?: 'storage'
  waiting_since?: string
  outcome: ExecutionOutcome | null
  exit_code: number | null
  /** A name without SIG. */
  signal: string | null
  error?: string
  /** The interpreter that runs the code. */
  interpreter?: string
  artifacts?: Artifact[]
  /** The omitted artifacts, with the reasons. */
  artifact_notes?: string[]
  limit?: string
  output_truncated?: boolean
  /** The owner of the run's processes was killed, and some of them may still run. */
  processes_left?: boolean
  /** How many processes still ran when the command had ended by itself, and were killed. */
  killed_processes?: number
  /** The command lines of the first of them, shortened. */
  killed_commands?: string[]
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
  window?: Window
  usage: Usage | null
  bytes: ByteCounts
  isolation: Isolation | null
  links: { self: string; events?: string; stdout?: string; stderr?: string }
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
  /** `next_cursor` of the previous page. */
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

/** A task of a client of the Model Context Protocol: a call of a tool whose result the client polls. */
export interface Task {
  id: string
  /** The endpoint whose tool was called: `mcp`, or at a gateway the name of the upstream. */
  endpoint: string
  tool: string
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  /** What the tool says about its state. */
  message: string
  principal: string
  /** The id of the execution that the task waits for. */
  execution: string | null
  created: string
  updated: string
  /** When the task may be removed; null before the end. */
  expires: string | null
  /** The milliseconds from `created` to `expires`. */
  ttl_ms: number | null
  /** Somebody has asked to cancel the task. */
  cancel_requested: boolean
  links: { self: string; execution?: string }
}

export interface TaskList {
  tasks: Task[]
  next_cursor: string
}

/** One of the servers that share a store. What only the server itself knows is null if it does not answer. */
export interface Replica {
  id: string
  /** It is the server that answered the request. */
  self: boolean
  answers: boolean
  url: string | null
  version: string | null
  started: string | null
  /** When it got its id. Null for a server that has its store alone. */
  joined: string | null
  last_heartbeat: string | null
  /** The executions that it runs. */
  executions: { running: number; queued: number } | null
  /** The number of streams that it has in memory. */
  streams: number | null
}

export interface ReplicaList {
  replicas: Replica[]
  next_cursor: string
}

export interface StreamConfig {
  retention?: Retention
  labels?: Record<string, string>
}

/** A change of a stream or of an execution. Members that are missing stay as they are. */
export interface Change {
  /** 0 stands for the default of the server. */
  retention?: Retention
  /** Labels to set, and `null` for those to remove. */
  labels?: Record<string, string | null>
}

export type StreamOutcome = 'completed' | 'failed' | 'cancelled'

/** A stream that is not an execution. */
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

/** The state of an execution's stdin. */
export interface StdinState {
  /** The number of bytes that the server has accepted. */
  offset: number
  open: boolean
}

/** The screen of a terminal. */
export interface Screen {
  /** The position just after the last drawn event. */
  cursor: string
  cols: number
  rows: number
  /** The visible text, one line for each row. */
  text: string
  /** The sequences that make a terminal of this size show the same, with colours, cursor and modes. */
  paint: string
}

export interface TicketRequest {
  execution?: string
  stream?: string
  /** Default: 10 minutes. */
  ttl?: Duration
}

/** A permission to read one stream until `expires`, as the query parameter `ticket`. It is a secret. */
export interface Ticket {
  ticket: string
  expires: string
  /** The path of the events, with the ticket in it. */
  events: string
}

/** An event to publish. `data` is any JSON value; if it is missing, it is null. */
export interface NewEvent {
  /** 1 to 64 letters, digits, `.`, `_` and `-`. Default: `message`. */
  type?: string
  data?: unknown
}

/** The result of a publish. */
export interface Published {
  /** Both are 0 for a duplicate whose seqs are no longer known. */
  first: number
  last: number
  cursor?: string
  /** An earlier attempt, whose answer was lost, had published the events. */
  duplicate?: boolean
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
  bytes?: ByteCounts
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

/** A file or directory of the server. */
export interface FileInfo {
  /** Bytes that are not UTF-8 are replaced; `path_base64` has them all then. */
  path: string
  path_base64?: string
  type: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'
  /** 0 for anything other than a file. */
  size: number
  /** Octal permissions. */
  mode: string
  modified: string
  /** Changes whenever the file is changed or replaced. */
  etag?: string
  /** The target of a link. */
  target?: string
  sha256?: string
  /** The first line that contains the searched text. */
  line?: number
  text?: string
}

/** One page of files, ordered by name. `next_cursor` is empty on the last page. */
export interface FilePage {
  files: FileInfo[]
  next_cursor: string
}

/** A change of a file. */
export interface FileChange extends FileInfo {
  /** The previous path of a moved file. */
  from?: string
}

/** The progress of an upload. */
export interface UploadProgress {
  offset: number
  complete: boolean
  file?: FileInfo
}

/** A watched directory. */
export interface Watch {
  id: string
  path: string
  recursive: boolean
  /** The position after which new changes follow. */
  cursor: string
  links: { self: string; events: string }
}

/** An API key. */
export interface Key {
  id: string
  name: string
  tenant: string
  scopes: string[]
  /** Its quotas, by name. */
  limits?: Record<string, number>
  created: string
  rotated: string | null
  expires: string | null
  revoked: string | null
  /** The text of a new key. It is a secret. */
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
  /** `read`, `publish`, `run`, `control`, `admin` or `audit`; the first four may have a prefix: `run:ci-`. */
  scopes: string[]
  /** The lifetime of the key. Default: no expiry. */
  ttl?: Duration
  /** Quotas of the key by name, such as `running` or `calls`; docs/security.md lists them. */
  limits?: Record<string, number>
}
