// R9.2: each event once and in order, wherever the connection breaks.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Published } from 'reprise'
import { type Cut, Cutter } from './cutter.js'
import { Server } from './server.js'

/** Runs work for 0 to count-1, so many at a time. */
async function many(count: number, atATime: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  const worker = async () => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: atATime }, worker))
}

test('a connection that is cut at every byte of an answer', { timeout: 290_000 }, async (t) => {
  const server = await Server.start(t)
  const reprise = server.client()
  await reprise.streams.create('every/byte')
  const producer = reprise.producer('every/byte')
  const want: unknown[] = ['zażółć 🦊\r\n\u2028', new Uint8Array([0xff, 0, 0x0d, 0x0a]), { n: [1, 'x', null] }, '', 'ok']
  for (const value of want) {
    if (typeof value === 'string' || value instanceof Uint8Array) await producer.publishBytes(value, { type: 'bytes' })
    else await producer.publish({ type: 'json', data: value })
  }
  await producer.end('completed', { data: { done: true } })

  const headers = { Accept: 'text/event-stream', Authorization: `Bearer ${server.token}` }
  const answer = await fetch(`${server.url}/v1/streams/every%2Fbyte/events?gap=event`, { headers })
  const head = [...answer.headers].reduce((sum, [name, value]) => sum + name.length + value.length + 4, 30)
  const length = head + (await answer.arrayBuffer()).byteLength
  let cuts = 0
  await many(length, 32, async (i) => {
    const cut: Cut = { after: i, how: i % 2 ? 'rst' : 'fin' }
    const cutter = await Cutter.start(t, server.url, (n) => (n === 0 ? cut : undefined))
    const got: unknown[] = []
    const seqs: number[] = []
    for await (const event of server.client({ url: cutter.url }).streams.follow('every/byte')) {
      seqs.push(event.seq)
      if (event.type === 'end') assert.deepEqual((event.data as { data: unknown }).data, { done: true })
      else got.push(event.data)
    }
    assert.deepEqual(seqs, [1, 2, 3, 4, 5, 6], `cut after ${cut.after} bytes`)
    assert.deepEqual(got, want, `cut after ${cut.after} bytes`)
    cuts += cutter.cuts
    cutter.close()
  })
  assert.ok(cuts > length * 0.9, `${cuts} cuts for ${length} bytes`)
})

test('20,000 events over 300 random cuts, with the server killed twice meanwhile', { timeout: 290_000 }, async (t) => {
  const count = 20_000
  const server = await Server.start(t, '--retain-events', '100000')
  await server.client().streams.create('long')
  const producer = server.client({ giveUp: 60_000 }).producer('long')
  let published = 0
  const publishing = (async () => {
    for (; published < count; published += 50) {
      const events = Array.from({ length: 50 }, (_, i) => ({ type: 'n', data: published + i + 1 }))
      const kept: Published = await producer.publish(events)
      assert.ok(kept.duplicate || kept.last === published + 50)
    }
    await producer.end()
  })()

  // A connection that ends with a killed server was not cut, so the cuts that were made are what counts. 300 cuts after
  // 5,000 bytes on average end before the answers do, which are more than 2 MB.
  const cutter: Cutter = await Cutter.start(t, server.url, () => {
    if (cutter.cuts >= 300) return undefined
    return { after: Math.floor(Math.random() * 10_000), how: Math.random() < 0.5 ? 'fin' : 'rst' }
  })
  const kills = [count / 4, count / 2]
  let seq = 0
  for await (const event of server.client({ url: cutter.url }).streams.follow<{ n: number }>('long')) {
    assert.equal(event.seq, ++seq)
    if (event.type === 'n') assert.equal(event.data, seq)
    if (seq >= (kills[0] ?? Infinity)) {
      kills.shift()
      await server.kill()
      await server.start()
    }
  }
  await publishing
  assert.equal(seq, count + 1)
  assert.equal(cutter.cuts, 300)
})
