import { parseCursor } from './cursor.js'

/** A JSON-RPC message. */
export type Message = object

/** What stands for a message that is too large to be kept. */
export const tooLarge = { reprise: 'too_large' }

export function isMark(message: Message): boolean {
  return (message as { reprise?: unknown }).reprise === tooLarge.reprise && !('jsonrpc' in message)
}

/** An event id is the cursor after the event, the MCP stream and, if they are known, the calls of that stream. */
export function join(cursor: string, streamId: string, calls?: Iterable<unknown>): string {
  const ids = [...(calls ?? [])].map((id) => encodeURIComponent(JSON.stringify(id))).join(',')
  return ids === '' || ids.length > 200 ? `${cursor}:${streamId}` : `${cursor}:${streamId}:${ids}`
}

export function split(eventId: string): { cursor: string; streamId: string; calls?: Set<unknown> } {
  const [cursor = '', streamId = '', ids, more] = eventId.split(':')
  const none = { cursor: '', streamId: '' }
  if (more !== undefined || !/^[A-Za-z0-9._-]{1,64}$/.test(streamId) || !parseCursor(cursor)) return none
  if (ids === undefined) return { cursor, streamId }
  try {
    const calls = ids.split(',').map((id) => JSON.parse(decodeURIComponent(id)) as unknown)
    const valid = calls.every((id) => typeof id === 'string' || typeof id === 'number')
    return valid ? { cursor, streamId, calls: new Set(calls) } : none
  } catch {
    return none
  }
}

/** What the server says of a position that there is not. */
export const noPosition = [
  'cursor_malformed',
  'cursor_foreign',
  'cursor_ahead',
  'cursor_expired',
  'epoch_changed',
  'not_found',
  'stream_expired',
]
