// What the API answers. Objects are those of the TypeScript client, which are generated from openapi.yaml.

import type { ExecutionRequest, Schedule } from '../../../../sdk/typescript/src/schemas'

export type { Execution, Isolation, KeptRequest, MCPCall, MCPSession, Quota, Replica, Schedule, Session, StoreStats } from '../../../../sdk/typescript/src/schemas'
export type { ExecutionStatus as Status, Stream, Task, Webhook, Window } from '../../../../sdk/typescript/src/schemas'

/** A request with the id that makes it safe to repeat. */
export type StartRequest = ExecutionRequest & { id: string }

/** What became of one time of a schedule. */
export type Slot = NonNullable<Schedule['slots']>[number]

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
