// The shared worker of all tabs: it follows their streams over one connection, for a browser opens six to a server over
// HTTP/1.1. A tab catches up over a connection of its own, goes over to this one at the tail, and back when it is lost.

import type { FromHub, ToHub } from './link'
import { loginHeader } from './login'
import { Decoder, type Frame } from './sse'
import { seqOf } from './wire'

/** One follower of a tab that takes part in the connection. */
interface Member {
  port: MessagePort
  id: number
  /** "executions/ID" or "streams/NAME". */
  of: string
  /** The last event that it was sent. */
  cursor: string
  /** What it was sent and has not handled, in characters. */
  unhandled: number
}

/** A line of the answer; see GET /v1/events. */
interface Piece {
  read: number
  status?: number
  head?: Record<string, string>
  text?: string
  over?: boolean
}

/** Three heartbeats of the server: after that much silence the connection is dead. */
const silence = 45_000
/** Tabs that come or go together make one new connection. */
const together = 30
/** A tab that leaves more than that unhandled reads on by itself, and holds up nobody. */
const maxUnhandled = 8_000_000
/** Streams of one request. */
const maxReads = 64

const members = new Set<Member>()
/** The followers of all tabs, whether they take part or not, by their ports. */
const followers = new Map<MessagePort, Set<number>>()
/** The secret of the login, from the tab that has joined last. */
let secret = ''
let connection = new AbortController()
let timer: ReturnType<typeof setTimeout> | undefined

;(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = ({ ports: [port] }) => {
  followers.set(port!, new Set())
  port!.onmessage = ({ data }: MessageEvent<ToHub>) => heard(port!, data)
  port!.addEventListener('close', () => gone(port!)) // where the browser tells; the page says goodbye, too
}

function heard(port: MessagePort, message: ToHub): void {
  const { id } = message
  const member = [...members].find((one) => one.port === port && one.id === id)
  switch (message.kind) {
    case 'enter':
      followers.get(port)?.add(id)
      return tellFollowers()
    case 'exit':
      followers.get(port)?.delete(id)
      return tellFollowers()
    case 'join':
      secret = message.secret
      members.add({ port, id, of: message.of, cursor: message.cursor, unhandled: 0 })
      return renew()
    case 'handled':
      if (member) member.unhandled -= message.size
      return
    case 'leave':
      if (member) drop(member)
      // A connection that is cut is closed, as it would be by a tunnel. Those who share it go on over another.
      if (message.cut) connection.abort()
      return
    case 'bye':
      gone(port)
  }
}

function gone(port: MessagePort): void {
  followers.delete(port)
  for (const member of members) if (member.port === port) drop(member)
  tellFollowers()
}

function drop(member: Member): void {
  members.delete(member)
  renew()
}

function tell(port: MessagePort, message: FromHub): void {
  port.postMessage(message)
}

function tellFollowers(): void {
  let count = 0
  for (const { size } of followers.values()) count += size
  for (const port of followers.keys()) tell(port, { kind: 'followers', count })
}

/** Lets a follower go on by itself. */
function lose(member: Member): void {
  if (!members.delete(member)) return
  tell(member.port, { kind: 'lost', id: member.id })
}

/** Makes a new connection for those who share one now, soon. */
function renew(): void {
  timer ??= setTimeout(() => {
    timer = undefined
    connection.abort()
    connection = new AbortController()
    const reads = readsOf(members)
    for (const { members: late } of reads.splice(maxReads)) for (const member of late) lose(member)
    if (reads.length > 0) void follow(reads, connection)
  }, together)
}

/** One stream of the connection, and who follows it. */
interface Read {
  of: string
  cursor: string
  members: Member[]
  decoder: Decoder
}

/** The streams of all, each after the event that the last of its followers is at. */
function readsOf(all: Iterable<Member>): Read[] {
  const reads = new Map<string, Read>()
  for (const member of all) {
    const { of, cursor } = member
    const read = reads.get(of)
    if (!read) {
      reads.set(of, { of, cursor, members: [member], decoder: new Decoder() })
      continue
    }
    read.members.push(member)
    if (seqOf(cursor) < seqOf(read.cursor)) read.cursor = cursor
  }
  return [...reads.values()]
}

/** Follows until the connection is lost, which all are told who take part in it, or until another one takes its place. */
async function follow(reads: Read[], { signal }: AbortController): Promise<void> {
  const here = connection
  let dead = setTimeout(() => here.abort(), silence)
  try {
    const query = reads.map(({ of, cursor }) => `${of}@${cursor}`).join(',')
    const headers = secret === '' ? {} : { [loginHeader]: secret }
    const response = await fetch(`/v1/events?of=${encodeURIComponent(query)}`, { cache: 'no-store', redirect: 'error', headers, signal })
    const reader = response.ok ? response.body?.getReader() : undefined
    const utf8 = new TextDecoder()
    for (let rest = ''; reader; ) {
      const { value, done } = await reader.read()
      if (done) break
      clearTimeout(dead)
      dead = setTimeout(() => here.abort(), silence)
      const lines = (rest + utf8.decode(value, { stream: true })).split('\n')
      rest = lines.pop()!
      for (const line of lines) if (line !== '') take(reads, JSON.parse(line) as Piece)
    }
  } catch {
    // The tabs find out by themselves what is wrong.
  }
  clearTimeout(dead)
  if (timer !== undefined || here !== connection) return // another one takes its place
  for (const read of reads) for (const member of read.members) lose(member)
}

function take(reads: Read[], { read: number, status, head, text, over }: Piece): void {
  const read = reads[number]!
  read.members = read.members.filter((member) => members.has(member))
  if (status === 200) for (const { port, id } of read.members) tell(port, { kind: 'head', id, tail: head?.['Stream-Tail'] ?? '' })
  let frames: Frame[] = []
  // What its own reader has to be told about is told to it by the server: each tab asks by itself.
  let aside = over === true || (status !== undefined && status !== 200)
  if (text !== undefined && !aside) {
    read.decoder.pushText(text)
    for (let frame: Frame | undefined; (frame = read.decoder.next()); frames.push(frame)) aside ||= frame.type === 'gap'
  }
  if (aside) frames = frames.slice(0, Math.max(0, frames.findIndex(({ type }) => type === 'gap')))
  for (const member of read.members) hand(member, frames)
  if (aside) for (const member of read.members) lose(member)
}

/** Sends a follower what it does not have. Nothing is a sign of life. */
function hand(member: Member, all: Frame[]): void {
  const frames = all.filter(({ id }) => id !== undefined && seqOf(id) > seqOf(member.cursor))
  const size = frames.reduce((sum, { data }) => sum + (data?.length ?? 0) + 100, 0)
  member.cursor = frames.at(-1)?.id ?? member.cursor
  member.unhandled += size
  tell(member.port, { kind: 'frames', id: member.id, frames, size })
  if (frames.some(({ type }) => type === 'end')) members.delete(member)
  else if (member.unhandled > maxUnhandled) lose(member)
}
