import { type Caller, type Request, checkName, jsonRequest, parameters } from './call.js'
import type { CallOptions, Reprise } from './client.js'
import type { Quotas, Schedule, ScheduleList, ScheduleRequest, Webhook, WebhookAnswer, WebhookList, WebhookRequest } from './admin-wire.js'
import { ProblemError } from './errors.js'
import type { Key } from './wire.js'

export type * from './admin-wire.js'

/**
 * What operates a server: webhooks, schedules and quotas. It is an entry of its own, so that pages do not load it.
 *
 *     import { Admin } from 'reprise/admin'
 *
 *     const admin = new Admin(reprise)
 *     await admin.schedules.create({ cron: '@daily', execution: { argv: ['backup'] } })
 */
export class Admin {
  /** Signed messages to a URL. */
  readonly webhooks: Webhooks
  /** Executions that start at given times. */
  readonly schedules: Schedules
  private readonly caller: Caller

  constructor(reprise: Reprise) {
    this.caller = reprise['caller']
    this.webhooks = new Webhooks(this.caller)
    this.schedules = new Schedules(this.caller)
  }

  /**
   * Returns the usage and the limit of each quota of the caller and its tenant; with the scope `admin`, also of another tenant,
   * or of one principal.
   */
  quotas(options: { tenant?: string; principal?: string; signal?: AbortSignal } = {}): Promise<Quotas> {
    const { tenant, principal, signal } = options
    const query = parameters({ tenant, principal })
    return this.caller.json({ op: 'show quotas', method: 'GET', path: '/v1/quota', query }, signal)
  }

  /** Replaces all quotas of an API key. An omitted quota has no limit of its own, and 0 allows nothing. */
  async limitKey(id: string, limits: Record<string, number>, options?: CallOptions): Promise<Key> {
    const { op, path } = named('limit', 'key', id, '/limits')
    return this.caller.json(jsonRequest(op, 'PUT', path, { limits }), options?.signal)
  }
}

/** Webhooks of a tenant. Requests that make something are not sent again once they may have arrived. */
export class Webhooks {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns the webhooks of the tenant, newest first. */
  list(options?: CallOptions): Promise<WebhookList> {
    return this.caller.json({ op: 'list webhooks', method: 'GET', path: '/v1/webhooks' }, options?.signal)
  }

  /** Makes a webhook. `secret` of the answer signs the messages and cannot be retrieved later. */
  create(request: WebhookRequest, options?: CallOptions): Promise<Webhook> {
    const make = { ...jsonRequest('make a webhook', 'POST', '/v1/webhooks', request), once: true }
    return this.caller.json(make, options?.signal)
  }

  /** Returns a webhook with its progress, without its secret. */
  async show(id: string, options?: CallOptions): Promise<Webhook> {
    return this.caller.json(named('show', 'webhook', id), options?.signal)
  }

  /** Sends one message of the type `webhook.test` and returns the receiver's answer. */
  async test(id: string, options?: CallOptions): Promise<WebhookAnswer> {
    return this.caller.json({ ...named('test', 'webhook', id, '/test'), method: 'POST', once: true }, options?.signal)
  }

  /** Replaces the secret. The previous one signs as well for 24 hours. */
  async rotate(id: string, options?: CallOptions): Promise<Webhook> {
    return this.caller.json({ ...named('rotate', 'webhook', id, '/rotate'), method: 'POST', once: true }, options?.signal)
  }

  /** Enables a disabled webhook, which continues after its last message and from now on belongs to the caller. */
  async enable(id: string, options?: CallOptions): Promise<Webhook> {
    return this.caller.json({ ...named('enable', 'webhook', id, '/enable'), method: 'POST' }, options?.signal)
  }

  /** Removes a webhook and its unsent messages. */
  async remove(id: string, options?: CallOptions): Promise<void> {
    return remove(this.caller, 'webhook', id, options)
  }
}

/** Schedules of a tenant. */
export class Schedules {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns the schedules of the tenant, newest first. */
  list(options?: CallOptions): Promise<ScheduleList> {
    return this.caller.json({ op: 'list schedules', method: 'GET', path: '/v1/schedules' }, options?.signal)
  }

  /** Makes a schedule. It is not sent again once it may have arrived, because that could make a second one. */
  create(request: ScheduleRequest, options?: CallOptions): Promise<Schedule> {
    const make = { ...jsonRequest('make a schedule', 'POST', '/v1/schedules', request), once: true }
    return this.caller.json(make, options?.signal)
  }

  /** Returns a schedule with its next time and what became of its last ones. */
  async show(id: string, options?: CallOptions): Promise<Schedule> {
    return this.caller.json(named('show', 'schedule', id), options?.signal)
  }

  /** Disables a schedule. Running executions continue. */
  async disable(id: string, options?: CallOptions): Promise<Schedule> {
    return this.caller.json({ ...named('disable', 'schedule', id, '/disable'), method: 'POST' }, options?.signal)
  }

  /** Enables a disabled schedule, which from now on belongs to the caller. */
  async enable(id: string, options?: CallOptions): Promise<Schedule> {
    return this.caller.json({ ...named('enable', 'schedule', id, '/enable'), method: 'POST' }, options?.signal)
  }

  /** Removes a schedule. Its executions stay. */
  async remove(id: string, options?: CallOptions): Promise<void> {
    return remove(this.caller, 'schedule', id, options)
  }
}

async function remove(caller: Caller, kind: 'webhook' | 'schedule', id: string, options?: CallOptions): Promise<void> {
  try {
    await caller.empty({ ...named('remove', kind, id), method: 'DELETE' }, options?.signal)
  } catch (error) {
    // Otherwise an earlier attempt has removed it.
    if (!(error instanceof ProblemError && error.code === 'not_found' && error.tries > 1)) throw error
  }
}

/** A request about a webhook, schedule or key. */
function named(verb: string, kind: 'webhook' | 'schedule' | 'key', id: string, rest = ''): Request {
  const op = `${verb} ${kind} ${id}`
  checkName(op, id)
  return { op, method: 'GET', path: `/v1/${kind}s/${encodeURIComponent(id)}${rest}` }
}
