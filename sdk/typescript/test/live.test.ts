// Each call against a real server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GapError, MemoryCursor, ProblemError, type Reprise, type Published } from 'reprise'
import { localToken } from 'reprise/node'
import { Cutter } from './cutter.js'
import { all } from './script.js'
import { Server } from './server.js'

let server: Server
let reprise: Reprise
test.before(async () => {
  const hooks: (() => unknown)[] = []
  server = await Server.start({ after: (hook: () => unknown) => hooks.push(hook) } as never, '--retain-events', '1000')
  reprise = server.client()
})
test.after(() => server.close())

test('run gives the output and the outcome', async () => {
  const run = reprise.run({ command: 'echo out; echo err >&2; exit 3' })
  const result = await run.result()
  assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 3])
  assert.equal(result.end.outcome, 'exited')
  const events = await all(run) // attaches to the same execution
  assert.deepEqual(events.map((event) => event.seq), [1, 2, 3, 4])
  const [started] = events
  assert.ok(started?.type === 'started' && started.data.id === run.id && started.data.pid! > 0)
  assert.equal((await reprise.show(run.id)).exit_code, 3)
})

test('the type of a producer limits what it takes', async () => {
  type Piece = { type: 'token'; data: string } | { type: 'usage'; data: { tokens: number } }
  const name = `typed-${Math.random()}`
  await reprise.streams.create(name)
  const producer = reprise.producer<Piece>(name)
  await producer.publish([{ type: 'token', data: 'a' }, { type: 'usage', data: { tokens: 1 } }])
  // @ts-expect-error the data of a token is text
  await producer.publish({ type: 'token', data: 7 })
  // @ts-expect-error there is no such type
  await producer.publish({ type: 'tokens', data: 'b' })
  assert.equal((await reprise.streams.page(name)).events.length, 4)
})

test('the error of a refused request names the member', async () => {
  const wrong = { argv: ['true'], argvv: [] } as never
  await assert.rejects(reprise.start(wrong), { message: /^start execution \w+: invalid: argvv: there is no such member$/ })
})

test('a run that is left is cancelled, unless it was named or detached', async () => {
  const command = 'echo begun; exec sleep 600'
  const leave = async (run: AsyncIterable<{ type: string }>) => {
    for await (const event of run) if (event.type === 'stdout') break
  }
  const left = reprise.run({ command })
  await leave(left)
  const stop = new AbortController()
  const aborted = reprise.run({ command }, { signal: stop.signal, onConnected: () => stop.abort(new Error('enough')) })
  await assert.rejects(aborted.result(), /enough/)
  for (const { id } of [left, aborted]) {
    const end = (await all(reprise.follow(id))).at(-1)!
    assert.equal(end.type === 'end' && end.data.outcome, 'cancelled')
  }
  const kept = [reprise.run({ command }, { detach: true }), reprise.run({ id: `named-${Math.random()}`, command })]
  for (const run of kept) {
    await leave(run)
    assert.equal((await reprise.show(run.id)).status, 'running')
    await reprise.cancel(run.id)
  }
})

test('a run whose first answers are cut runs once', async (t) => {
  const cutter = await Cutter.start(t, server.url, (n) => (n < 40 ? { after: n * 15, how: n % 2 ? 'fin' : 'rst' } : undefined))
  const client = server.client({ url: cutter.url, giveUp: 60_000 })
  for (let i = 0; i < 5; i++) {
    const result = await client.run({ argv: ['sh', '-c', 'echo $$'] }).result()
    const pids = result.stdout.trim().split('\n')
    assert.equal(pids.length, 1)
  }
  const { executions } = await reprise.list({ limit: 1000 })
  assert.equal(executions.filter((execution) => execution.argv?.[2] === 'echo $$').length, 5)
})

