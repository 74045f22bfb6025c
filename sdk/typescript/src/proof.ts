import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http'
import { type Socket, connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { UnprovenError } from './errors.js'

/** The messages between a local client and server before the token is sent; the server's side is internal/serverproof. */
const label = 'reprise server proof 1'

/** Bounds the proof of one connection, in milliseconds, and its answer, in bytes. */
const patience = 30_000
const maxAnswer = 64 << 10

/** After this time without a request, in milliseconds, a connection is not used again. */
const maxIdle = 4000

/** The code for a challenge over a connection to an address, such as "127.0.0.1:7070". */
export function answerOf(token: string, challenge: string, address: string): string {
  const key = createHash('sha256').update(`${label}\n${token}`).digest()
  return createHmac('sha256', key).update(`${label}\n"${challenge}"\n"${address}"`).digest('base64url')
}

/**
 * Returns a fetch that asks for a proof of the token on each new connection, before it sends anything else over it: a server may go,
 * and another program take its place, while a client lives. Over TLS the certificate of this machine is the proof. It does what the
 * client needs of a fetch: bodies are texts or bytes, and it follows no redirect.
 */
export function provenFetch(token: string): typeof fetch {
  const agent = new ProvenAgent({ keepAlive: true, timeout: maxIdle }, token)
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    if (!isLoopback(host)) throw new UnprovenError(`the token of this machine's server is not sent to ${url.host}`)
    if (url.protocol === 'https:') return fetch(url, init)
    const { method, headers, body, signal } = init
    const sent = typeof body === 'string' ? Buffer.from(body) : (body as Uint8Array | null | undefined)
    const fields = { ...(headers as Record<string, string>), ...(sent && { 'Content-Length': String(sent.length) }) }
    const options: Target = { agent, method: method ?? 'GET', headers: fields, ...(signal && { signal, whileProving: signal }) }
    try {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        request(url, options, resolve).on('error', reject).end(sent)
      })
      return responseOf(response)
    } catch (error) {
      throw error instanceof UnprovenError ? error : new TypeError('fetch failed', { cause: error }) // as the platform's does
    }
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

function responseOf(message: IncomingMessage): Response {
  const headers = new Headers()
  for (let i = 0; i < message.rawHeaders.length; i += 2) headers.append(message.rawHeaders[i]!, message.rawHeaders[i + 1]!)
  const status = message.statusCode!
  if (status === 204 || status === 304) {
    message.resume()
    return new Response(null, { status, headers })
  }
  const chunks = message[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await chunks.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: () => void message.destroy(),
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}

/** What createConnection gets. */
interface Target extends RequestOptions {
  /** The signal of the request, which Node does not pass on. */
  whileProving?: AbortSignal
}

/** Makes connections whose server has proven that it knows the token. */
class ProvenAgent extends Agent {
  constructor(
    options: ConstructorParameters<typeof Agent>[0],
    private readonly token: string,
  ) {
    super(options)
  }

  override createConnection(target: Target, done?: (error: Error | null, socket: Duplex) => void): undefined {
    proven(target, this.token).then(
      (socket) => done!(null, socket),
      (error: Error) => done!(error, undefined as never),
    )
  }
}

/** Connects, and asks who answers for a proof. */
function proven({ host, port, whileProving: signal }: Target, token: string): Promise<Socket> {
  const name = host ?? 'localhost'
  const socket = connect({ host: name, port: Number(port ?? 80), noDelay: true })
  const challenge = randomBytes(24).toString('base64url')
  let received = Buffer.alloc(0)
  return new Promise((resolve, reject) => {
    const settle = (error?: Error) => {
      clearTimeout(late)
      signal?.removeEventListener('abort', onAbort)
      socket.off('connect', onConnect).off('readable', onReadable).off('close', onClose).off('error', onError)
      if (!error) return resolve(socket)
      socket.on('error', () => {}).destroy()
      reject(error)
    }
    const onAbort = () => settle(unsent('the request was aborted'))
    const onClose = () => settle(unsent('the connection was closed before the server has proven itself'))
    const onError = (error: Error) => settle(Object.assign(error, { syscall: 'connect' }))
    const onConnect = () => {
      const authority = `${name.includes(':') ? `[${name}]` : name}:${port ?? 80}`
      socket.write(`GET /v1/proof?challenge=${challenge} HTTP/1.1\r\nHost: ${authority}\r\nAccept: application/json\r\n\r\n`)
    }
    const onReadable = () => {
      for (let chunk: Buffer | null; (chunk = socket.read() as Buffer | null); ) received = Buffer.concat([received, chunk])
      const answer = readAnswer(received)
      if (answer) settle(refusal(answer, token, challenge, addressOf(socket)))
    }
    const late = setTimeout(() => settle(unsent('the server takes too long to prove itself')), patience)
    socket.on('connect', onConnect).on('readable', onReadable).on('close', onClose).on('error', onError)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted) onAbort()
  })
}

/** The address that a connection has reached. */
function addressOf({ remoteAddress = '', remotePort }: Socket): string {
  return `${remoteAddress.includes(':') ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`
}

/** The error for an answer that is no proof; undefined for a proof. */
function refusal({ status, proof }: Answer, token: string, challenge: string, address: string): Error | undefined {
  if (status === 503) return unsent(`the program at ${address} is not ready to prove that it is the server`)
  const got = Buffer.from(proof)
  const want = Buffer.from(answerOf(token, challenge, address))
  if (status === 200 && got.length === want.length && timingSafeEqual(got, want)) return undefined
  return new UnprovenError(
    `not proven to be the server of this machine: the program at ${address} (status ${status}) may be another program, an older ` +
      'version or a proxy; set REPRISE_TOKEN to send the token all the same',
  )
}

/** An error of the network of a request that was not sent. */
function unsent(message: string): Error {
  return Object.assign(new Error(message), { syscall: 'connect' })
}

/** An answer to a challenge: its status, 0 for what is not HTTP, and its proof, "" for none. */
interface Answer {
  status: number
  proof: string
}

/** Reads an answer, whose length must be stated. Undefined if it is not whole. */
function readAnswer(received: Buffer): Answer | undefined {
  const text = received.toString('latin1')
  const end = text.indexOf('\r\n\r\n') + 4
  if (received.length > maxAnswer || !'HTTP/1.1 '.startsWith(text.slice(0, 9))) return { status: 0, proof: '' }
  if (end === 3) return undefined
  const status = Number(/^HTTP\/1\.1 ([0-9]{3})\b/.exec(text)?.[1] ?? 0)
  if (status !== 200) return { status, proof: '' }
  const length = Number(/\r\ncontent-length: *([0-9]{1,5}) *\r\n/i.exec(text.slice(0, end))?.[1] ?? NaN)
  if (received.length < end + length) return undefined
  try {
    const { proof } = JSON.parse(text.slice(end, end + length)) as { proof?: unknown }
    if (typeof proof === 'string' && received.length === end + length) return { status, proof }
  } catch {
    // not JSON
  }
  return { status, proof: '' }
}
