// What a reader does about each kind of answer; see docs/protocol.md, "What a client has to do".
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { parseRetryAfter } from '#esm/call.js'
import { ForeignSpell } from '#esm/foreign.js'
import { Failures } from '#esm/wait.js'
import { Admin } from 'reprise/admin'
import { ForeignError, GapError, MemoryCursor, ProblemError, ProtocolError, Reprise, RepriseError } from 'reprise'
import { type Answer, all, cursor, end, epoch, event, foreign, gap, otherEpoch, problem, script, stream, until } from './script.js'

const seqs = async (events: AsyncIterable<{ seq: number }>) => (await all(events)).map((event) => event.seq)

test('resumes after the last event, also through connections that bring nothing', async (t) => {
  const nothing = stream([])
  const s = await script(t, stream([event(1), event(2)]), nothing, nothing, stream([event(3), end(4)]))
  assert.deepEqual(await seqs(s.client().follow('x')), [1, 2, 3, 4])
  const asked = s.requests.map((request) => request.headers['last-event-id'])
  assert.deepEqual(asked, [undefined, cursor(2), cursor(2), cursor(2)])
  assert.ok(s.requests.every((request) => request.url === '/v1/executions/x/events?gap=event'))
  assert.ok(s.requests.every((request) => request.headers.authorization === 'Bearer secret'))
})

test('an event that comes twice is given once', async (t) => {
  const s = await script(t, stream([event(1), event(1), event(2)]), stream([event(2), event(1), end(3)]))
  assert.deepEqual(await seqs(s.client().follow('x')), [1, 2, 3])
})

test('a hole that no gap explains is an error, after three tries', async (t) => {
  const s = await script(t, stream([event(1), event(3)]), stream([event(3)]))
  const got: number[] = []
  await assert.rejects(
    async () => {
      for await (const event of s.client().follow('x')) got.push(event.seq)
    },
    (error: RepriseError) => error instanceof ProtocolError && error.code === 'protocol' && error.op === 'follow execution x',
  )
  assert.deepEqual(got, [1])
  assert.equal(s.requests.length, 3)
})

test('one damaged answer is tried again', async (t) => {
  const s = await script(t, stream([event(1), 'id: x\ndata: {"seq":2\n\n']), stream([event(2), end(3)]))
  assert.deepEqual(await seqs(s.client().follow('x')), [1, 2, 3])
})

test('a server that was never reached is an error, after ten seconds', async (t) => {
  const lose: Answer = (_, response) => void response.destroy()
  const s = await script(t, lose)
  let late = 0
  const { now } = performance
  t.mock.method(performance, 'now', () => now.call(performance) + late)
  const client = s.client()
  const drops: number[] = []
  await assert.rejects(all(client.follow('x', { onDrop: ({ tries }) => drops.push(tries) && (late += 4000) })), (error: RepriseError) => {
    return error.code === 'connection' && error.tries === 4 && error.message.includes(`${s.url} was not reached in 4 attempts and 12 s`)
  })
  assert.deepEqual(drops, [1, 2, 3])
  const lost = await script(t, stream([event(1)]), ...Array.from({ length: 6 }, () => lose), stream([end(2)]))
  const got = all(lost.client().follow('x', { onDrop: () => (late += 4000) }))
  assert.deepEqual((await got).map(({ seq }) => seq), [1, 2]) // once it was met, the loop goes on
})

test('204 is the end for a reader that has had it', async (t) => {
  const over: Answer = (_, response) => response.writeHead(204, { 'Stream-Outcome': 'exited' }).end()
  const foreign: Answer = (_, response) => response.writeHead(204).end()
  const s = await script(t, stream([event(1)]), over)
  assert.deepEqual(await seqs(s.client().follow('x')), [1])
  const proxy = await script(t, stream([event(1)]), ...Array.from({ length: 5 }, () => foreign), stream([event(2)]), over)
  assert.deepEqual(await seqs(proxy.client().follow('x')), [1, 2])
  const wrong = await script(t, foreign)
  await assert.rejects(all(wrong.client().follow('x', { giveUp: 50 })), { code: 'foreign', status: 204 })
})