test('what has a key is started until it has succeeded', async () => {
  const key = 'nightly ' + Math.random()
  const failing = { key, command: 'exit 1' }
  const ended = (id: string) => all(reprise.follow(id))
  const first = await reprise.start(failing)
  await ended(first.id)
  const second = await reprise.start(failing)
  assert.notEqual(second.id, first.id)
  assert.equal(second.key, key)
  await assert.rejects(reprise.start({ key, command: 'true' }), { code: 'conflict', retryable: false })
  const good = { key: key + ' good', command: 'echo once' }
  const { id } = await reprise.start(good)
  await ended(id)
  assert.equal((await reprise.start(good)).id, id)
  assert.throws(() => reprise.run(good), /start\(\)/)
})

test('start is idempotent, and another request under the same id is a conflict', async () => {
  const first = await reprise.start({ id: 'once', argv: ['true'], labels: { kind: 'once' } })
  const second = await reprise.start({ id: 'once', argv: ['true'], labels: { kind: 'once' } })
  assert.equal(first.created, second.created)
  await assert.rejects(reprise.start({ id: 'once', argv: ['false'] }), { code: 'conflict', retryable: false })
  const { executions } = await reprise.list({ labels: { kind: 'once' } })
  assert.deepEqual(executions.map((execution) => execution.id), ['once'])
  const keyed = await reprise.start({ idempotencyKey: 'k', argv: ['true'] })
  assert.equal((await reprise.start({ idempotencyKey: 'k', argv: ['true'] })).id, keyed.id)
  await reprise.start({ id: 'keyed', idempotencyKey: 'k', argv: ['true'] }) // beside an id the key is a part of the request
  await assert.rejects(reprise.start({ id: 'keyed', idempotencyKey: 'other', argv: ['true'] }), { code: 'conflict' })
  assert.throws(() => reprise.run({ idempotencyKey: 'k', argv: ['true'] }), { name: 'InvalidError' })
})

test('stdin is written by offset, through cuts, each byte once', async (t) => {
  const cutter = await Cutter.start(t, server.url, (n) => (n % 3 < 2 && n < 12 ? { after: n * 20, how: 'rst' } : undefined))
  const client = server.client({ url: cutter.url, giveUp: 60_000 })
  const { id } = await reprise.start({ argv: ['sha1sum'], stdin_open: true })
  const stdin = client.stdin(id)
  const bytes = new Uint8Array(3 << 20).map((_, i) => (i * 31) & 255)
  await Promise.all([stdin.write(bytes), stdin.write('and text')])
  await stdin.close()
  await stdin.close()
  assert.equal(stdin.offset, bytes.length + 8)
  const all = new Uint8Array([...bytes, ...new TextEncoder().encode('and text')])
  const digest = Buffer.from(await crypto.subtle.digest('SHA-1', all)).toString('hex')
  assert.equal((await reprise.run({ id, argv: ['sha1sum'], stdin_open: true }).result()).stdout, `${digest}  -\n`)
  await assert.rejects(stdin.write('more'), { code: 'invalid' })
})

test('signal, cancel and remove', async () => {
  const signaled = await reprise.start({ command: 'sleep 60' })
  for await (const event of reprise.follow(signaled.id)) if (event.type === 'started') break
  await reprise.signal(signaled.id, 'KILL')
  const ends = await all(reprise.follow(signaled.id, { types: ['end'] }))
  assert.ok(ends.length === 1 && ends[0]?.type === 'end' && ends[0].data.signal === 'KILL')
  const { id } = await reprise.start({ command: 'sleep 60', session: 'group' })
  await reprise.cancel(id)
  await reprise.cancel(id)
  const end = (await all(reprise.follow(id))).at(-1)
  assert.ok(end?.type === 'end' && end.data.outcome === 'cancelled')
  assert.equal((await reprise.sessions.show('group')).count, 1)
  assert.ok((await reprise.sessions.list()).sessions.some((session) => session.id === 'group'))
  await reprise.remove(id)
  await assert.rejects(reprise.show(id), { code: 'not_found' })
  await assert.rejects(all(reprise.follow(id)), { code: 'not_found', op: `follow execution ${id}`, tries: 1 })
})

