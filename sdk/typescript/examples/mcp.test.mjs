// R8.11: servers on the official TypeScript SDK, 1.x and 2.x, whose connections are cut and which are killed in mid-call.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Decoder, Reprise } from 'reprise'
import { EventStores } from 'reprise/mcp'
import { storeTests } from 'reprise/mcp/storetest'
import { startServer } from 'reprise/node'
import { Server, freePort } from '../build/test/server.js'

/** Starts an MCP server on a port, 0 for any. */
async function startMCP(t, version, port, reprise, ...adopt) {
  const args = [join(import.meta.dirname, 'mcp', 'server.mjs'), version, String(port), reprise.url, reprise.token, ...adopt]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  t.after(stop)
  const ended = once(child, 'exit').then(([code]) => Promise.reject(new Error(`the MCP server ended with ${code}`)))
  ended.catch(() => {}) // as it does when it is killed
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended])
  const found = Number(line.split(' ').at(-1))
  return { port: found, url: `http://127.0.0.1:${found}/mcp`, stop }
}

const accept = 'application/json, text/event-stream'

async function post(url, session, message) {
  const headers = { 'Content-Type': 'application/json', Accept: accept, 'MCP-Protocol-Version': '2025-11-25' }
  if (session) headers['Mcp-Session-Id'] = session
  return fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) })
}

function resume(url, session, lastEventId) {
  const headers = { Accept: 'text/event-stream', 'MCP-Protocol-Version': '2025-11-25', 'Mcp-Session-Id': session, 'Last-Event-ID': lastEventId }
  return fetch(url, { headers })
}

async function initialize(url) {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  const response = await post(url, undefined, { id: 0, method: 'initialize', params })
  assert.equal(response.status, 200)
  const session = response.headers.get('mcp-session-id')
  await response.text()
  await (await post(url, session, { method: 'notifications/initialized' })).text()
  return session
}

/** Reads messages until enough says so, then drops the connection. The priming event has an id and no message. */
async function read(response, got, enough) {
  assert.equal(response.status, 200)
  const decoder = new Decoder()
  const reader = response.body.getReader()
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      decoder.push(value)
      for (let frame; (frame = decoder.next()); ) {
        if (frame.id !== undefined) got.last = frame.id
        if (!frame.data) continue
        const message = JSON.parse(frame.data)
        if (Object.keys(message).length > 0) got.messages.push(message)
        if (enough(message)) return
      }
    }
  } catch (error) {
    got.error = error
  } finally {
    await reader.cancel().catch(() => {})
  }
}

const progress = (got) => got.messages.filter((message) => message.method).map((message) => message.params.progress)
const counted = (to) => Array.from({ length: to }, (_, i) => i + 1)
const call = { id: 1, method: 'tools/call', params: { name: 'count', arguments: {}, _meta: { progressToken: 'p' } } }

for (const version of ['1', '2']) {
  test(`SDK ${version}.x: a call whose connection is dropped again and again is got whole, by its own session alone`, async (t) => {
    const reprise = await Server.start(t)
    const mcp = await startMCP(t, version, 0, reprise)
    const session = await initialize(mcp.url)
    const stranger = await initialize(mcp.url)
    const got = { messages: [], last: '' }
    await read(await post(mcp.url, session, call), got, (message) => message.params?.progress === 5)
    assert.match(got.last, /^\d+\.\w+\.\w+:[\w-]+:1$/)
    for (const at of [5, 12, 30]) await read(await resume(mcp.url, session, got.last), got, (message) => message.params?.progress === at + 3)
    await read(await resume(mcp.url, session, got.last), got, (message) => message.id === 1)
    assert.deepEqual(progress(got), counted(50))
    assert.equal(got.messages.at(-1).result.content[0].text, 'counted')
    for (const [who, id] of [[stranger, got.last], [session, 'nonsense'], [session, `${got.last.replace(/^\d+/, '999')}`]]) {
      const refused = await resume(mcp.url, who, id)
      assert.equal(refused.status, 400, `${who} ${id}`)
      await refused.text()
    }
  })

  test(`SDK ${version}.x: check-mcp has no failure`, async (t) => {
    const mcp = await startMCP(t, version, 0, await Server.start(t))
    const only = 'unknown|foreign|no session|terminated|takeover|GET|resume a|drop again' // what depends on the store
    const args = ['check-mcp', '--protocol', '2025-11-25', '--only', only, mcp.url]
    const { stdout } = await promisify(execFile)(process.env.REPRISE_BINARY, args, { timeout: 100_000 })
    assert.match(stdout, /1\d passed, 0 failed/)
  })

  test(`SDK ${version}.x: a call of a killed server is answered with server_lost by the next one`, async (t) => {
    const reprise = await Server.start(t)
    const first = await startMCP(t, version, await freePort(), reprise)
    const session = await initialize(first.url)
    const got = { messages: [], last: '' }
    await read(await post(first.url, session, call), got, (message) => message.params?.progress === 3)
    await first.stop()
    const second = await startMCP(t, version, first.port, reprise)
    const from = got.last
    await read(await resume(second.url, session, from), got, () => false)
    assert.deepEqual(progress(got), counted(progress(got).length))
    assert.equal(got.messages.at(-1).id, 1)
    assert.deepEqual(got.messages.at(-1).error.data, { code: 'server_lost' })
    const refused = [[session, from.replace(/.:/, '!:'), 404], ['x', from, 404]]
    for (const [who, id, status] of refused) assert.equal((await resume(second.url, who, id)).status, status, id)
    assert.equal((await post(second.url, session, call)).status, 404, 'the client begins a new session')
  })

  test(`SDK ${version}.x: another process follows the call of one that lives`, async (t) => {
    const reprise = await Server.start(t)
    const first = await startMCP(t, version, 0, reprise)
    process.env.LOST_AFTER = '20000'
    t.after(() => delete process.env.LOST_AFTER)
    const second = await startMCP(t, version, 0, reprise)
    const session = await initialize(first.url)
    const got = { messages: [], last: '' }
    await read(await post(first.url, session, call), got, (message) => message.params?.progress === 3)
    await read(await resume(second.url, session, got.last), got, () => false)
    assert.deepEqual(progress(got), counted(50))
    assert.equal(got.messages.at(-1).result.content[0].text, 'counted')
  })

  test(`SDK ${version}.x: a server that is killed in mid-call; what it has said is got from the next one`, async (t) => {
    const reprise = await Server.start(t)
    const first = await startMCP(t, version, await freePort(), reprise)
    const session = await initialize(first.url)
    const got = { messages: [], last: '' }
    await read(await post(first.url, session, call), got, (message) => message.params?.progress === 3)
    const [stream] = (await reprise.client().streams.list()).streams
    const stored = async () => (await reprise.client().streams.page(stream.name, { limit: 1000 })).events
    while ((await stored()).filter((event) => event.data.method).length < 20);
    await first.stop()
    const said = (await stored()).filter((event) => event.data.method).map((event) => event.data.params.progress)
    const second = await startMCP(t, version, first.port, reprise, 'adopt')
    await read(await resume(second.url, session, got.last), got, () => false)
    assert.deepEqual(progress(got), said)
    assert.deepEqual(got.messages.at(-1).error.data, { code: 'server_lost' })
    assert.deepEqual(said, counted(said.length))
    const again = { messages: [], last: got.last }
    await read(await post(second.url, session, { ...call, id: 2 }), again, (message) => message.id === 2)
    assert.deepEqual(progress(again), counted(50), 'the session goes on')
  })
}