test('a response that ends is not the end, and a loop makes no request after its end', async (t) => {
  const s = await script(t, stream([event(1)]), stream([end(2), event(3)]))
  assert.deepEqual(await seqs(s.client().follow('x')), [1, 2])
  assert.equal(s.requests.length, 2)
})

test('a new epoch without a gap goes on as within one', async (t) => {
  const s = await script(t, stream([event(1), event(2)]), stream([event(3, 'stdout', { text: 'x' }, otherEpoch), end(4, otherEpoch)]))
  assert.deepEqual(await seqs(s.client().follow('x')), [1, 2, 3, 4])
  const headers = { 'Stream-Tail': cursor(2, otherEpoch) }
  const back = await script(t, stream([event(1), event(2)]), stream([event(2, 'stdout', { text: 'x' }, otherEpoch)], { headers }))
  await assert.rejects(all(back.client().follow('x')), ProtocolError)
})

test('after a gap with a fork the stream goes on at the fork plus one', async (t) => {
  const notice = { code: 'epoch_changed', earliest: cursor(0, otherEpoch), tail: cursor(9, otherEpoch), fork: cursor(2, otherEpoch) }
  const s = await script(
    t,
    stream([event(1), event(2), event(3), event(4)]),
    stream([
      gap(cursor(2, otherEpoch), { ...notice, missed: 0, taken_back: 2 }),
      event(3, 'stdout', { text: 'again' }, otherEpoch),
      end(4, otherEpoch),
    ]),
  )
  const got = await all(s.client().follow('x'))
  assert.deepEqual(got.map((event) => event.seq), [1, 2, 3, 4, 0, 3, 4])
  assert.ok(got[4]?.type === 'gap' && got[4].data.taken_back === 2)
  // Its cursor is of the first kept event, and everything up to the fork was received.
  const early = await script(t, stream([gap(cursor(0, otherEpoch), { ...notice, missed: 0, taken_back: 2 })]), stream([end(3, otherEpoch)]))
  const rest = await all(early.client().follow('x', { after: cursor(4) }))
  assert.deepEqual(rest.map(({ seq, cursor }) => [seq, cursor]), [[0, cursor(2, otherEpoch)], [3, cursor(3, otherEpoch)]])
  assert.equal(early.requests[1]!.headers['last-event-id'], cursor(2, otherEpoch))
})

test('a gap is raised if the program wants that, and says what is missing', async (t) => {
  const notice = { earliest: cursor(5), tail: cursor(9), detail: 'gone' }
  const s = await script(t, problem(410, 'cursor_expired', notice))
  const cursors = new MemoryCursor()
  cursors.save(cursor(2))
  const failing = all(s.client().follow('x', { cursors, onGap: 'raise' }))
  await assert.rejects(failing, (error: GapError) => error instanceof GapError && error.gap.missed === 3 && !error.retryable)
  assert.equal(s.requests.length, 1)
  assert.equal(s.requests[0]!.url, '/v1/executions/x/events')
  assert.equal(cursors.load(), cursor(2))

  const fork = { ...notice, fork: cursor(3, otherEpoch) }
  const changed = await script(t, problem(410, 'epoch_changed', fork))
  await assert.rejects(
    all(changed.client().follow('x', { after: cursor(7), onGap: 'raise' })),
    (error: GapError) => error.code === 'epoch_changed' && error.gap.missed === 2 && error.gap.taken_back === 4,
  )
})

test('a missing start is a gap', async (t) => {
  const s = await script(t, stream([event(4), end(5)]))
  const got = await all(s.client().follow('x'))
  assert.deepEqual(got.map((event) => event.seq), [0, 4, 5])
  assert.ok(got[0]?.type === 'gap' && got[0].data.missed === 3 && got[0].cursor === cursor(3))
  await assert.rejects(all(s.client().follow('x', { onGap: 'raise' })), GapError)
  assert.deepEqual(await seqs(s.client().follow('x', { after: 'earliest' })), [4, 5])
})

test('a missing start of a filtered reader shows in the head of the answer', async (t) => {
  const s = await script(t, stream([event(9, 'end', { outcome: 'exited' })], { headers: { 'Stream-Earliest': cursor(3) } }))
  const got = await all(s.client().follow('x', { types: ['stdout'] }))
  assert.deepEqual(got.map((event) => event.type), ['gap', 'end'])
  assert.ok(got[0]?.type === 'gap' && got[0].data.missed === 3)
})