test('replicas and tasks', async () => {
  const { replicas, next_cursor } = await reprise.replicas.list()
  assert.ok(replicas.length === 1 && replicas[0]?.self && replicas[0].answers && replicas[0].executions && next_cursor === '')
  assert.deepEqual((await reprise.replicas.list({ cursor: replicas[0].id, limit: 1 })).replicas, [])
  const made = await fetch(`${server.url}/mcp`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${server.token}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'Mcp-Protocol-Version': '2026-07-28',
      'Mcp-Method': 'tools/call',
      'Mcp-Name': 'execute_code',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'execute_code',
        arguments: { command: 'sleep 600', wait_seconds: 50 },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
        },
      },
    }),
  })
  assert.match(await made.text(), /taskId/)
  const { tasks } = await reprise.tasks.list({ limit: 1 })
  const task = tasks[0]
  assert.ok(task?.tool === 'execute_code' && task.status === 'working' && task.execution && task.ttl_ms === null)
  await reprise.tasks.cancel(task.id)
  while ((await reprise.tasks.show(task.id)).status === 'working') await new Promise((resolve) => setTimeout(resolve, 20))
  const ended = await reprise.tasks.show(task.id)
  assert.ok(ended.status === 'cancelled' && ended.cancel_requested && ended.expires)
  await assert.rejects(reprise.tasks.cancel('A'.repeat(26)), { code: 'not_found' })
})

test('output is exact, as a stream of bytes, through cuts', async (t) => {
  const id = 'bytes'
  await reprise.run({ id, command: 'head -c 300000 /dev/zero; printf "\\377\\376end"' }).result()
  const cutter = await Cutter.start(t, server.url, (n) => (n < 6 ? { after: 20_000 * n, how: n % 2 ? 'fin' : 'rst' } : undefined))
  const client = server.client({ url: cutter.url })
  for (const follow of [false, true]) {
    const bytes = new Uint8Array(await new Response(client.output(id, 'stdout', { follow })).arrayBuffer())
    assert.equal(bytes.length, 300_005)
    assert.deepEqual(bytes.subarray(300_000), Uint8Array.of(0xff, 0xfe, 0x65, 0x6e, 0x64))
  }
  const tail = await new Response(client.output(id, 'stdout', { offset: 300_002 })).text()
  assert.equal(tail, 'end')
  const { id: running } = await reprise.start({ command: 'echo one; sleep 60' })
  const reader = reprise.output(running, 'stdout', { follow: true }).getReader()
  assert.equal(new TextDecoder().decode((await reader.read()).value), 'one\n')
  await reader.cancel()
  await reprise.remove(running)
})

test('streams: create, publish, page, follow, end, remove', async () => {
  const name = 'notes/of the day'.replaceAll(' ', '-')
  const created = await reprise.streams.create(name, { labels: { a: 'b' } })
  assert.equal(created.status, 'open')
  await assert.rejects(reprise.streams.create(name), { code: 'conflict' })
  const producer = reprise.producer(name)
  const published = await producer.publish([{ type: 'note', data: { n: 1 } }, { data: 'two' }])
  assert.deepEqual([published.first, published.last], [1, 2])
  await producer.publishBytes('three', { type: 'note' })
  const page = await reprise.streams.page<{ note: unknown; message: string }>(name, { limit: 2 })
  assert.deepEqual(page.events.map((event) => event.data), [{ n: 1 }, 'two'])
  assert.ok(page.hasMore && !page.ended)
  const rest = await reprise.streams.page(name, { after: page.nextCursor })
  assert.deepEqual(rest.events.map((event) => event.text), ['three'])
  const none = await reprise.streams.page(name, { after: rest.nextCursor, wait: 20 })
  assert.deepEqual(none.events, [])
  await producer.end('failed', { data: 'why' })
  await assert.rejects(producer.publish({ data: 1 }), { code: 'stream_ended' })
  const notes: unknown[] = []
  for await (const event of reprise.streams.follow<{ note: { n: number } | string; message: string }>(name, { types: ['note'] })) {
    if (event.type === 'note') notes.push(event.data)
    else if (event.type === 'end') assert.deepEqual([event.data.outcome, event.data.data], ['failed', 'why'])
  }
  assert.deepEqual(notes, [{ n: 1 }, 'three'])
  assert.equal((await reprise.streams.show(name)).outcome, 'failed')
  assert.ok((await reprise.streams.list()).streams.some((stream) => stream.name === name))
  const changed = await reprise.streams.configure(name, { retention: { max_events: 2 }, labels: { a: null, c: 'd' } })
  assert.deepEqual([changed.labels, changed.events, changed.retention.max_events], [{ c: 'd' }, 2, 2])
  const [kept] = (await reprise.streams.page(name)).events
  assert.equal((await reprise.streams.trim(name, { after: kept!.cursor })).events, 1)
  assert.equal((await reprise.streams.trim(name)).events, 0)
  await reprise.streams.remove(name)
  await assert.rejects(reprise.streams.show(name), { code: 'not_found' })
})

