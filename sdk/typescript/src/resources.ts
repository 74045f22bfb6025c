import { type Caller, type Request, checkName, jsonRequest, parameters, pathOf } from './call.js'
import type { StreamEvent } from './event.js'
import type { FollowOptions } from './follow.js'
import { Follow } from './loop.js'
import { type Page, type PageOptions, readPage } from './page.js'
import type {
  NewEvent,
  Published,
  ReplicaList,
  Session,
  SessionList,
  Stream,
  Change,
  StreamConfig,
  StreamList,
  Task,
  TaskList,
  Ticket,
  TicketRequest,
} from './wire.js'

interface CallOptions {
  signal?: AbortSignal
}

/** Selects a page of a list. */
export interface ListOptions {
  /** 1 to 1,000. Default: 100. */
  limit?: number
  /** `next_cursor` of the previous page. */
  cursor?: string
  signal?: AbortSignal
}

/** Streams that are not executions. */
export class Streams {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Creates a stream, or returns the existing one with the same configuration; another configuration is a `conflict`. */
  async create(name: string, config: StreamConfig = {}, options?: CallOptions): Promise<Stream> {
    const op = `create stream ${name}`
    checkName(op, name)
    return this.caller.json(jsonRequest(op, 'PUT', pathOf('streams', name), config), options?.signal)
  }

  /**
   * Changes the retention and the labels of a stream, which may have ended; what is missing stays as it is. A larger bound
   * takes effect at the next append, a smaller one removes the oldest events at once.
   */
  async configure(name: string, change: Change, options?: CallOptions): Promise<Stream> {
    const op = `configure stream ${name}`
    checkName(op, name)
    return this.caller.json(jsonRequest(op, 'PATCH', pathOf('streams', name), change), options?.signal)
  }

  /**
   * Appends events to a stream, all of them or none, unless a publish under the same key was already made: then it returns
   * that one, as a duplicate. So a program that was started again can repeat its publish, which a {@link Producer} can only as
   * long as it lives. `key` is 1 to 255 bytes and counts for the stream. The server remembers it for 24 hours; other events under
   * it are a `conflict`.
   */
  async publishOnce(name: string, key: string, events: NewEvent | NewEvent[], options?: CallOptions): Promise<Published> {
    const op = `publish to ${name}`
    checkName(op, name)
    const request = jsonRequest(op, 'POST', pathOf('streams', name, '/events'), { events: Array.isArray(events) ? events : [events] })
    return this.caller.json({ ...request, headers: { ...request.headers, 'Idempotency-Key': key } }, options?.signal)
  }

  /**
   * Yields the events of a stream in order, each once, until its end; see {@link Reprise.follow}. `Types` names the published
   * types, by event type: `follow<{ token: string }>('answers/1')`.
   */
  follow<Types extends object = Record<string, unknown>>(name: string, options: FollowOptions = {}): Follow<StreamEvent<Types>> {
    return new Follow({ caller: this.caller, op: `follow stream ${name}`, name, path: pathOf('streams', name) }, options)
  }

  /** Returns one page of events. A cursor outside the window is refused. */
  async page<Types extends object = Record<string, unknown>>(
    name: string,
    options: PageOptions = {},
  ): Promise<Page<StreamEvent<Types>>> {
    const op = `read stream ${name}`
    checkName(op, name)
    return readPage(this.caller, op, pathOf('streams', name), options)
  }

  /** Returns the state of a stream. */
  async show(name: string, options?: CallOptions): Promise<Stream> {
    return this.caller.json(plain(`show stream ${name}`, 'GET', 'streams', name), options?.signal)
  }

  /** Returns one page of streams, newest first. */
  list(options: ListOptions = {}): Promise<StreamList> {
    return this.caller.json(listRequest('streams', options), options.signal)
  }

  /**
   * Removes the events up to a cursor, by default all of them. The stream goes on: its next event gets the next `seq`, and readers
   * that are behind get a gap.
   */
  async trim(name: string, options: { after?: string } & CallOptions = {}): Promise<Stream> {
    const op = `trim stream ${name}`
    checkName(op, name)
    const body = options.after === undefined ? {} : { after: options.after }
    return this.caller.json(jsonRequest(op, 'POST', pathOf('streams', name, '/trim'), body), options.signal)
  }

  /** Removes a stream without a trace; its readers get an error as if it had never existed. */
  async remove(name: string, options?: CallOptions): Promise<void> {
    return this.caller.empty(plain(`remove stream ${name}`, 'DELETE', 'streams', name), options?.signal)
  }
}

/** Groups of executions. */
export class Sessions {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns a session with its executions. */
  async show(id: string, options?: CallOptions): Promise<Session> {
    return this.caller.json(plain(`show session ${id}`, 'GET', 'sessions', id), options?.signal)
  }

  /** Returns one page of sessions, newest first. */
  list(options: ListOptions = {}): Promise<SessionList> {
    return this.caller.json(listRequest('sessions', options), options.signal)
  }

  /** Cancels and removes all executions of a session. */
  async remove(id: string, options?: CallOptions): Promise<void> {
    return this.caller.empty(plain(`remove session ${id}`, 'DELETE', 'sessions', id), options?.signal)
  }
}

/** Tasks of clients of the Model Context Protocol: one's own and, with the scope `admin`, those of one's tenant. */
export class Tasks {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns one page of tasks, newest first. */
  list(options: ListOptions = {}): Promise<TaskList> {
    return this.caller.json(listRequest('tasks', options), options.signal)
  }

  /** Returns a task. */
  async show(id: string, options?: CallOptions): Promise<Task> {
    return this.caller.json(plain(`show task ${id}`, 'GET', 'tasks', id), options?.signal)
  }

  /** Asks the tool of a task to stop, and does not wait for it. Has no effect on a task that has ended. */
  async cancel(id: string, options?: CallOptions): Promise<void> {
    return this.caller.empty(plain(`cancel task ${id}`, 'POST', 'tasks', id, '/cancel'), options?.signal)
  }
}

/** The servers that share the store, for principals with the scope `admin`. */
export class Replicas {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns one page of servers, by id, with what each of them does. */
  list(options: ListOptions = {}): Promise<ReplicaList> {
    return this.caller.json(listRequest('replicas', options), options.signal)
  }
}

/** Tickets, each of which permits reading one stream until it expires, and nothing else. */
export class Tickets {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Issues a ticket for an execution or a stream. */
  create(request: TicketRequest, options?: CallOptions): Promise<Ticket> {
    return this.caller.json(jsonRequest('issue a ticket', 'POST', '/v1/tickets', request), options?.signal)
  }

  /** Exchanges a valid ticket for another one of the same lifetime, up to 24 hours after the first was issued. */
  renew(ticket: string, options?: CallOptions): Promise<Ticket> {
    const query = parameters({ ticket })
    const request: Request = { op: 'renew a ticket', method: 'POST', path: '/v1/tickets/renew', query, anonymous: true }
    return this.caller.json(request, options?.signal)
  }
}

function plain(op: string, method: string, kind: 'streams' | 'sessions' | 'tasks', name: string, rest?: string): Request {
  checkName(op, name)
  return { op, method, path: pathOf(kind, name, rest) }
}

function listRequest(kind: 'streams' | 'sessions' | 'tasks' | 'replicas', { limit, cursor }: ListOptions): Request {
  return { op: `list ${kind}`, method: 'GET', path: `/v1/${kind}`, query: parameters({ limit, cursor }) }
}