test('a filtered reader resumes after what was left out', async (t) => {
  const s = await script(t, stream([event(2), `id: ${cursor(8)}\n\n`]), stream([end(12)]))
  assert.deepEqual(await seqs(s.client().follow('x', { types: ['stdout'], after: 'earliest' })), [2, 12])
  assert.equal(s.requests[1]!.headers['last-event-id'], cursor(8))
  assert.match(s.requests[0]!.url!, /types=stdout%2Cend/)
  const whole = await script(t, stream([event(1), `id: ${cursor(8)}\n\nid: 7\n\n`]), stream([event(2), end(3)]))
  assert.deepEqual(await seqs(whole.client().follow('x')), [1, 2, 3]) // the server sends it no bare ids
})

test('a problem that is not retryable ends the loop at once', async (t) => {
  const s = await script(t, problem(404, 'not_found', { detail: 'nothing' }))
  await assert.rejects(
    all(s.client().follow('x')),
    (error: ProblemError) => error.code === 'not_found' && error.status === 404 && !error.retryable && error.tries === 1,
  )
  assert.equal(s.requests.length, 1)
})

test('a retryable problem is tried again, after Retry-After', async (t) => {
  const busy = problem(503, 'store_unavailable', { retryable: true }, { 'Retry-After': '1' })
  const s = await script(t, busy, stream([end(1)]))
  const waits: number[] = []
  assert.deepEqual(await seqs(s.client().follow('x', { onDrop: (drop) => waits.push(drop.wait) })), [1])
  assert.ok(waits.length === 1 && waits[0]! >= 1000 && waits[0]! < 1010, String(waits))
})

test('Retry-After is seconds or a date, and may come twice', () => {
  assert.deepEqual(['5', '5, 5', '0'].map(parseRetryAfter), [5000, 5000, 0])
  const date = parseRetryAfter(new Date(Date.now() + 100_000).toUTCString())!
  assert.ok(date > 90_000 && date <= 100_000, String(date))
})

test('a reconnect is immediate after something has come, then waits for retry at least', async (t) => {
  const nothing = stream([])
  const s = await script(t, stream([event(1)]), nothing, nothing, stream([end(2)]))
  const waits: number[] = []
  const client = s.client({ minWait: 10, maxWait: 20 })
  await all(client.follow('x', { onDrop: (drop) => waits.push(drop.wait) }))
  assert.equal(waits[0], 0)
  assert.ok(waits[1]! >= 1 && waits[1]! <= 11 && waits[2]! >= 1 && waits[2]! <= 21, String(waits))
})

test('retry is waited for, also by the connections that follow', async (t) => {
  const s = await script(t, stream(['retry: 50\n']), foreign(503), stream([end(1)]))
  const waits: number[] = []
  await all(s.client().follow('x', { onDrop: (drop) => waits.push(drop.wait) }))
  assert.ok(waits.length === 2 && waits.every((wait) => wait >= 50 && wait <= 55), String(waits))
})

test('waits are random parts of a span that doubles up to a limit', (t) => {
  const random = t.mock.method(Math, 'random', () => 0.5)
  t.after(() => random.mock.restore()) // Deno does not do it
  const failures = new Failures(10, 35)
  assert.deepEqual([0, 0, 0, 100].map((asked) => failures.next(asked)), [5, 10, 17.5, 117.5])
  failures.succeeded()
  assert.deepEqual([failures.next(100), failures.next(0)], [0, 5])
})

test('a comment at the beginning of a connection is no success', async (t) => {
  const comment = stream([':\n'])
  const s = await script(t, comment, comment, comment, stream([end(1)]))
  const tries: number[] = []
  await all(s.client().follow('x', { onDrop: (drop) => tries.push(drop.tries) }))
  assert.deepEqual(tries, [1, 2, 3])
})

