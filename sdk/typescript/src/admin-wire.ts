import type { StartRequest } from './wire.js'

/** The usage and the limit of one quota, for example `running` or `bytes`. */
export interface Quota {
  quota: string
  /** The owner; `server` is the limit that all share. */
  of: 'principal' | 'tenant' | 'server'
  used: number
  /** null if there is no limit. */
  limit: number | null
}

/** The quotas of a principal, if it is about one, and then those of its tenant. */
export interface Quotas {
  tenant: string
  principal: string | null
  quotas: Quota[]
}

/** Since when and why a webhook sends nothing, or a schedule starts nothing. */
export interface Disabled {
  since: string
  reason: string
}

/** What is sent to a URL. */
export interface WebhookRequest {
  url: string
  /** Default: `executions`. */
  source?: 'executions' | 'streams'
  /** The one stream whose events are sent. */
  stream?: string
  /** The beginning of the names of streams, or of the sessions of executions. Default: all. */
  prefix?: string
  /** The event types of streams that are sent. Default: all. */
  types?: string[]
  /** `whsec_` and base64 of 24 to 64 bytes. Default: a new one. */
  secret?: string
}

export interface Webhook {
  id: string
  url: string
  source: 'executions' | 'streams'
  stream?: string
  prefix?: string
  types: string[]
  /** The owner. When its credential becomes invalid, the webhook is disabled. */
  principal: string
  created: string
  secrets: WebhookSecret[]
  /** null if it is enabled. */
  disabled: Disabled | null
  /** The numbers of messages, since when all attempts have failed, and why. */
  progress?: {
    queued: number
    sent: number
    dropped: number
    succeeded: string | null
    failing: string | null
    status?: number
    error?: string
  }
  /** What signs the messages, where it was just made. */
  secret?: string
  links: { self: string }
}

/** When a secret was made, and until when it signs after it was replaced. */
export interface WebhookSecret {
  created: string
  expires: string | null
}

export interface WebhookList {
  webhooks: Webhook[]
}

/** The answer of a receiver to a test message. */
export interface WebhookAnswer {
  /** 0 if there was none. */
  status: number
  error?: string
}

/** Executions that start at given times. */
export interface ScheduleRequest {
  /**
   * Minute, hour, day of the month, month and day of the week, as in crontab; or `@hourly`, `@daily`, `@weekly`, `@monthly`,
   * `@yearly`, or `@every` and a duration.
   */
  cron: string
  /** For example `Europe/Berlin`. Default: `UTC`. */
  zone?: string
  /** What happens at a time at which an earlier execution still runs. Default: `skip`. */
  overlap?: 'skip' | 'allow'
  /** What happens to times that pass while no server runs: `once` starts the newest one. Default: `skip`. */
  missed?: 'skip' | 'once'
  /** Without ids and keys. */
  execution: StartRequest
}

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
    timeout?: string
  }
  /** The owner. When its credential becomes invalid, the schedule is disabled at its next time. */
  principal: string
  created: string
  next: string | null
  /** null if it is enabled. */
  disabled: Disabled | null
  /** What became of the last times. */
  slots?: ScheduleSlot[]
  links: { self: string }
}

/** What became of one time of a schedule. */
export interface ScheduleSlot {
  at: string
  outcome: 'started' | 'skipped' | 'missed' | 'failed'
  /** What was started, or was still running. */
  execution?: string
  error?: string
  /** How many times were missed, up to this one. */
  count?: number
}

export interface ScheduleList {
  schedules: Schedule[]
}