test('the store does what any store has to', async (t) => {
  const reprise = (await Server.start(t)).client()
  const tests = storeTests({ open: () => new EventStores(reprise).session('kit'), durable: true })
  assert.ok(Object.keys(tests).length >= 8)
  for (const [name, run] of Object.entries(tests)) await t.test(name, run)
})

test('a message that is too large is sent, and a resume from before it is refused', async (t) => {
  const reprise = (await Server.start(t)).client()
  const store = new EventStores(reprise).session('a b/c')
  const before = await store.storeEvent('s1', { jsonrpc: '2.0', id: 1 })
  const large = await store.storeEvent('s1', { jsonrpc: '2.0', id: 2, result: 'x'.repeat(2 << 20) })
  const after = await store.storeEvent('s1', { jsonrpc: '2.0', id: 3 })
  const other = await store.storeEvent('s2', { jsonrpc: '2.0', id: 4 })
  const replay = async (from) => {
    const got = []
    const stream = await store.replayEventsAfter(from, { send: async (id, message) => void got.push([id, message.id]) })
    return [stream, ...got]
  }
  assert.deepEqual(await replay(large), ['s1', [after, 3]])
  assert.deepEqual(await replay(other), ['s2'])
  await assert.rejects(replay(before), /too large/)
  assert.equal(await store.getStreamIdForEventId(before), 's1')
  assert.equal(await store.getStreamIdForEventId('nonsense'), undefined)
})

test('stores are bounded and swept, and messages at the same time keep their order', async (t) => {
  const reprise = (await Server.start(t)).client()
  const stores = new EventStores(reprise, { retention: { max_events: 100 }, maxSilence: 100 })
  const store = stores.session('s')
  const ids = await Promise.all(counted(300).map((id) => store.storeEvent('stream', { jsonrpc: '2.0', id })))
  const page = await reprise.streams.page('mcp/s', { limit: 1000 })
  assert.deepEqual(page.events.map((event) => event.data.id), counted(300).slice(200))
  assert.equal(await store.getStreamIdForEventId(ids[0]), undefined, 'before what is kept')
  assert.equal(await store.getStreamIdForEventId(ids[250]), 'stream')
  assert.equal(await new EventStores(reprise, { maxSilence: 60_000 }).sweep(), 0)
  await new Promise((resolve) => setTimeout(resolve, 150))
  await reprise.streams.create('somebody-else')
  assert.equal(await stores.sweep(), 1)
  assert.equal(await stores.has('s'), false)
  assert.equal((await reprise.streams.show('somebody-else')).status, 'open')
  await store.end()
  assert.equal(await stores.has('never'), false)
})

test('a server that is a child keeps what it has in sqlite, and ends with its parent', async () => {
  const data = mkdtempSync(join(tmpdir(), 'reprise-peers-'))
  const options = { command: process.env.REPRISE_BINARY, store: 'sqlite:', data }
  const first = await startServer(options)
  const id = await new EventStores(first.reprise).session('s').storeEvent('a', { jsonrpc: '2.0', id: 1 })
  await first.close()
  const script = `import { startServer } from 'reprise/node'
    console.log((await startServer(${JSON.stringify(options)})).url)`
  const parent = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] })
  const [url] = await once(createInterface({ input: parent.stdout }), 'line')
  const reprise = new Reprise({ url, token: first.token, giveUp: 0 })
  assert.equal(await new EventStores(reprise).session('s').getStreamIdForEventId(id), 'a')
  parent.kill('SIGKILL')
  for (const deadline = Date.now() + 60_000; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const answer = await reprise.streams.list().catch((error) => error)
    if (answer.code === 'connection') break
    assert.ok(Date.now() < deadline, 'the server outlives its parent')
  }
  await assert.rejects(startServer({ command: '/nonexistent/reprise' }), { code: 'connection' })
})
