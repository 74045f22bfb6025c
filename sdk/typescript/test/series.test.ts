// Events that look as the server writes nearly all are not taken apart; what the program gets must be the same.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ProtocolError, Reprise } from 'reprise'
import { cursor, end } from './script.js'

const time = '2026-11-20T09:30:00.000Z'
const utf8 = new TextEncoder()

/** A client of a server that answers with these bytes, in chunks of so many. */
function client(body: string, size: () => number): Reprise {
  const bytes = utf8.encode(body)
  const answer = async () => {
    let at = 0
    const pull = (stream: ReadableStreamDefaultController) => {
      if (at >= bytes.length) return stream.close()
      const next = at + size()
      stream.enqueue(bytes.slice(at, next))
      at = next
    }
    const headers = { 'Content-Type': 'text/event-stream' }
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { headers })
  }
  return new Reprise({ url: 'http://127.0.0.1:1', token: 'secret', fetch: answer as typeof fetch })
}

const block = (seq: number, type: string, member: string) =>
  `event: ${type}\ndata: {"seq":${seq},"time":"${time}",${member}}\nid: ${cursor(seq)}\n\n`

/** Numbers that look random and are the same each time. */
function numbers(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
    return (seed >>> 8) % below
  }
}

const values = [1, null, 'a"b\\', { n: 12, list: [1, { '}': ']' }] }, [], '\u2028🦊', { text: 'no', seq: 3 }, '{"seq":1,']
const texts = ['', 'a', 'line\n', 'a"b', 'a\\', '\t\u0001', '🦊é', '"}', '","text":"', 'id: 7\n\n', '\ud800']

for (let seed = 1; seed <= 12; seed++) {
  test(`events of all forms, taken in any order (${seed})`, async () => {
    const below = numbers(seed)
    const want: { seq: number; type: string; text: string; data: unknown }[] = []
    let body = 'retry: 1\n'
    let [type, isText] = ['note', true]
    const count = 600
    for (let seq = 1; seq <= count; seq++) {
      if (below(30) === 0) [type, isText] = [['note', 'stdout', 'cursor', 'token.long.name'][below(4)]!, below(2) === 0]
      const value = isText ? texts[below(texts.length)]! : values[below(values.length)]
      const json = JSON.stringify(value)
      body += block(seq, type, isText ? `"text":${json}` : `"data":${json}`)
      if (below(50) === 0) body += ':\n'
      want.push({ seq, type, text: isText ? (value as string) : json, data: value })
    }
    body += end(count + 1)
    const most = [60, 500, 5000, 60_000][seed % 4]!
    let at = 0
    for await (const event of client(body, () => 1 + below(most)).streams.follow('x')) {
      if (event.type === 'end') break
      const { seq, type, text, data } = want[at++]!
      assert.deepEqual([event.seq, event.type, event.cursor], [seq, type, cursor(seq)])
      if (below(4) > 0) assert.deepEqual(event.data, data)
      if (below(4) === 0) assert.deepEqual(event.data, data, 'a second time')
      if (below(4) === 0) assert.equal(event.text, text)
      if (below(20) === 0) assert.equal(event.time.toISOString(), time)
      if (below(20) === 0) assert.deepEqual(event.bytes, utf8.encode(text))
      if (below(20) === 0) assert.equal(event.isJSON, event.text !== data || text !== data)
    }
    assert.equal(at, count)
  })
}

test('a value that is no JSON fails where it is asked for, and no other', async () => {
  const damaged = ['"data":{"n":', '"data":1,2', '"data":']
  const members = Array.from({ length: 200 }, (_, i) => (i % 50 === 33 ? damaged[i % 3]! : `"data":{"n":${i + 1}}`))
  const body = members.map((member, i) => block(i + 1, 'note', member)).join('') + end(201)
  let right = 0
  let wrong = 0
  for await (const event of client(body, () => 50_000).streams.follow('x')) {
    if (event.type === 'end') break
    if ((event.seq - 1) % 50 === 33) {
      assert.throws(() => event.data, ProtocolError)
      wrong++
    } else {
      assert.deepEqual(event.data, { n: event.seq })
      right++
    }
  }
  assert.deepEqual([right, wrong], [196, 4])
})

test('what stands behind the value is not part of it', async () => {
  const body = [1, 2, 3, 4].map((n) => block(n, 'note', `"data":${n},"more":[${n}]`)).join('') + end(5)
  for await (const event of client(body, () => 50_000).streams.follow('x')) {
    if (event.type === 'end') break
    assert.equal(event.data, event.seq)
    assert.equal(event.text, String(event.seq))
  }
})

const holes = { 'an id that skips one': [1, 2, 4], 'an id that comes twice': [1, 2, 2, 3], 'one that goes back': [1, 2, 1, 3] }
for (const [name, seqs] of Object.entries(holes)) {
  test(`${name} within a run of likely events`, async () => {
    const body = seqs.map((seq) => block(seq, 'note', `"data":${seq}`)).join('') + end(4)
    const got: number[] = []
    const read = async () => {
      for await (const event of client(body, () => 50_000).streams.follow('x', { giveUp: 0 })) got.push(event.seq)
    }
    if (name === 'an id that skips one') await assert.rejects(read, ProtocolError)
    else await read()
    assert.deepEqual(got, name === 'an id that skips one' ? [1, 2] : [1, 2, 3, 4])
  })
}

test('an id and a seq that differ are refused in a run', async () => {
  const body = block(1, 'note', '"data":1') + block(2, 'note', '"data":2').replace('"seq":2', '"seq":3') + end(3)
  const read = async () => {
    for await (const _ of client(body, () => 50_000).streams.follow('x', { giveUp: 0 }));
  }
  await assert.rejects(read, ProtocolError)
})

test('calls of next that do not wait for each other are answered in turn', async () => {
  const body = Array.from({ length: 50 }, (_, i) => block(i + 1, 'note', `"data":${i + 1}`)).join('') + end(51)
  const events = client(body, () => 3000).streams.follow('x')[Symbol.asyncIterator]()
  const results = await Promise.all(Array.from({ length: 52 }, () => events.next()))
  assert.deepEqual(results.map(({ value }) => value?.seq), [...Array.from({ length: 51 }, (_, i) => i + 1), undefined])
})

test('a loop that is left or aborted gives nothing that was read before', async () => {
  const body = Array.from({ length: 50 }, (_, i) => block(i + 1, 'note', `"data":${i + 1}`)).join('') + end(51)
  const events = client(body, () => 50_000).streams.follow('x')[Symbol.asyncIterator]()
  await events.next()
  const left = events.return!()
  assert.deepEqual(await events.next(), { value: undefined, done: true })
  await left

  const stop = new AbortController()
  const aborted = client(body, () => 50_000).streams.follow('x', { signal: stop.signal })[Symbol.asyncIterator]()
  await aborted.next()
  stop.abort(new Error('enough'))
  await assert.rejects(aborted.next(), /enough/)
})
