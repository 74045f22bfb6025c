// What a writer does whose request may have arrived: a producer, and stdin.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryCursor } from 'reprise'
import { type Answer, cursor, problem, script, until } from './script.js'

test('calls of a producer that wait go together, and each is told what is its own', async (t) => {
  const bodies: string[] = []
  const published = (first: number, last: number) => JSON.stringify({ first, last, cursor: cursor(last) })
  const answer = (body: string, status = 200): Answer => (request, response) => {
    let text = ''
    request.on('data', (chunk) => (text += chunk))
    request.on('end', () => {
      bodies.push(`${request.headers['producer-seq']} ${text}`)
      const type = status < 300 ? 'application/json' : 'application/problem+json'
      response.writeHead(status, { 'Content-Type': type }).end(body)
    })
  }
  const invalid = JSON.stringify({ code: 'invalid', title: 'x', retryable: false })
  const large = JSON.stringify({ code: 'payload_too_large', title: 'x', retryable: false })
  const ended = JSON.stringify({ code: 'stream_ended', title: 'x', retryable: false })
  const s = await script(
    t,
    answer(published(1, 1)),
    answer(published(2, 4)),
    ...[answer(invalid, 422), answer(published(5, 5)), answer(invalid, 422), answer(published(6, 6))],
    ...[answer(large, 413), answer(published(7, 7)), answer(published(8, 8))],
    ...[answer(published(9, 9)), answer(published(10, 10)), answer(ended, 409)],
  )
  const producer = s.client().producer('x')
  const first = producer.publish({ data: 1 })
  await until('a request', () => bodies.length > 0)
  const stop = new AbortController()
  const left = producer.publish({ data: 'left' }, { signal: stop.signal })
  const [second, third] = [producer.publish({ data: 2 }), producer.publish([{ data: 3 }, { data: 4 }])]
  stop.abort(new Error('enough'))
  await assert.rejects(left, /enough/)
  const got = await Promise.all([first, second, third])
  assert.deepEqual(got.map(({ first, last, cursor }) => [first, last, cursor]), [
    [1, 1, cursor(1)],
    [2, 2, cursor(2)],
    [3, 4, cursor(4)],
  ])
  const each = await Promise.allSettled([5, 6, 7].map((data) => producer.publish({ data })))
  assert.deepEqual(each.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled'])
  assert.deepEqual(bodies, [
    '0 {"events":[{"data":1}]}',
    '1 {"events":[{"data":2},{"data":3},{"data":4}]}',
    '2 {"events":[{"data":5},{"data":6},{"data":7}]}',
    ...['2 {"events":[{"data":5}]}', '3 {"events":[{"data":6}]}', '3 {"events":[{"data":7}]}'],
  ])
  assert.equal((await Promise.all([8, 9].map((data) => producer.publish({ data }))))[1]!.first, 8) // too much together
  // The end keeps its place among the calls that wait.
  const last = await Promise.allSettled([producer.publish({ data: 10 }), producer.end(), ...[11, 12].map((data) => producer.publish({ data }))])
  assert.deepEqual(last.map(({ status }) => status), ['fulfilled', 'fulfilled', 'rejected', 'rejected'])
  assert.deepEqual(bodies.slice(-3), ['6 {"events":[{"data":10}]}', '7 {"outcome":"completed"}', '8 {"events":[{"data":11},{"data":12}]}'])
})

test('after a publish in doubt, a producer with state sends those events again and no others', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  const kept = (_: unknown, response: import('node:http').ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ first: 1, last: 1, cursor: cursor(1) }))
  const s = await script(t, lost, kept, kept, problem(422, 'invalid'), kept)
  const state = new MemoryCursor()
  let full = true
  const store = { load: () => state.load(), save: (text: string) => (full ? Promise.reject(new Error('full')) : state.save(text)) }
  const producer = s.client({ giveUp: 0 }).producer('x', { id: 'p', state: store })
  await assert.rejects(producer.publish({ data: 1 }), { code: 'connection' })
  await assert.rejects(producer.publish({ data: 2 }), { code: 'invalid', tries: 0 })
  await assert.rejects(producer.publish({ data: 1 }), /full/) // the number is not stored: it is in doubt again
  full = false
  await assert.rejects(producer.publishBytes('2'), { code: 'invalid', tries: 0 })
  await producer.publish({ data: 1 })
  assert.equal(state.load(), '0.1')
  await assert.rejects(producer.publish({ data: 2 }), { code: 'invalid', tries: 1 }) // refused by the server, and not in doubt
  await producer.publish({ data: 3 })
  assert.deepEqual(s.requests.map((request) => request.headers['producer-seq']), ['0', '0', '0', '1', '1'])
})

