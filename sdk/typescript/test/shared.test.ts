// Loops of one page that share a connection. Pages that do are tested in Chromium: examples/shared.test.mjs.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MemoryCursor, Reprise } from 'reprise'
import { shared } from 'reprise/shared'
import { Cutter } from './cutter.js'
import { all, end, event, problem, script, stream, until } from './script.js'
import { Server } from './server.js'

/** A server with an empty stream, numbers. */
async function streamServer(t: TestContext): Promise<{ server: Server; reprise: Reprise; publish: (from: number, to: number) => Promise<void> }> {
  const server = await Server.start(t, '--store', 'memory:')
  const reprise = server.client()
  await reprise.streams.create('numbers')
  const producer = reprise.producer('numbers')
  const publish = async (from: number, to: number) => {
    for (let n = from; n <= to; n++) await producer.publish({ data: n })
  }
  return { server, reprise, publish }
}

/** How many readers the server has. */
async function readers(server: Server): Promise<number> {
  const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${server.token}` } })
  return Number(/^reprise_readers (\d+)$/m.exec(await response.text())?.[1] ?? 0)
}

async function untilReaders(server: Server, want: number): Promise<void> {
  for (const deadline = Date.now() + 30_000; ; ) {
    const count = await readers(server)
    if (count === want) return
    assert.ok(Date.now() < deadline, `${count} readers, not ${want}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

test('ten loops share one connection, each from where it begins, and leave nothing', { timeout: 90_000 }, async (t) => {
  const { server, reprise, publish } = await streamServer(t)
  const none = await readers(server)
  await publish(1, 50)
  const { events } = await reprise.streams.page('numbers', { limit: 20 })
  const stop = new AbortController()
  const seen: number[][] = []
  const begun = new Set<number>()
  const loops = range(0, 9).map(async (i) => {
    const list: number[] = []
    seen.push(list)
    const after = [undefined, 'tail', 'earliest', events[9]!.cursor][i % 4]
    const follow = reprise.streams.follow('numbers', { signal: stop.signal, ...(after !== undefined && { after }) })
    for await (const event of shared(follow)) {
      if (event.type === 'message') list.push(event.data as number)
      else begun.add(i)
    }
  })
  // Where a loop from the tail begins shows with its first event alone.
  const marks = reprise.producer('numbers')
  for (const deadline = Date.now() + 30_000; begun.size < loops.length; ) {
    assert.ok(Date.now() < deadline, `${begun.size} loops have begun`)
    await marks.publish({ type: 'mark', data: 0 })
  }
  await publish(51, 100)
  await until('all have all', () => seen.every((list) => list.at(-1) === 100), 30_000)
  for (const [i, list] of seen.entries()) assert.deepEqual(list, range([1, 51, 1, 11][i % 4]!, 100))
  await untilReaders(server, none + 1)
  stop.abort(new Error('enough'))
  await Promise.all(loops.map((loop) => assert.rejects(loop, /enough/)))
  await untilReaders(server, none)
})

test('shared loops over cut connections and a killed server get each event once', { timeout: 120_000 }, async (t) => {
  const server = await Server.start(t)
  const reprise = server.client()
  await reprise.streams.create('numbers')
  const producer = reprise.producer('numbers')
  const cutter = await Cutter.start(t, server.url, (n) => (n < 30 ? { after: 1000 + n * 300, how: n % 2 ? 'fin' : 'rst' } : undefined))
  const client = server.client({ url: cutter.url, giveUp: 60_000 })
  const loops = range(1, 5).map(() => all(shared(client.streams.follow('numbers'))))
  for (let n = 1; n <= 600; n += 3) {
    await producer.publish([{ data: n }, { data: n + 1 }, { data: n + 2 }])
    if (n === 301) {
      await server.kill()
      await server.start()
    }
  }
  await producer.end()
  for (const events of await Promise.all(loops)) {
    assert.deepEqual(events.map((event) => event.seq), range(1, 601))
    assert.equal(events.at(-1)!.type, 'end')
  }
  assert.ok(cutter.cuts >= 10, `${cutter.cuts} cuts`)
})

test('types, cursors and breaks of a shared loop are its own', { timeout: 60_000 }, async (t) => {
  const { reprise, publish } = await streamServer(t)
  await publish(1, 20)
  const cursors = new MemoryCursor()
  const follow = () => shared(reprise.streams.follow('numbers', { cursors, saveEvery: -1 }))
  const other = shared(reprise.streams.follow('numbers', { types: ['note'] }))[Symbol.asyncIterator]()
  const note = other.next()
  const first: unknown[] = []
  for await (const event of follow()) {
    if (event.seq === 11) break
    first.push(event.data)
  }
  assert.deepEqual(first, range(1, 10))
  await reprise.producer('numbers').publish({ type: 'note', data: 'x' })
  const second: unknown[] = []
  for await (const event of follow()) {
    second.push(event.data)
    if (event.type === 'note') break
  }
  assert.deepEqual(second, [...range(11, 20), 'x'])
  assert.equal((await note).value!.data, 'x')
  const pending = other.next()
  assert.equal((await other.return!()).done, true)
  assert.equal((await pending).done, true)
})

test('a loop that may not read is refused, and one that is too slow misses nothing', { timeout: 60_000 }, async (t) => {
  const { server, reprise, publish } = await streamServer(t)
  await assert.rejects(all(shared(reprise.streams.follow('nobody'))), { code: 'not_found' })
  await assert.rejects(all(shared(server.client({ token: 'wrong' }).streams.follow('numbers'))), { code: 'unauthenticated' })
  assert.throws(() => shared(reprise.run({ argv: ['true'] })), { code: 'invalid' })
  await publish(1, 3)
  const loop = shared(reprise.streams.follow('numbers'))[Symbol.asyncIterator]()
  for (const n of range(1, 3)) assert.equal((await loop.next()).value!.data, n)
  const batch = range(4, 3003)
  for (let at = 0; at < batch.length; at += 500) {
    await reprise.producer('numbers').publish(batch.slice(at, at + 500).map((data) => ({ data })))
  }
  for (const n of batch) assert.equal((await loop.next()).value!.data, n)
  await loop.return!()
})

test('a gap is told to each loop that it concerns, and a stream that has ended ends all', { timeout: 60_000 }, async (t) => {
  const { reprise, publish } = await streamServer(t)
  await reprise.streams.create('short', { retention: { max_events: 10 } })
  const producer = reprise.producer('short')
  for (const data of range(1, 30)) await producer.publish({ data })
  const early = await all(shared(reprise.streams.follow('short', { signal: AbortSignal.timeout(1) }))).catch(() => 'stopped')
  assert.equal(early, 'stopped')
  await assert.rejects(all(shared(reprise.streams.follow('short', { onGap: 'raise' }))), { code: 'cursor_expired' })
  const whole: string[] = []
  const kept: string[] = []
  const loops = ([[whole, undefined], [kept, 'earliest']] as const).map(async ([list, after]) => {
    for await (const event of shared(reprise.streams.follow('short', { ...(after && { after }) }))) {
      list.push(event.type === 'message' ? String(event.data) : event.type)
    }
  })
  // The end takes the place of the first kept event: a loop that has not come to that by then is told of a gap, rightly.
  await until('both have all', () => [whole, kept].every((list) => list.at(-1) === '30'), 30_000)
  await producer.end()
  await Promise.all(loops)
  const messages = range(21, 30).map(String)
  assert.deepEqual(whole, ['gap', ...messages, 'end'])
  assert.deepEqual(kept, [...messages, 'end'])
  const { nextCursor } = await reprise.streams.page('short', { after: 'tail' })
  assert.deepEqual(await all(shared(reprise.streams.follow('short', { after: nextCursor }))), [])
  await publish(1, 1)
})

test('after an error that no retry heals each loop asks for itself', async (t) => {
  const refusal = problem(403, 'forbidden')
  const one = await script(t, (request, response) => {
    const cursor = request.headers['last-event-id']
    if (request.url!.includes('after=tail')) return refusal(request, response)
    stream(cursor ? [end(2)] : [event(1, 'message', { data: 1 }), end(2)])(request, response)
  })
  const events = await all(shared(one.client().streams.follow('s')))
  assert.deepEqual(events.map((event) => event.type), ['message', 'end'])
})