test('large integers are kept by a parse function', async () => {
  await reprise.streams.create('large')
  const body = '{"type":"n","data":{"id":12345678901234567890}}'
  const headers = { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' }
  await fetch(`${server.url}/v1/streams/large/events`, { method: 'POST', headers, body })
  await reprise.producer('large').end()
  const parse = (text: string) => JSON.parse(text.replace(/:(\d{16,})/g, ':"$1"')) as unknown
  const [event] = await all(reprise.streams.follow('large', { parse }))
  assert.deepEqual(event?.data, { id: '12345678901234567890' })
  assert.equal(event?.text, '{"id":12345678901234567890}')
})

test('a publish under a key is made once, also by another program', async (t) => {
  await reprise.streams.create('keyed')
  const cutter = await Cutter.start(t, server.url, (n) => (n < 6 ? { after: 20 + n * 120, how: 'rst' } : undefined))
  const first = await server.client({ url: cutter.url }).streams.publishOnce('keyed', 'order 1', [{ type: 'note', data: 1 }, { data: 2 }])
  const again = await server.client().streams.publishOnce('keyed', 'order 1', [{ type: 'note', data: 1 }, { data: 2 }])
  assert.deepEqual([first.first, first.last, again.first, again.last, again.duplicate], [1, 2, 1, 2, true])
  await assert.rejects(reprise.streams.publishOnce('keyed', 'order 1', { data: 3 }), { code: 'conflict' })
  assert.equal((await reprise.streams.publishOnce('keyed', 'order 2', { data: 3 })).first, 3)
  assert.ok(cutter.cuts > 1)
})

test('a publish whose answer is lost is appended once', async (t) => {
  await reprise.streams.create('lossy')
  const cutter = await Cutter.start(t, server.url, (n) => (n < 40 ? { after: (n * 53) % 700, how: 'rst' } : undefined))
  const producer = server.client({ url: cutter.url, giveUp: 60_000 }).producer('lossy')
  for (let i = 1; i <= 100; i++) {
    const published = await producer.publish({ data: i })
    assert.equal(published.last, i)
  }
  const page = await reprise.streams.page('lossy', { limit: 1000 })
  assert.deepEqual(page.events.map((event) => event.data), Array.from({ length: 100 }, (_, i) => i + 1))
  assert.ok(cutter.cuts > 10)
})

test('calls that wait are published once over connections that are cut, and in the order of the calls', async (t) => {
  await reprise.streams.create('cut-together')
  const cutter = await Cutter.start(t, server.url, (n) => (n < 30 ? { after: (n * 53) % 700, how: 'rst' } : undefined))
  const producer = server.client({ url: cutter.url, giveUp: 60_000 }).producer('cut-together')
  const calls: Promise<Published>[] = []
  let left = 0
  for (let round = 0; round < 40; round++) {
    const stop = new AbortController()
    calls.push(...[0, 1, 2].map((i) => producer.publish({ data: round * 4 + i })))
    const waits = producer.publish({ data: 'left' }, { signal: stop.signal })
    calls.push(producer.publish({ data: round * 4 + 3 }))
    if (round % 2) stop.abort(new Error('enough')) // which leaves the calls beside it
    await waits.catch(() => left++)
    if (round % 5 === 4) await Promise.all(calls)
  }
  const seqs = (await Promise.all(calls)).map(({ first }) => first)
  const { events } = await reprise.streams.page('cut-together', { limit: 1000 })
  assert.deepEqual(events.filter(({ data }) => data !== 'left').map(({ data, seq }) => [data, seq]), seqs.map((seq, n) => [n, seq]))
  assert.equal(left, 20)
  assert.equal(events.length, 160 + 20)
  assert.ok(cutter.cuts > 10)
})

test('a producer that was killed goes on with its number', async () => {
  await reprise.streams.create('restarts')
  const state = new MemoryCursor()
  const first = reprise.producer('restarts', { id: 'p', state })
  await first.publish({ data: 1 })
  const before = state.load()!
  await first.publish({ data: 2 })
  state.save(before) // killed before it could note that 2 was kept
  const second = reprise.producer('restarts', { id: 'p', state })
  assert.equal(await second.kept(), 1)
  const again = await second.publish({ data: 2 })
  assert.deepEqual([again.duplicate, again.first], [true, 2])
  await second.publish({ data: 3 })
  const page = await reprise.streams.page('restarts')
  assert.deepEqual(page.events.map((event) => event.data), [1, 2, 3])
})

test('what is no longer kept is told', async () => {
  await reprise.streams.create('short', { retention: { max_events: 2 } })
  const producer = reprise.producer('short')
  for (let i = 1; i <= 5; i++) await producer.publish({ data: i })
  await producer.end()
  const events = await all(reprise.streams.follow('short'))
  assert.equal(events[0]?.type, 'gap')
  await assert.rejects(all(reprise.streams.follow('short', { onGap: 'raise' })), GapError)
  assert.deepEqual(events.slice(1).map((event) => event.seq), [5, 6])
  const loop = all(reprise.streams.follow('short', { after: events[0]!.cursor.replace(/^\d+/, '1'), onGap: 'raise' }))
  await assert.rejects(loop, (error: GapError) => error.code === 'cursor_expired' && error.gap.missed > 0)
})

test('a ticket reads one stream and nothing else', async () => {
  const { id } = await reprise.start({ command: 'echo hi' })
  const { ticket } = await reprise.tickets.create({ execution: id, ttl: '1m' })
  const stranger = server.client({ token: '' })
  const events = await all(stranger.follow(id, { ticket }))
  assert.deepEqual(events.map((event) => event.type), ['started', 'stdout', 'end'])
  await assert.rejects(stranger.show(id), { code: 'unauthenticated' })
  const other = await reprise.start({ command: 'true' })
  await assert.rejects(all(stranger.follow(other.id, { ticket })), ProblemError)
})

test('after=tail gives what comes from now on', async () => {
  await reprise.streams.create('tail')
  const producer = reprise.producer('tail')
  await producer.publish({ data: 'old' })
  const got: unknown[] = []
  let connected = false
  const loop = (async () => {
    const follow = reprise.streams.follow('tail', { after: 'tail', onConnected: () => (connected = true) })
    for await (const event of follow) if (event.type !== 'end') got.push(event.data)
  })()
  const published: number[] = []
  while (!connected) {
    published.push(published.length)
    await producer.publish({ data: published.at(-1) })
  }
  await producer.end()
  await loop
  assert.ok(got.length > 0)
  assert.deepEqual(got, published.slice(-got.length))
})

test('a server that is not there is tried for giveUp, and the token is that of the file', async () => {
  await assert.rejects(server.client({ url: 'http://127.0.0.1:9', giveUp: 100 }).show('x'), { code: 'connection', retryable: true })
  await assert.rejects(server.client({ token: 'wrong' }).show('x'), { code: 'unauthenticated', retryable: false })
  await assert.rejects(server.client({ token: 'a b' }).show('x'), { code: 'invalid' })
  for (const url of ['ftp://x', 'nonsense', 'http://x/?a=b', 'http://user@x']) {
    assert.throws(() => server.client({ url }), { code: 'invalid' })
  }
  const before = process.env['XDG_STATE_HOME']
  process.env['XDG_STATE_HOME'] = '/nonexistent'
  assert.equal(await localToken(), undefined)
  process.env['XDG_STATE_HOME'] = before
  if (before === undefined) delete process.env['XDG_STATE_HOME']
})
