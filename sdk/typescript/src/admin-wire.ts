// The objects of what operates a server; see wire.ts.

import type { ScheduleRequest as Request, Schedule, Webhook } from './schemas.js'
import type { StartRequest } from './wire.js'

export type { Quota, Quotas, Schedule, ScheduleList, Webhook, WebhookAnswer, WebhookList, WebhookRequest } from './schemas.js'

/** Since when and why a webhook sends nothing, or a schedule starts nothing. */
export type Disabled = NonNullable<Schedule['disabled']>

/** When a secret was made, and until when it signs after it was replaced. */
export type WebhookSecret = Webhook['secrets'][number]

/** What became of one time of a schedule. */
export type ScheduleSlot = NonNullable<Schedule['slots']>[number]

/** Executions that start at given times. */
export interface ScheduleRequest extends Omit<Request, 'execution'> {
  /** Without ids and keys. */
  execution: StartRequest
}
