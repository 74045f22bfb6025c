// Numbers, times and words as people read them.

import type { Execution, Isolation } from './wire'

const whole = new Intl.NumberFormat('en')

export const count = (n: number) => whole.format(n)

export const plural = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`

export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024
    unit++
  }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.floor(ms / 1000)
  const two = (n: number) => String(n).padStart(2, '0')
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`
  const hours = Math.floor(seconds / 3600)
  if (hours < 48) return `${hours}:${two(Math.floor(seconds / 60) % 60)} h`
  return plural(Math.floor(hours / 24), 'day')
}

/** The isolation that is in force, under the names of the API. */
export function isolationText({ layers, ...rest }: Isolation): string {
  return Object.entries<string | boolean | undefined>({ ...rest, ...layers })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => (value === true ? name : `${name}: ${value}`))
    .join(', ')
}

/** A time in milliseconds as it stands before a line: of the clock, or since another; "" if it is not known. */
export function stampOf(time: number, since?: number): string {
  if (Number.isNaN(time)) return ''
  if (since !== undefined) return `+${(Math.max(0, time - since) / 1000).toFixed(3)}`
  const at = new Date(time)
  return `${at.toLocaleTimeString('en-GB')}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

/** How long ago a time is, in few words. */
export function ago(time: string, now = Date.now()): string {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000)
  if (seconds < 5) return 'just now'
  if (seconds < 60) return `${Math.floor(seconds)} s ago`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`
  return new Date(time).toLocaleDateString('en-CA')
}

/** How long until a time, in few words. */
export function until(time: string, now = Date.now()): string {
  const seconds = Math.max(0, (Date.parse(time) - now) / 1000)
  if (seconds < 1) return 'now'
  if (seconds < 60) return `in ${Math.ceil(seconds)} s`
  if (seconds < 3600) return `in ${Math.round(seconds / 60)} min`
  if (seconds < 86_400) return `in ${Math.round(seconds / 3600)} h`
  return `in ${plural(Math.round(seconds / 86_400), 'day')}`
}

/** A time with its date, in the reader's zone. */
export const moment = (time: string) => new Date(time).toLocaleString('sv-SE')

/** The time of day with milliseconds. */
export function clock(time: string): string {
  const date = new Date(time)
  return `${date.toLocaleTimeString('sv-SE')}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

/** What became of the output of a run that is only remembered. */
export const expiredText = (e: { expired_at?: string }) =>
  e.expired_at ? `output expired ${ago(e.expired_at)}` : 'output removed to make room'

/** What a run runs, as one would type it; of one that is only remembered that is not known. */
export function commandOf(e: { command?: string; argv?: string[]; language?: string; id: string; expired?: boolean; expired_at?: string }): string {
  if (e.expired) return expiredText(e)
  if (e.command) return e.command
  if (e.argv) return e.argv.map(quoted).join(' ')
  return e.language ? `${e.language} code` : e.id
}

const quoted = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** How a run looks: the words, and the tone that colours them. */
export function stateOf(e: Execution): { tone: 'run' | 'wait' | 'good' | 'bad' | 'odd' | 'dim'; words: string } {
  if (e.status === 'queued') return { tone: 'wait', words: 'queued' }
  if (e.status === 'running') return { tone: 'run', words: 'running' }
  switch (e.outcome) {
    case 'exited':
      return e.exit_code === 0 ? { tone: 'good', words: 'exited 0' } : { tone: 'bad', words: `exited ${e.exit_code}` }
    case 'signaled':
      return { tone: 'bad', words: `killed by ${e.signal ?? 'a signal'}` }
    case 'timed_out':
      return { tone: 'bad', words: 'timed out' }
    case 'cancelled':
      return { tone: 'dim', words: 'cancelled' }
    case 'limit_exceeded':
      return { tone: 'bad', words: `over its limit${e.limit ? `: ${e.limit}` : ''}` }
    case 'failed_to_start':
      return { tone: 'bad', words: 'failed to start' }
    case 'lost':
      return { tone: 'odd', words: 'lost' }
  }
  return { tone: 'dim', words: e.outcome ?? 'ended' }
}

/** How long a run has run, in milliseconds; undefined before it has begun. */
export function ranFor(e: Execution, now = Date.now()): number | undefined {
  if (e.duration_ms !== null) return e.duration_ms
  return e.started === null ? undefined : Math.max(0, now - Date.parse(e.started))
}

/** A random name of 80 bits. */
export function randomID(): string {
  const letters = 'abcdefghijkmnpqrstuvwxyz23456789'
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => letters[byte & 31]).join('')
}

/** Puts text onto the clipboard, also where the page has no secure origin. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    document.body.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
  }
}

/** The members of a retention that were filled in. A size is in MiB. */
export function retentionOf(fields: { events: string; size: string; age: string }) {
  return {
    ...(fields.events.trim() && { max_events: Number(fields.events) }),
    ...(fields.size.trim() && { max_bytes: Math.round(Number(fields.size) * 2 ** 20) }),
    ...(fields.age.trim() && { max_age: fields.age.trim() }),
  }
}

/** What a command waits for, and what would help; undefined if it does not wait. */
export function waitingText(e: { waiting?: string; waiting_since?: string }, now = Date.now()): string | undefined {
  if (!e.waiting) return undefined
  const since = e.waiting_since ? `, since ${ago(e.waiting_since, now)}` : ''
  return `Its output waits for ${e.waiting}${since}. End or remove streams, or raise --max-total-bytes or the quota; cancelling ends it.`
}