test('an answer that is not ours is terminal before the server was met, and tried again after', async (t) => {
  const before = await script(t, foreign(404))
  await assert.rejects(all(before.client().follow('x')), (error: ForeignError) => error.code === 'foreign' && error.status === 404)
  assert.equal(before.requests.length, 1)
  const after = await script(t, stream([event(1)]), foreign(404), foreign(200), foreign(403), stream([end(2)]))
  assert.deepEqual(await seqs(after.client().follow('x')), [1, 2])
  const passing = await script(t, foreign(502), foreign(503), stream([end(1)]))
  assert.deepEqual(await seqs(passing.client().follow('x')), [1])
})

test('a header that was cut in its status or content type is a lost connection', async (t) => {
  const cut = (type?: string) => foreign(200, { 'Content-Type': type ?? '' })
  const bare: Answer = (_, response) => response.writeHead(200).end()
  const types = ['t', 'text', 'text/event-strea'].map(cut)
  const s = await script(t, bare, ...types, cut(), bare, stream([event(1)]), cut('text/'), stream([end(2)]))
  const waits: number[] = []
  assert.deepEqual(await seqs(s.client().follow('x', { onDrop: ({ met }) => waits.push(Number(met)) })), [1, 2])
  assert.deepEqual(waits, [0, 0, 0, 0, 0, 0, 1, 1])
  const whole = await script(t, foreign(404, { 'Content-Type': 'application/json' }))
  await assert.rejects(all(whole.client().follow('x')), { code: 'foreign' })
  assert.equal(whole.requests.length, 1)
  // What Chromium makes of a redirect and of "HTTP/1.1 20" cannot come from Node.
  const moved = s.client({ fetch: async () => ({ status: 0, type: 'opaqueredirect', headers: new Headers(), body: null }) as Response })
  await assert.rejects(all(moved.follow('x')), { code: 'foreign', tries: 3 })
  const client = s.client({ fetch: async () => ({ status: 20, headers: new Headers(), body: null }) as Response })
  for (let giveUp = 300, tries = 0; tries <= 3; giveUp *= 2) {
    assert.ok(giveUp < 60_000, `${tries} tries`)
    await assert.rejects(all(client.follow('x', { giveUp })), (error: ForeignError) => {
      tries = error.tries
      return error.code === 'foreign'
    })
  }
})

test('an answer that is not ours is tried again for 60 s', (t) => {
  let now = 0
  const clock = t.mock.method(performance, 'now', () => now)
  t.after(() => clock.mock.restore()) // Deno does not do it
  const spell = new ForeignSpell()
  const error = new ForeignError(404, '')
  assert.ok(!spell.allows(error, false, undefined, 0))
  assert.ok(spell.allows(error, true, undefined, 0))
  now = 59_000
  assert.ok(spell.allows(error, true, undefined, 1000))
  assert.ok(!spell.allows(error, true, undefined, 1001))
  assert.ok(!spell.allows(error, true, 10_000, 0))
  assert.ok(!spell.allows(new Error(), true, undefined, 0))
  assert.ok(spell.allows(error, true, undefined, 1001), 'another spell')
})

test('no redirect is followed, and the token goes nowhere else', async (t) => {
  const other = await script(t, stream([end(1)]))
  const s = await script(t, foreign(302, { Location: `${other.url}/v1/executions/x/events` }))
  await assert.rejects(all(s.client().follow('x')), ForeignError)
  await assert.rejects(s.client().show('x'), ForeignError)
  assert.equal(other.requests.length, 0)
})

/** Returns a function that ends the watch and returns the longest time in milliseconds in which this process ran no timer. */
function watchStalls(): () => number {
  let longest = 0
  let last = performance.now()
  const look = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(look, 10)
  return () => {
    clearInterval(timer)
    look()
    return longest
  }
}

/**
 * Runs a body whose server has to answer in time. When the machine had no time for this process, for longer than a number
 * of milliseconds, the server was late itself: then the body gets another one, and three times as much of it.
 */
async function inTime(bound: number, body: (unit: number) => Promise<void>): Promise<void> {
  for (let unit = 1; ; unit *= 3) {
    const stalls = watchStalls()
    let failure: unknown
    await body(unit).catch((error: unknown) => (failure = error))
    const late = stalls() > bound * unit
    if (failure === undefined) return
    if (!late) throw failure
  }
}

