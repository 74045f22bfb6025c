// What merely listens at the address of this machine's server is never sent the token that lies in its file.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type Server, createServer } from 'node:http'
import { type AddressInfo, type Socket, createServer as listen } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, after, before, test } from 'node:test'
import { answerOf } from '#esm/proof.js'
import { ConnectionError, Reprise, UnprovenError } from 'reprise'
import { localToken } from 'reprise/node'
import { Server as RealServer, freePort } from './server.js'

const token = 'the-token-of-this-machine'
const state = mkdtempSync(join(tmpdir(), 'reprise-state-'))
const saved = { ...process.env }

before(() => {
  mkdirSync(join(state, 'reprise'))
  writeFileSync(join(state, 'reprise', 'token'), `${token}\n`)
  process.env['XDG_STATE_HOME'] = state
  delete process.env['REPRISE_TOKEN']
})

after(() => {
  for (const name of ['XDG_STATE_HOME', 'REPRISE_TOKEN']) {
    if (saved[name] === undefined) delete process.env[name]
    else process.env[name] = saved[name]
  }
  rmSync(state, { recursive: true })
})

type Prove = (challenge: string, address: string) => [status: number, text: string] | Promise<[status: number, text: string]>

/** Answers challenges by a function, and everything else with an empty list. */
class Squatter {
  readonly sent: string[] = []
  private readonly server: Server

  constructor(t: TestContext, prove: Prove) {
    this.server = createServer((request, response) => {
      this.sent.push(`${request.url?.split('?')[0]} ${request.headers.authorization}`)
      void (async () => {
        const challenge = new URL(request.url!, 'http://x').searchParams.get('challenge')
        const [status, text] = challenge ? await prove(challenge, this.address) : [200, '{"executions":[],"next_cursor":""}']
        response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }).end(text)
      })()
    })
    t.after(() => this.close())
  }

  async listen(port = 0): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(port, '127.0.0.1', resolve))
    return this
  }

  close(): Promise<unknown> {
    const closed = new Promise((resolve) => this.server.close(resolve))
    this.server.closeAllConnections()
    return closed
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }

  get address(): string {
    return `127.0.0.1:${this.port}`
  }
}

const knowing =
  (known: string): Prove =>
  (challenge, address) => [200, JSON.stringify({ proof: answerOf(known, challenge, address) })]

const local = async (port: number, giveUp = 0) =>
  new Reprise({ url: `http://127.0.0.1:${port}`, token: await localToken(), giveUp, minWait: 1, maxWait: 5 })

test('only a server that knows the token is sent it, and asked once for each connection', async (t) => {
  const real = await new Squatter(t, knowing(token)).listen()
  const reprise = await local(real.port)
  await reprise.list()
  await reprise.list()
  assert.deepEqual(real.sent, ['/v1/proof undefined', `/v1/executions Bearer ${token}`, `/v1/executions Bearer ${token}`])
})

test('squatters never see the token', async (t) => {
  const real = await new Squatter(t, knowing(token)).listen()
  const passedOn: Prove = async (challenge) => {
    const response = await fetch(`http://${real.address}/v1/proof?challenge=${challenge}`)
    return [response.status, await response.text()]
  }
  const proofs: Prove[] = [
    () => [200, '{"proof":"x"}'],
    (challenge) => [200, JSON.stringify({ proof: challenge })],
    () => [200, '{"proof":"\\ud800"}'],
    () => [200, '{"executions":[]}'],
    () => [200, '['.repeat(10_000)],
    () => [200, ' '.repeat(100_000)],
    () => [404, '{"code":"not_found"}'],
    () => [302, ''],
    knowing('another-token'),
    passedOn,
  ]
  for (const [number, prove] of proofs.entries()) {
    const squatter = await new Squatter(t, prove).listen()
    const reprise = await local(squatter.port, 60_000)
    await assert.rejects(reprise.list(), (error: UnprovenError) => error instanceof UnprovenError && error.code === 'unproven')
    await assert.rejects(reprise.follow('x')[Symbol.asyncIterator]().next(), UnprovenError)
    assert.deepEqual(squatter.sent, ['/v1/proof undefined', '/v1/proof undefined'], `squatter ${number}`)
  }
})

test('a program that takes the place of the server is not sent the token', async (t) => {
  const port = await freePort()
  const real = await new Squatter(t, knowing(token)).listen(port)
  const reprise = await local(port)
  await reprise.list()
  await real.close()
  const squatter = await new Squatter(t, () => [200, '{}']).listen(port)
  await assert.rejects(reprise.list(), (error) => error instanceof UnprovenError || error instanceof ConnectionError)
  await assert.rejects(reprise.list(), UnprovenError)
  assert.ok(squatter.sent.every((line) => line === '/v1/proof undefined'))
})

test('a server that is not ready is tried again, and one that hangs is left', async (t) => {
  const starting = await new Squatter(t, () => [503, '']).listen()
  await assert.rejects((await local(starting.port)).list(), (error: ConnectionError) => error.code === 'connection' && error.retryable)
  const open = new Set<Socket>()
  const hanging = listen((socket) => {
    open.add(socket)
    socket.on('error', () => {}).on('close', () => open.delete(socket)).resume()
  })
  t.after(() => hanging.close())
  await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve))
  const stop = new AbortController()
  const reprise = await local((hanging.address() as AddressInfo).port)
  const list = reprise.list({ signal: stop.signal })
  while (open.size === 0) await new Promise((resolve) => setImmediate(resolve))
  stop.abort(new Error('enough'))
  await assert.rejects(list, /enough/)
  while (open.size > 0) await new Promise((resolve) => setImmediate(resolve))
})

test('the token is sent to this machine only, and by no other fetch', async () => {
  const found = await localToken()
  for (const url of ['http://192.0.2.1', 'https://reprise.example', 'http://127.0.0.1.example']) {
    await assert.rejects(new Reprise({ url, token: found, giveUp: 0 }).list(), UnprovenError)
  }
  assert.throws(() => new Reprise({ token: found, fetch: globalThis.fetch }), { code: 'invalid' })
})

test('a real server proves itself', async (t) => {
  const server = await RealServer.start(t)
  writeFileSync(join(state, 'reprise', 'token'), server.token)
  for (const host of ['127.0.0.1', 'localhost']) {
    const reprise = new Reprise({ url: server.url.replace('127.0.0.1', host), token: await localToken() })
    assert.equal((await reprise.run({ argv: ['echo', 'proven'] }).result()).stdout, 'proven\n')
    await reprise.run({ argv: ['cat'], stdin: 'é'.repeat(100_000) }).result()
  }
})
