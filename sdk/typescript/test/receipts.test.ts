// What a loop over a run says about held output that it has handled: to a scripted server, and to a real one through cuts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Reprise } from 'reprise'
import { type Cut, Cutter } from './cutter.js'
import { type Answer, all, cursor, end, event, problem, script, stream, until } from './script.js'
import { Server } from './server.js'

const head = { 'Execution-Hold': 'name', 'Execution-Receipts': 'events=8, bytes=100000' }

/** Answers starts and reads with events, one after the other, and receipts with 204 after refusing some of them. */
function server(refused: number, ...events: Answer[]): { answer: Answer; receipts: string[]; asked: (string | undefined)[] } {
  const receipts: string[] = []
  const asked: (string | undefined)[] = []
  const answer: Answer = (request, response) => {
    if (!request.url!.includes('/receipts')) {
      asked.push(request.headers['execution-receipts'] as string | undefined)
      return events.shift()!(request, response)
    }
    receipts.push(`${request.method} ${request.headers['execution-hold'] as string} ${request.url!.split('?')[1]!}`)
    if (receipts.length <= refused) return problem(404, 'not_found')(request, response)
    response.writeHead(204).end()
  }
  return { answer, receipts, asked }
}

test('receipts are for handled events: at once for a quarter, later for less, and again after a failure', { timeout: 60_000 }, async (t) => {
  const blocks = [1, 2, 3, 4, 5].map((seq) => event(seq))
  const { answer, receipts, asked } = server(2, stream(blocks, { open: true, headers: head }))
  const one = await script(t, answer)
  const loop = one.client().run({ argv: ['true'], hold: '5m' }, { detach: true })[Symbol.asyncIterator]()
  for (let n = 1; n <= 3; n++) assert.equal((await loop.next()).value?.type, 'stdout')
  await until('the receipt for two of eight events', () => receipts.length === 3)
  assert.deepEqual(receipts, Array(3).fill('POST name seq=2')) // the third is being handled
  await loop.next()
  await until('the receipt for one event', () => receipts.length === 4)
  assert.equal(receipts[3], 'POST name seq=3')
  await loop.next()
  await loop.return!()
  assert.deepEqual(asked, ['yes'])
  assert.equal(receipts.length, 4)
  await until('no connection is left', () => one.open() <= 1) // that which fetch keeps for other requests
})

test('receipts are announced again with each request', { timeout: 60_000 }, async (t) => {
  const { answer, receipts, asked } = server(0, stream([event(1)], { headers: head }), stream([event(2), end(3)], { headers: head }))
  const one = await script(t, answer)
  assert.equal((await one.client().run({ argv: ['true'], hold: '5m' }).result()).exitCode, 0)
  assert.deepEqual(asked, ['yes', 'yes'])
  assert.ok(receipts.every((receipt) => /^POST name seq=[12]$/.test(receipt)), receipts.join())
})

test('no receipts: without hold, for some types, and to a server that does not ask for them', { timeout: 60_000 }, async (t) => {
  const several = [1, 2, 3, 4, 5, 6].map((seq) => event(seq))
  const ended = () => stream([...several, end(7)], { headers: head })
  const silent = () => stream([...several, end(7)], { headers: { 'Execution-Hold': 'name' } })
  const { answer, receipts, asked } = server(0, ended(), silent())
  const one = await script(t, answer)
  await all(one.client().run({ argv: ['true'], hold: '1s' }, { types: ['stdout'] }))
  await all(one.client().run({ argv: ['true'], hold: '1s' }))
  assert.deepEqual(asked, [undefined, 'yes'])
  assert.deepEqual(receipts, [])
  const follows = server(0, stream([event(1), end(2)]))
  const two = await script(t, follows.answer)
  await all(two.client().follow('x', { after: cursor(0) }))
  assert.deepEqual(follows.asked, [undefined])
})

/** Waits until the output of an execution does not grow any more, and returns the number of its bytes. */
async function standsStill(reprise: Reprise, id: string): Promise<number> {
  for (let last = -1; ; ) {
    const { bytes } = await reprise.show(id)
    if (bytes.stdout === last) return last
    last = bytes.stdout
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

test('what is in the buffers of cut connections is not lost', { timeout: 120_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  // At most 32 KiB may be without a receipt: if a quarter of that did not make one due, this would take minutes.
  const cut: Cut = { after: 3_000_000, how: 'rst' }
  const cutter = await Cutter.start(t, server.url, (n) => (n < 40 ? cut : undefined))
  const reprise = server.client({ url: cutter.url })
  const run = reprise.run({ command: 'seq 2000000', retention: { max_bytes: 256 << 10 }, hold: '2m' })
  let text = ''
  for await (const event of run) {
    assert.notEqual(event.type, 'gap')
    if (event.type !== 'stdout') continue
    if (text === '') await standsStill(server.client(), run.id)
    text += event.text
  }
  assert.ok(cutter.cuts > 3, `${cutter.cuts} cuts`)
  assert.ok(text.length === 14_888_896 && text.endsWith('\n1999999\n2000000\n'), `${text.length} bytes`)
})