test('a silent connection is given up, one with heartbeats is not', { timeout: 290_000 }, async (t) => {
  await inTime(500, async (unit) => {
    const beating = stream([event(1)], { open: true })
    const s = await script(
      t,
      (request, response) => {
        beating(request, response)
        let beats = 0
        const timer = setInterval(() => (beats++ < 10 ? response.write(':\n') : clearInterval(timer)), 150 * unit)
      },
      stream([end(2)]),
    )
    const drops: { code: string; lasted: number }[] = []
    const start = performance.now()
    const onDrop = (drop: { error: unknown }) =>
      drops.push({ code: (drop.error as RepriseError).code, lasted: performance.now() - start })
    assert.deepEqual(await seqs(s.client().follow('x', { idleTimeout: 1000 * unit, onDrop })), [1, 2])
    assert.deepEqual(drops.map((drop) => drop.code), ['timeout'])
    assert.ok(drops[0]!.lasted >= 2000 * unit, `given up after ${drops[0]!.lasted} ms`)
  })
})

test('an answer that is held back, and a coding that is not decoded, are named', { timeout: 290_000 }, async (t) => {
  const header = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'
  const answers: Answer[] = [
    (_, response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders(),
    (_, response) => response.socket!.end(`${header}Content-Encoding: compress\r\n\r\n`),
    (_, response) => response.socket!.end(Buffer.concat([Buffer.from(`${header}\r\n`), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])])),
  ]
  await inTime(250, async (unit) => {
    const s = await script(t, ...answers, stream([end(1)]))
    const told: string[] = []
    const onDrop = (drop: { error: unknown }) => void told.push((drop.error as Error).message)
    assert.deepEqual(await seqs(s.client().follow('x', { idleTimeout: 500 * unit, onDrop })), [1])
    const named = [/a proxy may hold the answer back/, /compressed \(compress\)/, /compressed \(zstd\)/]
    assert.deepEqual(told.map((text, i) => named[i]!.test(text)), [true, true, true], told.join('\n'))
  })
})

