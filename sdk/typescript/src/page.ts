import { type Caller, type Request, parameters } from './call.js'
import { ProtocolError } from './errors.js'
import { type Parse, ReceivedEvent } from './event.js'
import { elementTexts, memberText } from './json.js'
import type { Window } from './wire.js'

/** Selects a page of events. */
export interface PageOptions {
  /** A cursor; `earliest`, the default; or `tail`. */
  after?: string
  /** 1 to 1,000. Default: 100. */
  limit?: number
  /** The longest wait of the server for an event, at most 60,000 milliseconds. */
  wait?: number
  types?: string[]
  /** See FollowOptions.parse. */
  parse?: Parse
  signal?: AbortSignal
}

/** Some events of a stream. */
export interface Page<E> {
  events: E[]
  /** The cursor after which the next page begins. */
  nextCursor: string
  /** Whether the next page has events already. */
  hasMore: boolean
  /** Whether the stream has ended; after the last page there are no more events. */
  ended: boolean
  window: Window
}

/** Reads one page of the events below path. */
export async function readPage<E>(caller: Caller, op: string, path: string, options: PageOptions): Promise<Page<E>> {
  const { after, limit, wait, types, parse, signal } = options
  const query = parameters({ after, limit, types: types?.join(','), wait: wait ? `${wait}ms` : undefined })
  const request: Request = { op, method: 'GET', path: `${path}/events`, query, patient: (wait ?? 0) > 0 }
  const text = await caller.text(request, signal)
  const page = JSON.parse(text) as { next_cursor: string; has_more: boolean; ended: boolean; window: Window }
  const array = memberText(text, 'events')
  if (!array?.startsWith('[')) throw new ProtocolError('a page without events')
  const events = elementTexts(array).map((json) => {
    const { cursor, type } = JSON.parse(json) as { cursor: string; type: string }
    return ReceivedEvent.from(cursor, type, json, parse) as unknown as E
  })
  return { events, nextCursor: page.next_cursor, hasMore: page.has_more, ended: page.ended, window: page.window }
}
