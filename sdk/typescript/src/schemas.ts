// The objects of the API. Generated from openapi.yaml by "make generate".

/**
 * What is bounded: executions that run (more wait) and that wait, starts a minute, streams and bytes that are kept,
 * responses that follow, MCP sessions in use, MCP requests a minute, MCP calls under way, and bytes of files that
 * are uploaded a minute. A gateway counts only `streams`, `bytes`, `sessions`, `requests` and `calls`.
 */
export type QuotaName =
  | 'running'
  | 'queued'
  | 'starts'
  | 'streams'
  | 'bytes'
  | 'readers'
  | 'sessions'
  | 'requests'
  | 'calls'
  | 'upload'

/** The owner of the quota; `server` is the limit that all share. */
export type QuotaOf =
  | 'principal'
  | 'tenant'
  | 'server'

/** A file that was kept with an execution. */
export interface Artifact {
  path: string
  size: number
  sha256: string
}

/** A request for an interpreter. */
export interface InterpreterRequest {
  id?: string
  session?: string
  /** One of `bash`, `javascript` and `python`. */
  language: string
  cwd?: string
  env?: Record<string, string>
  labels?: Record<string, string>
  /** Ends it after this time without code. At most the maximum of the server. */
  idle_timeout?: string
  /** Ends it after this total time. */
  timeout?: string
  /** How long cancelled code may take to end before the interpreter is killed, at most 1 min. */
  grace?: string
  limits?: Limits
  isolation?: '' | 'none' | 'limits' | 'landlock' | 'bubblewrap'
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
  /** The value in the request. */
  cwd: string
  labels: Record<string, string> | null
  created: string
  ended: string | null
  /** The execution that it runs now. */
  running?: string
  /** The number of runs so far. Absent once it has ended. */
  runs?: number
  /** When its last code ended. */
  used?: string
  /** A duration in the syntax of Go. */
  idle_timeout?: string
  /** A duration in the syntax of Go. */
  timeout?: string
  isolation: Isolation | null
  links: {
    self: string
    execution: string
  }
}

export interface InterpreterList {
  interpreters: Interpreter[]
}

export interface KeptRequest {
  request: ExecutionRequest
  /**
   * Members that the request had and that are not kept: `env.NAME` for a variable, `env` for many of them, `stdin`
   * for any input.
   */
  missing: string[]
}

/** Exactly one of `argv`, `command`, `language` and `interpreter` is required. */
export interface ExecutionRequest {
  /** Chosen by the client. By default the server makes one that cannot be guessed. */
  id?: string
  /**
   * Makes the start resumable, in place of `id` and `Idempotency-Key`. The same request finds the execution that
   * stands for the key, with 200, while that has not ended and, for as long as it is kept, after it has exited with
   * code 0. After any other end it is started again, with 201 and another id. Another request under the key is a
   * `conflict` until the record is gone. `retention.max_age` is 24 hours here where it is not given.
   */
  key?: string
  session?: string
  /** The program and its arguments. */
  argv?: string[]
  /** Run by the `shell` with `-c`. */
  command?: string
  /** The shell of `command`. If the machine lacks it, the execution ends as `failed_to_start`. Default: `sh`. */
  shell?: 'sh' | 'bash'
  language?: string
  /** The code for the interpreter of `language`, or for the named interpreter. */
  code?: string
  /**
   * Paths below `cwd`, with the wildcards `*`, `?` and `[...]`, of files that are kept with the execution when it
   * has ended: at most 100 of them, and 64 MiB together. A directory means all files below it. Symbolic links are
   * not followed. `artifact_notes` of the execution says which bound on the search was reached.
   */
  artifacts?: string[]
  /**
   * Runs the code in this interpreter (`POST /v1/interpreters`), where what was declared before is there. Only `id`,
   * `labels`, `timeout`, `grace` and `retention` go with it. Events of type `result`, `display` and `exception` tell
   * what comes besides output. While it runs other code this is a `conflict`; once it has ended, `stream_ended`.
   */
  interpreter?: string
  /** With `interpreter`, in place of `code`: deletes all declarations. */
  clear?: boolean
  cwd?: string
  env?: Record<string, string>
  /**
   * Further variables, with the names of secrets that the server has for the tenant. The command gets their values,
   * which are read when it is started and are kept nowhere. A name that the server does not have is refused with
   * 422.
   */
  secrets?: Record<string, string>
  /** Replace the values of `secrets` in the output by `***`. Each has to have 4 to 4,096 bytes. */
  mask_secrets?: boolean
  /** The input of the command. Without `stdin_open` its stdin then ends. */
  stdin?: string
  /** The same for arbitrary bytes. */
  stdin_base64?: string
  /** Keep stdin open for `POST .../stdin`. */
  stdin_open?: boolean
  tty?: TTY
  /** A duration in the syntax of Go. */
  timeout?: string
  /** The time between TERM and KILL, at most 1 min. */
  grace?: string
  /**
   * Cancel the run after its last follower has disconnected. Followers with its principal or the scope `control`
   * count, and no tickets.
   */
  kill_on_disconnect?: boolean
  labels?: Record<string, string>
  limits?: Limits
  retention?: Retention
  /**
   * Each level has the layers of those before it. A level that the machine does not fully support is refused with
   * 422. Default: the server's.
   */
  isolation?: '' | 'none' | 'limits' | 'landlock' | 'bubblewrap'
  access?: Access
  /**
   * The user of the server's machine that the command runs as, by name or number. It needs the scope `admin`; a
   * server that is not root refuses it with 422. Default: `--run-as`, or the server's own.
   */
  user?: string
}

