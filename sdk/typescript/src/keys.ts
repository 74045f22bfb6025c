import { type Caller, checkName, jsonRequest, pathOf } from './call.js'
import type { Key, KeyList, KeyRequest } from './wire.js'

interface CallOptions {
  signal?: AbortSignal
}

/** API keys of all tenants, for principals with the scope `admin`. */
export class Keys {
  /** @internal */
  constructor(private readonly caller: Caller) {}

  /** Returns all keys, newest first, including revoked and expired ones. */
  list(options: CallOptions = {}): Promise<KeyList> {
    return this.caller.json({ op: 'list keys', method: 'GET', path: '/v1/keys' }, options.signal)
  }

  /**
   * Makes a key. `key` of the answer is its text, which cannot be retrieved later. The request is not sent again once it may
   * have arrived, because that could make a second key.
   */
  create(request: KeyRequest, options: CallOptions = {}): Promise<Key> {
    return this.caller.json({ ...jsonRequest('make a key', 'POST', '/v1/keys', request), once: true }, options.signal)
  }

  /** Returns a key without its text. */
  show(id: string, options: CallOptions = {}): Promise<Key> {
    return this.caller.json(this.request('show', 'GET', id), options.signal)
  }

  /** Gives a key another text. Connections opened with the old one end. It is not sent again once it may have arrived. */
  rotate(id: string, options: CallOptions = {}): Promise<Key> {
    return this.caller.json({ ...this.request('rotate', 'POST', id, '/rotate'), once: true }, options.signal)
  }

  /** Revokes a key permanently. Connections that were opened with it end; running commands continue. */
  revoke(id: string, options: CallOptions = {}): Promise<void> {
    return this.caller.empty(this.request('revoke', 'DELETE', id), options.signal)
  }

  private request(verb: string, method: string, id: string, rest = '') {
    const op = `${verb} key ${id}`
    checkName(op, id)
    return { op, method, path: pathOf('keys', id, rest) }
  }
}