test('a refusal after a lost answer leaves a publish in doubt', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  const kept = (_: unknown, response: import('node:http').ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ first: 1, last: 1, cursor: cursor(1) }))
  const refused = problem(401, 'unauthenticated')
  const s = await script(t, lost, refused, kept)
  const producer = s.client().producer('x')
  await assert.rejects(producer.publish({ data: 1 }), { code: 'unauthenticated', tries: 2 })
  await producer.publish({ data: 2 })
  assert.deepEqual(s.requests.map((request) => request.headers['producer-epoch']), ['0', '0', '1'])
  const stored = await script(t, lost, refused, refused, kept)
  const other = stored.client().producer('x', { state: new MemoryCursor() })
  for (const _ of [1, 2]) await assert.rejects(other.publish({ data: 1 }), { code: 'unauthenticated' })
  await assert.rejects(other.publish({ data: 2 }), { code: 'invalid', tries: 0 })
  await other.publish({ data: 1 })
})

test('after a write in doubt, the same bytes come first, and a close that failed is tried again', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  const at = (offset: number, open: boolean) => (_: unknown, response: import('node:http').ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ offset, open }))
  const busy = problem(503, 'shutting_down', { retryable: true }) // Deno sends again what is lost on a used connection
  const failed = problem(500, 'internal')
  const s = await script(t, lost, at(4, true), failed, at(60, true), at(6, true), busy, at(6, false))
  const stdin = s.client({ giveUp: 0 }).stdin('x')
  const block = Buffer.from('one') // is used again by the program
  await assert.rejects(stdin.write(block), { code: 'connection' })
  block.set(Buffer.from('two'))
  for (const other of [block, 'on']) await assert.rejects(stdin.write(other), { code: 'invalid', tries: 0 })
  await stdin.write('one,')
  // A server that fails may have taken it; another writer was faster.
  for (const code of ['internal', 'protocol']) {
    await assert.rejects(stdin.write('20'), { code })
    await assert.rejects(stdin.write('21'), { code: 'invalid', tries: 0 })
  }
  await stdin.write('20')
  assert.equal(stdin.offset, 6)
  await assert.rejects(stdin.close(), { code: 'shutting_down' })
  await stdin.close()
  await stdin.close()
  assert.equal(s.requests.length, 7)
})

test('a producer with state tells bytes apart, and knows what the server would refuse at any time', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  const kept = (_: unknown, response: import('node:http').ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ first: 1, last: 1, cursor: cursor(1) }))
  const busy = problem(503, 'shutting_down', { retryable: true }) // Deno sends again what is lost on a used connection
  const s = await script(t, lost, problem(413, 'payload_too_large'), kept, busy, kept)
  const producer = s.client({ giveUp: 0 }).producer('x', { state: new MemoryCursor() })
  const bytes = Buffer.from([0xff])
  const publishing = producer.publishBytes(bytes)
  await assert.rejects(publishing, { code: 'connection' })
  await assert.rejects(producer.publishBytes(Buffer.from([0xfe])), { code: 'invalid', tries: 0 })
  await assert.rejects(producer.publishBytes(new Uint8Array([0xff])), { code: 'payload_too_large' })
  await producer.publishBytes('short') // what is too large was not appended by the first attempt either
  await assert.rejects(producer.publishBytes(bytes), { code: 'shutting_down' })
  await producer.publishBytes(new Uint8Array([0xff]))
})