/** Permissions of the command in addition to its level of isolation, which must not be `none`. */
export interface Access {
  /** `off` leaves the command only its own loopback interface. */
  network?: '' | 'on' | 'off'
  /**
   * Directories below which the command may write at the levels `landlock` and `bubblewrap`, in addition to its
   * working directory and its temporary directories. `/` and paths in `/proc` and `/sys` are refused with 422.
   */
  writable?: string[]
  /**
   * Files and directories that the command may read at the levels `landlock` and `bubblewrap`, in addition to those
   * of the system, those that the server opens, and the writable ones. `/` and paths in `/proc` and `/sys` are
   * refused with 422.
   */
  readable?: string[]
  /**
   * Absolute paths that the command cannot reach, in addition to those that the server hides. `/`, paths in `/proc`,
   * `/sys` and `/dev`, and paths that contain something that the server hides are refused with 422.
   */
  hidden?: string[]
}

/** A terminal. All output is then on stdout. */
export interface TTY {
  cols?: number
  rows?: number
}

/**
 * A run that exceeds one is killed and ends as `limit_exceeded`. More than the server's `--limit-command` is refused
 * with 422. A server that is not on Linux refuses all except `output_bytes`.
 */
export interface Limits {
  output_bytes?: number
  memory_bytes?: number
  processes?: number
  /** A duration in the syntax of Go. */
  cpu_time?: string
}

export type ExecutionStatus =
  | 'queued'
  | 'running'
  | 'ended'

/**
 * `exited`, with whatever code; `signaled`, by a signal that nobody here decided on; `timed_out`; `cancelled`;
 * `limit_exceeded`, with `limit`; `failed_to_start`, with `error`; `lost`: the process cannot be found again.
 */
export type ExecutionOutcome =
  | 'exited'
  | 'signaled'
  | 'timed_out'
  | 'cancelled'
  | 'limit_exceeded'
  | 'failed_to_start'
  | 'lost'

/** What the processes of a command have used. */
export interface Usage {
  user_ms: number
  system_ms: number
  max_rss_bytes: number
}

/** The bytes that the command wrote to each channel, kept or not. */
export interface Bytes {
  stdout: number
  stderr: number
}