test('behind a proxy that holds answers back the loop polls, until heartbeats come as they are sent', { timeout: 290_000 }, async (t) => {
  await inTime(250, async (unit) => {
    const head: Answer = (_, response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    const beating: Answer = (_, response) => {
      stream([':\n'], { open: true })(_, response)
      setTimeout(() => response.end(), 400 * unit)
    }
    const s = await script(t, head, head, stream([event(1)]), beating, stream([event(2)]), stream([end(3)]))
    const lines: string[] = []
    let [drops, connected] = [0, 0]
    const options = { idleTimeout: 900 * unit, onDrop: () => void drops++, onConnected: () => void connected++ }
    assert.deepEqual(await seqs(s.client({ log: (line) => lines.push(line) }).follow('x', options)), [1, 2, 3])
    const waits = s.requests.map(({ url }) => new URL(url!, s.url).searchParams.get('wait') ?? '')
    assert.deepEqual(waits, ['', '', `${300 * unit}ms`, `${300 * unit}ms`, '', ''])
    assert.deepEqual([drops, connected], [3, 3], 'the polls are one connection')
    assert.equal(lines.filter((line) => line.includes(': polling at ')).length, 2)
  })
})

test('a start whose answer is held back has happened: its events are polled', { timeout: 290_000 }, async (t) => {
  const head: Answer = (_, response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
  await inTime(150, async (unit) => {
    const s = await script(t, head, head, stream([end(1)]))
    assert.deepEqual(await seqs(s.client().run({ argv: ['true'] }, { idleTimeout: 300 * unit })), [1])
    assert.deepEqual(s.requests.map(({ method }) => method), ['POST', 'POST', 'GET'])
  })
})

test('the debug log has the states of a loop, causes and no token', async (t) => {
  const lose: Answer = (_, response) => void response.destroy()
  const s = await script(t, lose, stream([event(1)], { headers: { 'Stream-Tail': cursor(1) } }), stream([end(2)]))
  const lines: string[] = []
  await seqs(s.client({ log: (line) => lines.push(line) }).follow('x'))
  const states = lines.flatMap((line) => /: (connecting|live|caught up|waiting|ended)/.exec(line)?.[1] ?? [])
  const want = ['connecting', 'waiting', 'connecting', 'live', 'caught up', 'waiting', 'connecting', 'live', 'ended']
  assert.deepEqual(states, want, lines.join('\n'))
  const text = lines.join('\n')
  assert.ok(text.includes(`GET ${s.url}/v1/executions/x/events: status 200`) && !text.includes('secret'), text)
})

test('the error of a lost request names the URL', async () => {
  const reprise = new Reprise({ url: 'http://127.0.0.1:9', token: '', giveUp: 0 })
  await assert.rejects(reprise.show('x'), /^ConnectionError: show execution x: http:\/\/127.0.0.1:9: /)
})

test('a server that never answers is given up', async (t) => {
  const s = await script(t, () => {}, stream([end(1)]))
  assert.deepEqual(await seqs(s.client().follow('x', { idleTimeout: 1000 })), [1])
})

test('giveUp bounds a failure, and 0 allows no second try', async (t) => {
  const s = await script(t, problem(503, 'store_unavailable', { retryable: true }))
  await assert.rejects(all(s.client().follow('x', { giveUp: 0 })), ProblemError)
  assert.equal(s.requests.length, 1)
  for (let giveUp = 500; s.requests.length < 3; giveUp *= 2) {
    await assert.rejects(all(s.client().follow('x', { giveUp })), ProblemError)
  }
})

test('an aborted loop ends with the reason, wherever it waits', async (t) => {
  const reason = new Error('enough')
  // The platform keeps the connection of a whole answer for a while, unless the server closes it.
  const away = problem(503, 'x', { retryable: true }, { 'Retry-After': '60', Connection: 'close' })
  for (const answer of [() => {}, stream([event(1)], { open: true }), away]) {
    const s = await script(t, answer)
    const controller = new AbortController()
    const loop = all(s.client().follow('x', { signal: controller.signal }))
    await until('a request', () => s.requests.length === 1)
    setTimeout(() => controller.abort(reason), 20)
    await assert.rejects(loop, (error) => error === reason)
    await until('the connection is closed', () => s.open() === 0)
  }
  const s = await script(t, stream([end(1)]))
  await assert.rejects(all(s.client().follow('x', { signal: AbortSignal.abort(reason) })), (error) => error === reason)
  assert.equal(s.requests.length, 0)
})

test('a loop that is left leaves nothing behind', async (t) => {
  const s = await script(t, stream([event(1), event(2)], { open: true }))
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = timers()
  for await (const event of s.client().follow('x')) if (event.seq === 2) break
  await until('the connection is closed', () => s.open() === 0)
  await until('no timer', () => timers() <= before)
  const over = await script(t, stream([end(1)], { open: true }))
  await all(over.client().follow('x'))
  await until('the connection of a stream that has ended is closed', () => over.open() === 0)
  const { signal } = new AbortController()
  for await (const event of s.client().follow('x', { signal })) if (event.seq === 2) break
  const ended = await script(t, stream([event(1)]), problem(503, 'x', { retryable: true }), stream([end(2)]))
  await all(ended.client().follow('x', { signal }))
  assert.equal(getEventListeners(signal, 'abort').length, 0)

  const iterator = s.client().follow('x')[Symbol.asyncIterator]()
  await iterator.next()
  await iterator.next()
  const waiting = iterator.next()
  await iterator.return!()
  assert.deepEqual(await waiting, { value: undefined, done: true })
  assert.deepEqual(await iterator.next(), { value: undefined, done: true })
  await until('the connection is closed', () => s.open() === 0)
})

test('a run that is left is cancelled by one request, unless it was named or detached', async (t) => {
  for (const [id, detach, requests] of [[undefined, false, 2], ['x', false, 1], [undefined, true, 1]] as const) {
    const s = await script(t, stream([event(1)], { open: true }), (_, response) => response.writeHead(204).end())
    for await (const _ of s.client().run({ argv: ['true'], ...(id && { id }) }, { detach })) break
    assert.deepEqual(s.requests.slice(1).map(({ url }) => url!.endsWith('/cancel')), requests === 2 ? [true] : [])
  }
})

test('what was asked for at the same time comes in order', async (t) => {
  const s = await script(t, stream([event(1)]), stream([event(2), end(3)]))
  const iterator = s.client().follow('x')[Symbol.asyncIterator]()
  const results = await Promise.all([iterator.next(), iterator.next(), iterator.next(), iterator.next()])
  assert.deepEqual(results.map((result) => result.value?.seq), [1, 2, 3, undefined])
})

test('a cursor is saved when its event was handled, and not when the loop was left with it', async (t) => {
  const s = await script(t, stream([event(1), event(2), event(3)], { open: true }))
  const saved: string[] = []
  const cursors = { load: () => undefined, save: (cursor: string) => void saved.push(cursor) }
  for await (const event of s.client().follow('x', { cursors, saveEvery: -1 })) if (event.seq === 3) break
  assert.deepEqual(saved, [cursor(1), cursor(2)])
  saved.length = 0
  for await (const event of s.client().follow('x', { cursors, saveEvery: 60_000 })) if (event.seq === 3) break
  assert.deepEqual(saved, [cursor(1), cursor(2)], 'the first at once, the rest when the loop ends')
})

test('a cursor is saved before the wait for another connection', async (t) => {
  const cursors = new MemoryCursor()
  let saved: string | undefined
  const next = stream([end(3)])
  const s = await script(t, stream([event(1), event(2)]), (request, response) => {
    saved = cursors.load()
    next(request, response)
  })
  await all(s.client().follow('x', { cursors, saveEvery: 60_000 }))
  assert.equal(saved, cursor(2))
})

test('a cursor is saved while the loop waits', async (t) => {
  const s = await script(t, stream([event(1), event(2)], { open: true }))
  const cursors = new MemoryCursor()
  const controller = new AbortController()
  const loop = all(s.client().follow('x', { cursors, saveEvery: 20, signal: controller.signal }))
  await until('the cursor is saved', () => cursors.load() === cursor(2))
  controller.abort(new Error('enough'))
  await assert.rejects(loop)
})

test('a store that fails ends the loop, and what it holds wins over after', async (t) => {
  const s = await script(t, stream([event(6), end(7)]))
  const failing = { load: () => cursor(5), save: () => Promise.reject(new Error('full')) }
  await assert.rejects(all(s.client().follow('x', { cursors: failing })), (error: RepriseError) => error.code === 'cursor_store')
  assert.equal(s.requests[0]!.headers['last-event-id'], cursor(5))
  const cursors = new MemoryCursor()
  cursors.save(cursor(5))
  assert.deepEqual(await seqs(s.client().follow('x', { cursors, after: cursor(1) })), [6, 7])
  assert.equal(cursors.load(), cursor(7))
})

test('after=tail asks once where the tail is', async (t) => {
  const page = { events: [], next_cursor: cursor(5), has_more: false, ended: false, window: {} }
  const answer = (_: unknown, response: import('node:http').ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(page))
  const s = await script(t, answer, stream([]), stream([event(6), end(7)]))
  assert.deepEqual(await seqs(s.client().follow('x', { after: 'tail' })), [6, 7])
  assert.deepEqual(s.requests.slice(1).map((request) => request.headers['last-event-id']), [cursor(5), cursor(5)])
})

test('a store that fails at the cursor of the tail ends the loop, and nothing is left unhandled', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  const page = { events: [], next_cursor: cursor(5), has_more: false, ended: false, window: {} }
  const s = await script(
    t,
    (_, response) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(page)),
    stream([event(6), end(7)]),
  )
  const cursors = { load: () => '', save: () => Promise.reject(new Error('full')) }
  await assert.rejects(all(s.client().follow('x', { cursors, after: 'tail' })), { code: 'cursor_store' })
  assert.equal(s.requests.length, 1)
  await new Promise((resolve) => setTimeout(resolve, 20))
  assert.deepEqual(unhandled, [])
})

