// What the API answers, as far as the console shows it. See internal/api/openapi.yaml.

export interface Window {
  earliest: string
  tail: string
}

export type Status = 'queued' | 'running' | 'ended'

export interface Usage {
  user_ms: number
  system_ms: number
  max_rss_bytes: number
}

export interface Execution {
  id: string
  session?: string
  status: Status
  /** It is only remembered: there is no output and no window. */
  expired?: boolean
  expired_at?: string
  outcome: string | null
  exit_code: number | null
  signal: string | null
  error?: string
  limit?: string
  output_truncated?: boolean
  argv?: string[]
  command?: string
  language?: string
  cwd: string
  env_names?: string[]
  tty?: { cols?: number; rows?: number }
  timeout?: string
  labels: Record<string, string> | null
  created: string
  started: string | null
  ended: string | null
  duration_ms: number | null
  /** "storage" while the output of a running command has no room. */
  waiting?: string
  waiting_since?: string
  window?: Window
  usage: Usage | null
  bytes: { stdout: number; stderr: number }
  isolation: Isolation | null
}

/** The isolation in force. A layer is true, or says by what it holds. */
export interface Isolation {
  level: string
  kill: string
  memory_bytes?: string
  processes?: string
  cpu_time?: string
  layers?: Record<string, string | boolean>
}

export interface StartRequest {
  id: string
  command?: string
  argv?: string[]
  cwd?: string
  env?: Record<string, string>
  timeout?: string
  stdin_open?: boolean
  tty?: { cols: number; rows: number }
  session?: string
  labels?: Record<string, string>
}

/** What was asked for with an execution, and the names of what is not kept of it. */
export interface KeptRequest {
  request: Omit<StartRequest, 'id'>
  missing: string[]
}

export interface Stream {
  name: string
  status: 'open' | 'ended'
  outcome: string | null
  labels: Record<string, string>
  retention: { max_events?: number; max_bytes?: number; max_age?: string }
  created: string
  ended: string | null
  expires: string | null
  window: Window
  events: number
  bytes: number
}

export interface Session {
  id: string
  created: string
  updated: string
  count: number
  running: number
  queued: number
}

export interface MCPSession {
  id: string
  endpoint: string
  client: { name: string; version: string }
  version: string
  principal: string
  created: string
  last_activity: string
  streams: number
  running: number
  bytes: number
}

/** A kept call of a session of MCP. */
export interface MCPCall {
  id: string
  method: string
  name: string
  requests: number
  status: 'running' | 'answered'
  created: string
  ended: string | null
  events: number
  bytes: number
}

export interface Task {
  id: string
  tool: string
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  message: string
  principal: string
  execution: string | null
  created: string
  updated: string
  cancel_requested: boolean
}

/** One of the servers that share the store. What only it knows is null if it does not answer. */
export interface Replica {
  id: string
  self: boolean
  answers: boolean
  url: string | null
  version: string | null
  started: string | null
  last_heartbeat: string | null
  executions: { running: number; queued: number } | null
  streams: number | null
}

/** Since when something does not work any more, and why. */
export interface Disabled {
  since: string
  reason: string
}

export interface Webhook {
  id: string
  url: string
  source: 'executions' | 'streams'
  stream?: string
  prefix?: string
  types: string[]
  principal: string
  created: string
  secrets: { created: string; expires: string | null }[]
  disabled: Disabled | null
  progress?: {
    queued: number
    sent: number
    dropped: number
    succeeded: string | null
    failing: string | null
    status?: number
    error?: string
  }
  /** Told once, when it was just made. */
  secret?: string
}

export interface Slot {
  at: string
  outcome: 'started' | 'skipped' | 'missed' | 'failed'
  execution?: string
  error?: string
  count?: number
}

export interface Schedule {
  id: string
  cron: string
  zone: string
  overlap: string
  missed: string
  execution: {
    argv?: string[]
    command?: string
    language?: string
    session?: string
    cwd?: string
    env_names?: string[]
    labels?: Record<string, string>
    timeout?: string
  }
  principal: string
  created: string
  next: string | null
  disabled: Disabled | null
  slots?: Slot[]
}

export interface Quota {
  quota: string
  of: string
  used: number
  limit: number | null
}

/** What the store keeps, as far as the page shows it. */
export interface StoreStats {
  tenants: Record<string, { streams: number; events: number; bytes: number; overhead: number }>
  sqlite?: { file_bytes: number; wal_bytes: number; free_bytes: number }
}

/** An event as its data says. Output and what was published has text, base64 or data. */
export interface EventData {
  seq: number
  time: string
  text?: string
  base64?: string
  data?: unknown
  [member: string]: unknown
}

export interface StreamEvent {
  seq: number
  cursor: string
  type: string
  data: EventData
}

/** The data of a gap event. */
export interface Gap {
  code: string
  earliest?: string
  tail?: string
  fork?: string
  missed: number
  taken_back?: number
}

/** The seq that a cursor begins with, 0 where it is none. */
export function seqOf(cursor: string | null | undefined): number {
  const seq = Number.parseInt(cursor ?? '', 10)
  return Number.isSafeInteger(seq) && seq > 0 ? seq : 0
}
