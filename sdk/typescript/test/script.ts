import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { Reprise, type Options } from 'reprise'

/** One answer of a scripted server. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** A server that gives its answers one after the other, and the last one for ever. */
export interface Script {
  url: string
  requests: IncomingMessage[]
  /** The open connections that have carried a request. */
  open: () => number
  client: (options?: Options) => Reprise
}

export async function script(t: TestContext, ...answers: Answer[]): Promise<Script> {
  const requests: IncomingMessage[] = []
  const used = new Set<Socket>() // Node's fetch opens another connection after an aborted one, and leaves it idle for seconds
  const server = createServer((request, response) => {
    requests.push(request)
    const { socket } = request
    if (!used.has(socket)) socket.on('close', () => used.delete(socket))
    used.add(socket)
    answers[Math.min(requests.length, answers.length) - 1]!(request, response)
  })
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url,
    requests,
    open: () => used.size,
    client: (options) => new Reprise({ url, token: 'secret', minWait: 1, maxWait: 5, ...options }),
  }
}

export const epoch = '7ZK3M9Q2VTX4WB8A'
export const otherEpoch = '3QH8D1N6RBY5KTE2'

/** The cursor of an event. */
export const cursor = (seq: number, of = epoch) => `${seq}.${of}.0F3KQ6T2M9YVC`

/** An event as the server writes it. */
export function event(seq: number, type = 'stdout', members: object = { text: `line ${seq}\n` }, of = epoch): string {
  const data = JSON.stringify({ seq, time: '2026-11-20T09:30:00.000Z', ...members })
  return `event: ${type}\ndata: ${data}\nid: ${cursor(seq, of)}\n\n`
}

export const end = (seq: number, of = epoch) => event(seq, 'end', { outcome: 'exited', exit_code: 0 }, of)

/** The notice of a gap as the server writes it. */
export function gap(at: string, members: object): string {
  return `event: gap\ndata: ${JSON.stringify(members)}\nid: ${at}\n\n`
}

/** Answers with an event stream, which then ends, or stays open. */
export function stream(blocks: string[], options: { open?: boolean; headers?: Record<string, string> } = {}): Answer {
  return (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', ...options.headers })
    response.write(['retry: 1\n', ...blocks].join(''))
    if (!options.open) response.end()
  }
}

/** Refuses with a problem. */
export function problem(status: number, code: string, members: object = {}, headers: Record<string, string> = {}): Answer {
  return (_, response) => {
    response.writeHead(status, { 'Content-Type': 'application/problem+json', ...headers })
    response.end(JSON.stringify({ type: `urn:reprise:problem:${code}`, title: code, status, code, retryable: false, ...members }))
  }
}

/** Answers with something that no Reprise server says. */
export function foreign(status: number, headers: Record<string, string> = {}): Answer {
  return (_, response) => {
    response.writeHead(status, { 'Content-Type': 'text/html', ...headers })
    response.end('<h1>Hello</h1>')
  }
}

/** Waits until a condition is met. */
export async function until(what: string, condition: () => boolean, ms = 120_000): Promise<void> {
  for (const deadline = Date.now() + ms; !condition(); ) {
    if (Date.now() > deadline) throw new Error(`not met within ${ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** All that a loop yields. */
export async function all<E>(events: AsyncIterable<E>): Promise<E[]> {
  const list: E[] = []
  for await (const event of events) list.push(event)
  return list
}