test('a ticket goes in the URL in place of the token, and is renewed once when it is refused', async (t) => {
  const refused = problem(401, 'unauthenticated')
  const s = await script(t, stream([event(1)]), refused, stream([event(2)]), refused, refused)
  let tickets = 0
  const failing = all(s.client().follow('x', { ticket: () => `t${++tickets}` }))
  await assert.rejects(failing, (error: ProblemError) => error.code === 'unauthenticated')
  const asked = s.requests.map((request) => new URL(request.url!, s.url).searchParams)
  assert.deepEqual(asked.map((query) => query.get('ticket')), ['t1', 't1', 't2', 't2', 't3'])
  assert.deepEqual(asked.map((query) => query.get('after')), [null, cursor(1), cursor(1), cursor(2), cursor(2)])
  assert.ok(s.requests.every((request) => request.headers.authorization === undefined))
})

test('names that would not arrive are not sent', async (t) => {
  const s = await script(t, stream([end(1)]))
  for (const name of ['', '.', '..']) await assert.rejects(all(s.client().follow(name)), { code: 'invalid' })
  await assert.rejects(all(s.client().follow('x', { after: 'a b' })), { code: 'cursor_malformed' })
  assert.equal(s.requests.length, 0)
  await all(s.client().streams.follow('a/b c'))
  assert.match(s.requests[0]!.url!, /^\/v1\/streams\/a%2Fb%20c\/events/)
  assert.equal(epoch.length, 16)
})