/** The isolation that is in force, not the requested one. */
export interface Isolation {
  level: 'none' | 'limits' | 'landlock' | 'bubblewrap'
  /**
   * How all processes of the run are found to end them. On servers that are not on Linux it is group, the process
   * group of the command.
   */
  kill: 'cgroup' | 'subreaper' | 'scan' | 'group'
  memory_bytes?: 'kernel' | 'sampled'
  processes?: 'kernel' | 'sampled'
  cpu_time?: 'kernel' | 'sampled'
  layers?: Layers
}

/** The layers that the process was started with. A layer that is not in force has no member. */
export interface Layers {
  no_new_privileges?: boolean
  /** `reduced`: those that are necessary to install software as root. */
  capabilities?: 'none' | 'reduced'
  /** The mechanism that hides the secrets of the server. */
  hidden?: 'mounts' | 'landlock' | 'user'
  /** The mechanism that limits what the command may read. */
  readable?: 'mounts' | 'landlock'
  /** What gives the command temporary directories of its own. `directory`: `TMPDIR` names the only one. */
  temporary?: 'mounts' | 'directory'
  /** The mechanism that limits where the command may write. */
  writable?: 'landlock' | 'mounts'
  /** The mechanism that prevents signals to other processes. */
  signals?: 'landlock' | 'pid_namespace'
  cgroups?: 'read_only'
  system_calls?: 'deny_list'
  network?: 'off'
  /** The user that the command runs as, if not the server's. */
  user?: string
}

/** One run of a command. */
export interface Execution {
  id: string
  session?: string
  /** The key of the request. It may belong to a later execution by now. */
  key?: string
  status: ExecutionStatus
  /**
   * It has ended, and its output is no longer kept. What is remembered is the id, the session, the outcome, exit
   * code or signal, and the times; the other members are empty, and `window` and the links to the output are
   * missing.
   */
  expired?: boolean
  /** When the output expired. It is missing if the output was removed before, to make room. */
  expired_at?: string
  /**
   * What a running execution waits for. `storage`: a bound on kept bytes is reached, and no ended stream is left
   * that could make room; or the disk is full. The output of the command is not read meanwhile, so the command waits
   * when its pipes are full. It continues when streams end or are removed, or the bound is raised; cancel, timeout
   * and DELETE end it at once.
   */
  waiting?: 'storage'
  /** Since when it waits. */
  waiting_since?: string
  outcome: ExecutionOutcome | null
  exit_code: number | null
  /** A name without SIG, for example SEGV. */
  signal: string | null
  /** Why a run did not start, was lost, or was ended by the server. */
  error?: string
  /** The limit that was exceeded. */
  limit?: string
  /** Some output of the command is not in the stream. */
  output_truncated?: boolean
  /** The owner of the processes of the run was killed, and some of them may still run. */
  processes_left?: boolean
  /** How many processes still ran when the command had ended by itself, and were killed. */
  killed_processes?: number
  /** The command lines of the first of them, shortened. */
  killed_commands?: string[]
  argv?: string[]
  command?: string
  language?: string
  /** The interpreter that runs the code. */
  interpreter?: string
  artifacts?: Artifact[]
  /** What was left out of the artifacts and why, or why none could be kept. */
  artifact_notes?: string[]
  /**
   * The directory in which the command runs. Where the request names none, an ended execution has it for as long as
   * its first event is kept, and lists have none.
   */
  cwd: string
  /** The names of the variables of the request, not their values. */
  env_names?: string[]
  tty?: TTY
  /** A duration in the syntax of Go. */
  timeout?: string
  labels: Record<string, string> | null
  created: string
  started: string | null
  ended: string | null
  duration_ms: number | null
  window?: Window
  usage: Usage | null
  bytes: Bytes
  isolation: Isolation | null
  links: {
    self: string
    events?: string
    stdout?: string
    stderr?: string
  }
}

/** A summary of the executions of one session. */
export interface Session {
  id: string
  created: string
  updated: string
  /** The number of its executions. */
  count: number
  running: number
  queued: number
  /** The highest seq of its executions. */
  last_seq: number
  executions?: Execution[]
  links: {
    self: string
    executions: string
  }
}

