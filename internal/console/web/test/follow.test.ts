import assert from 'node:assert/strict'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Follower } from '../src/follow'
import { Ledger } from '../src/ledger'
import { Watch } from '../src/watch'

/** Serves until the test ends and returns the address. */
async function serve(t: TestContext, handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(handle).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  t.after(() => (server.closeAllConnections(), server.close()))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Answers a reader with the events after those that it has, up to the seq to, and keeps the connection open. */
function stream(request: IncomingMessage, response: ServerResponse, to: number): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Stream-Tail': `${to}.E.T` }).flushHeaders()
  for (let seq = Number.parseInt(String(request.headers['last-event-id'] ?? 0), 10) + 1; seq <= to; seq++) {
    response.write(`id: ${seq}.E.T\nevent: note\ndata: {"seq":${seq},"time":""}\n\n`)
  }
}

/** Waits until a condition holds; the timeout of the tests bounds it. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((next) => setImmediate(next))
}

test('a connection that is cut and resumed at once is no lost connection', async (t) => {
  const asked: string[] = []
  const address = await serve(t, (request, response) => {
    asked.push(String(request.headers['last-event-id'] ?? ''))
    stream(request, response, asked.length * 3)
  })
  const phases: string[] = []
  const seen: number[] = []
  const follower = new Follower(address, new Ledger(), {
    events: (batch) => void seen.push(...batch.map(({ seq }) => seq)),
    gap: () => assert.fail('there is no gap'),
    changed: () => void phases.push(follower.phase),
  })
  t.after(() => follower.stop())
  void follower.run()
  for (let round = 1; round <= 3; round++) {
    await until(() => seen.length === round * 3)
    follower.cut()
    follower.resume()
  }
  await until(() => seen.length === 12)
  assert.deepEqual(asked, ['', '3.E.T', '6.E.T', '9.E.T'])
  assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
  assert.ok(!phases.includes('waiting'), `it says that the connection was lost: ${phases}`)
  assert.equal(follower.problem, undefined)
})

test('a 204 without an outcome is not the end', async (t) => {
  let requests = 0
  const address = await serve(t, (request, response) => {
    requests++
    if (requests === 2) stream(request, response, 3)
    if (requests === 2) response.end()
    else response.writeHead(204, requests === 4 ? { 'Stream-Outcome': 'exited' } : {}).end()
  })
  const ledger = new Ledger()
  const follower = new Follower(address, ledger, { events: () => {}, gap: () => assert.fail('there is no gap'), changed: () => {} })
  t.after(() => follower.stop())
  await follower.run()
  assert.deepEqual([follower.phase, requests, ledger.last], ['ended', 4, 3])
})

test('what comes after the page is back was not missed, also if the tail is told late', async (t) => {
  let last = 2
  let answerLook: (() => void) | undefined
  const readers: ServerResponse[] = []
  const address = await serve(t, (request, response) => {
    if (request.url!.startsWith('/events')) return readers.push(response), stream(request, response, last)
    answerLook = () => response.writeHead(200, { 'Content-Type': 'application/json' }).end(`{"window":{"tail":"${last}.E.T"}}`)
  })
  const watch = new Watch(address)
  const { ledger, follower } = watch
  t.after(() => watch.stop())
  watch.start()
  await until(() => ledger.last === 2)
  follower.cut()
  await until(() => answerLook !== undefined)
  last = 5
  follower.resume()
  await until(() => ledger.last === 5)
  last = 9
  readers[1]!.write('id: 6.E.T\nevent: note\ndata: {"seq":6,"time":""}\n\n')
  await until(() => ledger.last === 6)
  answerLook!()
  const answered = await fetch(address + '/events', { headers: { 'Last-Event-ID': '9.E.T' } }) // the answer before has come by now
  await answered.body?.cancel()
  assert.deepEqual(ledger.absence, { after: 2, tail: 5, replayed: 3, gone: 0 })
})