test('a signal that may have arrived is not sent again, other calls are', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  const s = await script(t, lost)
  await assert.rejects(s.client().signal('x', 'INT'), { code: 'connection' })
  assert.equal(s.requests.length, 1)
  const busy = problem(503, 'shutting_down', { retryable: true }) // some of it may have been done
  const limited = problem(429, 'rate_limited', { retryable: true })
  const again = await script(t, busy, lost, (_, response) => response.writeHead(204).end())
  await again.client().cancel('x')
  assert.equal(again.requests.length, 3)
  const refused = await script(t, limited, (_, response) => response.writeHead(204).end(), busy)
  await refused.client().signal('x', 'INT')
  assert.equal(refused.requests.length, 2)
  await assert.rejects(refused.client().signal('x', 'INT'), { code: 'shutting_down', tries: 1 })
})

test('a file is not moved again, nor a directory made, by a request that may have arrived', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  const made = (_: unknown, response: import('node:http').ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
  for (const [call, requests] of [
    [(client: Reprise) => client.files.move('work/a', 'work/b'), 1],
    [(client: Reprise) => client.files.makeDirectory('work/a'), 1],
    [(client: Reprise) => client.files.makeDirectory('work/a', { parents: true }), 2],
    [(client: Reprise) => client.files.setMode('work/a', '0600'), 2],
  ] as const) {
    const s = await script(t, lost, made)
    await Promise.allSettled([call(s.client())])
    assert.equal(s.requests.length, requests)
  }
})

test('what an earlier attempt has removed is removed', async (t) => {
  const lost = (_: unknown, response: import('node:http').ServerResponse) => void response.destroy()
  for (const part of ['webhooks', 'schedules'] as const) {
    const s = await script(t, lost, problem(404, 'not_found'))
    await new Admin(s.client())[part].remove('x')
    assert.equal(s.requests.length, 2)
    await assert.rejects(new Admin(s.client())[part].remove('x'), { code: 'not_found', tries: 1 })
  }
})

test('events that something in front of the server adds are not given', async (t) => {
  const added = 'event: ping\ndata: {"from":"a proxy"}\n\nevent: end\ndata: not JSON\n\ndata\n\ndata: {"seq":"1"}\n\n'
  const s = await script(t, stream([added, event(1), added, end(2)]))
  assert.deepEqual(await seqs(s.client().follow('x')), [1, 2])
  const often = await script(t, ...Array.from({ length: 8 }, () => stream([added])), stream([added, event(1)]), stream([added, end(2)]))
  assert.deepEqual(await seqs(often.client().follow('x')), [1, 2])
  const hole = await script(t, stream([event(1), added, end(3)]))
  await assert.rejects(all(hole.client().follow('x')), ProtocolError)
  const damaged = await script(t, stream(['data: {"seq":1,"time":"2026-11-20T09:30:00.000Z","text":"a"}\n\n']))
  await assert.rejects(all(damaged.client().follow('x')), ProtocolError)
})