export interface ExecutionPage {
  executions: Execution[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

/** The state of an execution's stdin. */
export interface InputTaken {
  /** The total number of accepted bytes. */
  offset: number
  /** Whether more can be written. */
  open: boolean
}

/** The screen of a terminal. */
export interface Screen {
  /** The position just after the last event that was drawn. */
  cursor: string
  cols: number
  rows: number
  /** The readable text, a line for each row. */
  text: string
  /** Output that makes a terminal of this size show the same, with colours, cursor, alternate screen and modes. */
  paint: string
}

export interface TerminalSize {
  cols: number
  rows: number
}

export interface SignalRequest {
  /** A POSIX name, with or without SIG. */
  signal: string
}

export interface SessionPage {
  sessions: Session[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

/** The cursors of the kept events. */
export interface Window {
  /** Just before the first kept event. */
  earliest: string
  /** Just after the last. */
  tail: string
}

/** All limits apply together. Omitted members have the defaults of the server. */
export interface Retention {
  /** The number of kept events. Default 1000000. */
  max_events?: number
  /** The size of the kept events. Each counts its data and type and 58 bytes. Default 64 MiB. */
  max_bytes?: number
  /** Counted from the end of the stream. Default 24 h, or less if room is needed. */
  max_age?: string
  /**
   * How long the stream may be open without new events. Then the server ends it, with the outcome `failed` and the
   * `data` `{"code":"idle","max_idle":"24h0m0s"}`, up to two sweeps (ten minutes) later. Omitted, `serve --max-idle`
   * applies, by default for ever. Refused for executions.
   */
  max_idle?: string
  /**
   * How old an event may become while the stream is open, counted from its time. Older ones are removed with the
   * next sweep, at most five minutes later. After the end `max_age` counts alone.
   */
  max_age_each?: string
}

export type StreamOutcome =
  | 'completed'
  | 'failed'
  | 'cancelled'

/** A stream that is not an execution. */
export interface Stream {
  /** Segments of letters, digits, `.`, `_` and `-` with `/` between; no empty, `.` or `..` segment. */
  name: string
  status: 'open' | 'ended'
  outcome: StreamOutcome | null
  labels: Record<string, string>
  retention: Retention
  created: string
  ended: string | null
  /** When it may be swept. */
  expires: string | null
  window: Window
  /** The number of kept events. */
  events: number
  /** The size of the kept events. */
  bytes: number
  links: {
    self: string
    events: string
  }
}

/** An event to publish. */
export interface EventToPublish {
  /** Default: `message`. */
  type?: string
  /** Any JSON value with at most 512 nested arrays and objects; null if omitted. */
  data?: unknown
}

export interface StreamPage {
  streams: Stream[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

export interface StreamRequest {
  retention?: Retention
  labels?: Record<string, string>
}

/** Members that are missing stay as they are. */
export interface Change {
  retention?: RetentionChange
  /** Labels to set, and `null` for those to remove. */
  labels?: Record<string, string | null>
}

/** Members that are missing stay as they are. 0 stands for the default of the server. */
export interface RetentionChange {
  max_events?: number
  max_bytes?: number
  /** A duration in the syntax of Go. */
  max_age?: string
  /** A duration in the syntax of Go. */
  max_idle?: string
  /** A duration in the syntax of Go. */
  max_age_each?: string
}

export interface TrimRequest {
  /** The events after it stay. Default `tail`: none stays. */
  after?: string
}

export interface EndRequest {
  outcome: StreamOutcome
  /** Any JSON value with at most 512 nested arrays and objects; it is part of the end event. */
  data?: unknown
}

/** The result of a publish. */
export interface PublishedEvents {
  /** The seq of the first event. */
  first: number
  /** The seq of the last event. */
  last: number
  /** A position just after an event. Opaque. */
  cursor?: string
  /** The producer had appended them before. `first` and `last` are 0 if their seqs are no longer known. */
  duplicate?: boolean
}

export interface Health {
  status: 'ok' | 'ready'
}

/** The quotas of a principal, if one was requested, and then those of its tenant. */
export interface Quotas {
  tenant: string
  /** The name of the principal; null if only the tenant was requested. */
  principal: string | null
  quotas: Quota[]
}

/** The usage and the limit of one quota. */
export interface Quota {
  quota: QuotaName
  of: QuotaOf
  /** The usage. For quotas per minute it is the part that has not been refilled yet. */
  used: number
  /** The limit, or null if there is none. */
  limit: number | null
}

export interface Providers {
  providers: string[]
}

export interface FlowRequest {
  /** A name that `GET /v1/login` lists. */
  provider: string
}

export interface Flow {
  /** Where the person logs in. */
  url: string
  /** What the page keeps until the provider has sent the person back. Good for 10 minutes. */
  flow: string
  /** Where the provider sends the person, with `code` and `state`. */
  redirect: string
}

export interface LoginRequest {
  token?: string
  code?: string
  state?: string
  flow?: string
  /** The `iss` of the answer. */
  issuer?: string
}

export interface Login {
  /** The value of the header `Login-Secret` in each request with the cookie. */
  secret: string
}

export interface TicketRequest {
  execution?: string
  /** Segments of letters, digits, `.`, `_` and `-` with `/` between; no empty, `.` or `..` segment. */
  stream?: string
  /** From 1s to 24h. Default: 10m. */
  ttl?: string
}

export interface Server {
  version: string
  /** What the sender may do, with everything or with what has certain prefixes. */
  scopes: ('read' | 'publish' | 'run' | 'control' | 'admin' | 'audit')[]
  commands?: Boundary
  /** Why commands of the sender's tenant would be refused, whatever they ask for; `commands` is missing then. */
  refused?: string
}

/** What the commands of the sender's tenant may use. Requests can tighten it, never widen it. */
export interface Boundary {
  /** The level of requests that name none. */
  isolation: 'none' | 'limits' | 'landlock' | 'bubblewrap'
  /** The weakest level that a request may name. */
  least_isolation: 'none' | 'limits' | 'landlock' | 'bubblewrap'
  network: 'on' | 'off'
  /** The working directory of requests that name none. */
  cwd: string
  /** Commands work in the directories of `writable` alone, and a `cwd` elsewhere is refused. */
  confined: boolean
  /** Directories that are open to the commands, at the levels `landlock` and `bubblewrap`. */
  writable?: string[]
  /** Files and directories that the commands may read in addition, at these levels. */
  readable?: string[]
  /** The user of the commands, if not the server's. */
  user?: string
  /** The operator accepts that commands of several tenants run as one user (`--shared-user`). */
  shared_user: boolean
  limits: Limits
  /** A duration in the syntax of Go. */
  grace: string
}

/** A permission to read one stream until `expires`, as the query parameter `ticket`. It is a secret. */
export interface Ticket {
  /** For the parameter `ticket`. */
  ticket: string
  expires: string
  /** The path of the events with the ticket in it. */
  events: string
}

/** The `data` of events of the audit log. */
export interface AuditRecord {
  /** The time of the action, or the start of the count of refusals. */
  time: string
  /** The caller; empty if it is unknown. */
  principal: string
  tenant: string
  /**
   * A method and a path of this document, `MCP` and a tool, `login`, or `made` for the id that an earlier action has
   * made.
   */
  act: string
  /** The object of the action. */
  object?: string
  /** The address that the request came from. */
  remote?: string
  /** The `X-Request-Id` of the request. */
  request?: string
  /** The code of the refusal; absent if the action was allowed. */
  result?: string
  /** The number of refusals. */
  count?: number
  /** The chain of one process. */
  writer: string
  /** The number in the chain. */
  n: number
  /** The code of the record before it. */
  prev: string
  /** Authenticates the record. */
  code: string
}

export interface AuditCheck {
  records: number
  /** The number of processes that have written them. */
  writers: number
  /** The seq of the first kept record. */
  first: number
  /** The faults. */
  wrong: string[]
}

export type FileType =
  | 'file'
  | 'directory'
  | 'symlink'
  | 'fifo'
  | 'socket'
  | 'device'

/** A file or directory of the server. */
export interface File {
  /** Bytes that are not UTF-8 are replaced. */
  path: string
  /** All bytes of the path, if it is not UTF-8. */
  path_base64?: string
  type: FileType
  /** 0 if it is not a file. */
  size: number
  /** Octal permissions. */
  mode: string
  modified: string
  /** Changes whenever the file is replaced or changed. */
  etag?: string
  /** The target of a link. */
  target?: string
  /** In hexadecimal. */
  sha256?: string
  /** The number of the first line that matches the search. */
  line?: number
  /** That line, or its beginning. */
  text?: string
}

export interface FilePage {
  files: File[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

export interface FileMove {
  /** The name of a root and, with `/` between, segments of 1 to 255 bytes; no empty, `.` or `..` segment and no NUL. */
  from: string
  /** The name of a root and, with `/` between, segments of 1 to 255 bytes; no empty, `.` or `..` segment and no NUL. */
  to: string
  /** Replace an existing file. Default: `false`. */
  overwrite?: boolean
}

export interface DirectoryRequest {
  /** The name of a root and, with `/` between, segments of 1 to 255 bytes; no empty, `.` or `..` segment and no NUL. */
  path: string
  /** Default: `0755`. */
  mode?: string
  /** Also make missing parents, and accept an existing directory. Default: `false`. */
  parents?: boolean
}

export interface FileModeRequest {
  /** The name of a root and, with `/` between, segments of 1 to 255 bytes; no empty, `.` or `..` segment and no NUL. */
  path: string
  /** Octal permissions. */
  mode: string
}

/** The progress of an upload. */
export interface UploadProgress {
  /** The number of received bytes. */
  offset: number
  /** Whether the file is complete and under its name. */
  complete: boolean
  file?: File
}

export interface WatchRequest {
  /** The name of a root and, with `/` between, segments of 1 to 255 bytes; no empty, `.` or `..` segment and no NUL. */
  path: string
  /** Include subdirectories. Default: `false`. */
  recursive?: boolean
}

/** A watched directory. */
export interface Watch {
  id: string
  path: string
  recursive: boolean
  /** A position just after an event. Opaque. */
  cursor: string
  links: {
    self: string
    events: string
  }
}

export interface StoreStats {
  /** By the name of the tenant. */
  tenants: Record<string, TenantSize>
  /** Sizes of the file and its tables. */
  sqlite?: {
    file_bytes: number
    /** The write-ahead log. */
    wal_bytes: number
    /** What is free in both. */
    free_bytes: number
  }
  /** Sizes of the embedded log and of its snapshot. */
  log?: Record<string, unknown>
  redis?: Record<string, unknown>
  postgres?: Record<string, unknown>
  nats?: Record<string, unknown>
  /** The room on the disk of the data directory, if the system says. */
  disk_free_bytes?: number
  advice?: StoreAdvice
}

export interface TenantSize {
  streams: number
  events: number
  bytes: number
  /** What is kept beside the events. */
  overhead: number
}

/**
 * How fast the store fills, and what the bounds of its streams keep of that. The rates are those of the streams that
 * are kept, in a period in which no stream can have been swept away.
 */
export interface StoreAdvice {
  /** The period that the rates are of. */
  period_seconds: number
  events_per_day: number
  bytes_per_day: number
  /** All that are kept. */
  streams: number
  /** Those that have not ended; no bound on age removes them. */
  open: number
  /** What the bounds of these keep. */
  open_bytes: number
  /** Streams that give up their oldest events by the bound on events. */
  at_events: number
  /** Streams that give up their oldest events by the bound on bytes. */
  at_bytes: number
  /** Events that streams have given up for any bound. */
  given_up: number
  /** What counts for `max_bytes`. */
  kept_bytes: number
  /** The bound on all streams, 0 for none. */
  max_bytes: number
  /** What the bounds on age keep of streams that have ended, once as much comes as goes. */
  age_bytes: number
  /** When `max_bytes` is reached at this rate; absent if `age_bytes` and `open_bytes` leave room. */
  full_in_days?: number
}

export interface Swept {
  streams: number
  events: number
  bytes: number
  /** Open streams that were ended because they were idle. */
  idle: number
}

export interface Checked {
  streams: number
  events: number
  bytes: number
  problems: number
}

/** A session of a client of the Model Context Protocol. */
export interface MCPSession {
  id: string
  /**
   * `mcp`, or `windows` for a `reprise mcp` on the data directory of the server. At a gateway the name of the
   * upstream.
   */
  endpoint: string
  client: {
    /** The name that the client has sent. */
    name: string
    version: string
  }
  /** The version of the protocol. */
  version: string
  principal: string
  created: string
  last_activity: string
  /** The number of kept streams of the session. */
  streams: number
  /** The number of calls without an answer. */
  running: number
  /** The size of the streams. */
  bytes: number
  links: {
    self: string
    calls: string
  }
}

export interface MCPSessionPage {
  sessions: MCPSession[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

/** A POST of a client, which has one request except in version 2025-03-26. */
export interface MCPCall {
  /** Names the call within its session. */
  id: string
  /** The method of the first request. */
  method: string
  /** The tool, prompt or resource of the first request, or empty. */
  name: string
  /** The number of requests. */
  requests: number
  status: 'running' | 'answered'
  created: string
  /** When the last response was kept. */
  ended: string | null
  /** The number of kept messages to the client. */
  events: number
  /** The size of the messages. */
  bytes: number
}

export interface MCPCallPage {
  calls: MCPCall[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

/** A call of a tool of MCP whose result the client polls. */
export interface Task {
  id: string
  /** The endpoint whose tool was called: `mcp`, or at a gateway the name of the upstream. */
  endpoint: string
  /** The tool whose call became the task. */
  tool: string
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  /** What the tool says about its state. */
  message: string
  /** Who called the tool; empty if it was `reprise mcp` on the data directory of the server. */
  principal: string
  /** The id of the execution that the task waits for. */
  execution: string | null
  created: string
  updated: string
  /** When the task may be removed. Null before the end. */
  expires: string | null
  /** The time from `created` to `expires`, as `ttlMs` of MCP. */
  ttl_ms: number | null
  /** Somebody has asked to cancel the task. */
  cancel_requested: boolean
  links: {
    self: string
    execution?: string
  }
}

export interface TaskPage {
  tasks: Task[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

/** One of the servers that share a store. What only the server itself knows is null if it does not answer. */
export interface Replica {
  /** The name by which others know it, which owns its executions. */
  id: string
  /** It is the server that answers this request. */
  self: boolean
  /** It has answered within 2 s. */
  answers: boolean
  /** Where it listens, as it knows it itself: behind a proxy, others may not reach it there. */
  url: string | null
  version: string | null
  /** When it began to serve. */
  started: string | null
  /** When it got its name. Null if it has the store alone. */
  joined: string | null
  /** When its newest heartbeat was seen here. Null if it has the store alone. */
  last_heartbeat: string | null
  /** The executions that it runs. */
  executions: {
    running: number
    queued: number
  } | null
  /** The number of streams that it has in memory, because they are written or read there. */
  streams: number | null
}

export interface ReplicaPage {
  replicas: Replica[]
  /** For the next page; empty on the last. */
  next_cursor: string
}

export interface DrainRequest {
  /** The longest wait, more than 0 and at most 168h. If it is left out, 10m. */
  timeout?: string
}

export interface Drain {
  draining: boolean
  since: string | null
  /** When the server stops at the latest. */
  until: string | null
  running: number
  queued: number
}

export interface KeyLimitsRequest {
  /** Limits by quota; see `QuotaName`. An omitted quota has no limit, and 0 allows nothing. */
  limits: Record<string, number>
}

export interface KeyRequest {
  /** A name for people; principals are named after it. */
  name: string
  /** The tenant whose data the key can access. Tenants need not be created. Default: `default`. */
  tenant?: string
  scopes: string[]
  /** The lifetime, at least 1s. Default: no expiry. */
  ttl?: string
  /** Quotas of the key. Each replaces the same quota of `--limit-principal`. */
  limits?: Record<string, number>
}

/** An API key. */
export interface Key {
  id: string
  name: string
  tenant: string
  scopes: string[]
  /** Limits by quota; see `QuotaName`. An omitted quota has no limit, and 0 allows nothing. */
  limits?: Record<string, number>
  created: string
  rotated: string | null
  expires: string | null
  revoked: string | null
  /** The text of the key, if it was just made. */
  key?: string
  links: {
    self: string
  }
}

export interface KeyList {
  keys: Key[]
}

/** What is sent to a URL. */
export interface WebhookRequest {
  /** Where to send. It begins with https://, or with http:// for addresses that the server was started to allow. */
  url: string
  /** Default: `executions`. */
  source?: 'executions' | 'streams'
  /** The one stream whose events are sent. */
  stream?: string
  /** What the names of streams begin with, or the sessions of executions. Default: all. */
  prefix?: string
  /** Event types of streams that are sent. Default: all. */
  types?: string[]
  /** whsec_ and base64 of 24 to 64 bytes. Default: a new one. */
  secret?: string
}

/** Messages to a URL. */
export interface Webhook {
  id: string
  url: string
  source: 'executions' | 'streams'
  stream?: string
  prefix?: string
  types: string[]
  /** The owner. When the credential becomes invalid, the webhook is disabled. */
  principal: string
  created: string
  secrets: {
    created: string
    expires: string | null
  }[]
  disabled: {
    since: string
    reason: string
  } | null
  progress?: {
    /** The number of the newest message, counted from 1. */
    queued: number
    /** The number of the last message that was acknowledged or dropped. */
    sent: number
    dropped: number
    succeeded: string | null
    /** The time since when every attempt has failed. */
    failing: string | null
    status?: number
    error?: string
  }
  /** The secret that signs, if it was just made. */
  secret?: string
  links: {
    self: string
  }
}

export interface WebhookList {
  webhooks: Webhook[]
}

/** The answer of a receiver to a test message. */
export interface WebhookAnswer {
  /** The status of the receiver's answer, or 0 if there was none. */
  status: number
  /** The reason of a failure. */
  error?: string
}

export interface ScheduleRequest {
  /**
   * Minute, hour, day of the month, month and day of the week, as in crontab; or @hourly, @daily, @weekly, @monthly,
   * @yearly, @every and a duration.
   */
  cron: string
  /** Default: `UTC`. */
  zone?: string
  /** What happens to a slot while an earlier execution runs. Default: `skip`. */
  overlap?: 'skip' | 'allow'
  /**
   * What happens to slots that pass while no server runs: they are skipped, or the newest one is started. Default:
   * `skip`.
   */
  missed?: 'skip' | 'once'
  execution: ExecutionRequest
}

/** Executions that start at given times. */
export interface Schedule {
  id: string
  cron: string
  zone: string
  overlap: 'skip' | 'allow'
  missed: 'skip' | 'once'
  /** The request, without code, stdin and the values of variables. */
  execution: {
    argv?: string[]
    command?: string
    language?: string
    session?: string
    cwd?: string
    env_names?: string[]
    labels?: Record<string, string>
    /** A duration in the syntax of Go. */
    timeout?: string
  }
  /** The owner. When the credential becomes invalid, the schedule is disabled at its next slot. */
  principal: string
  created: string
  next: string | null
  disabled: {
    since: string
    reason: string
  } | null
  slots?: {
    at: string
    outcome: 'started' | 'skipped' | 'missed' | 'failed'
    /** The execution that was started, or that was still running. */
    execution?: string
    error?: string
    /** How many slots were missed, up to this one. */
    count?: number
  }[]
  links: {
    self: string
  }
}

export interface ScheduleList {
  schedules: Schedule[]
}
