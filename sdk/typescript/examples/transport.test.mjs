// RepriseChatTransport in the AI SDK's Chat, over HTTP to an application that is away, refuses, or loses its answers.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Chat } from '@ai-sdk/react'
import { ChatStreams, RepriseChatTransport } from 'reprise/ai'
import { Cutter } from '../build/test/cutter.js'
import { until } from '../build/test/script.js'
import { freePort, Server } from '../build/test/server.js'

const pieces = (count, from = 1) => Array.from({ length: count - from + 1 }, (_, i) => `${from + i} `)
const started = [{ type: 'start', messageId: 'answer' }, { type: 'text-start', id: 't' }]
const ended = [{ type: 'text-end', id: 't' }, { type: 'finish' }]
const deltas = (texts) => texts.map((delta) => ({ type: 'text-delta', id: 't', delta }))
const whole = (count) => [...started, ...deltas(pieces(count)), ...ended]

/** An application with chats, as examples/chat has them. refuse may answer in its place. */
async function application(t, reprise, { make = () => ReadableStream.from(whole(20)), refuse = () => false, port = 0 } = {}) {
  const chats = new ChatStreams({ reprise })
  const app = { made: 0, asked: 0, chats }
  const handle = async (request, response) => {
    app.asked++
    if (refuse(response, app.asked)) return
    const parts = []
    for await (const part of request) parts.push(part)
    const key = request.headers['idempotency-key']
    const answer =
      request.method === 'POST'
        ? await chats.start(JSON.parse(Buffer.concat(parts)).id, () => (app.made++, make()), { key })
        : await chats.resume(decodeURIComponent(request.url.split('/')[3]))
    if (!answer) return response.writeHead(204).end()
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
  }
  const http = createServer((request, response) => {
    handle(request, response).catch((error) => response.headersSent || response.writeHead(500).end(error.message))
  }).listen(port, '127.0.0.1')
  await once(http, 'listening')
  t.after(() => {
    http.close()
    http.closeAllConnections()
  })
  app.url = `http://127.0.0.1:${http.address().port}`
  return app
}

/** A chat with an application; failures counts the requests to it that failed. */
function chatWith(url, options = {}) {
  const counts = { failures: 0 }
  const counting = (...request) => fetch(...request).catch((error) => (counts.failures++, Promise.reject(error)))
  const transport = new RepriseChatTransport({ api: `${url}/api/chat`, fetch: counting, ...options })
  const chat = new Chat({ id: crypto.randomUUID(), transport })
  const text = () => chat.messages.filter(({ role }) => role === 'assistant').map(({ parts }) => parts.map((part) => part.text).join(''))
  return { chat, counts, text }
}

async function readers(server) {
  const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${server.token}` } })
  return Number(/^reprise_readers (\d+)$/m.exec(await response.text())?.[1] ?? 0)
}

async function untilReaders(server, want) {
  for (const deadline = Date.now() + 60_000; (await readers(server)) !== want; ) {
    if (Date.now() > deadline) throw new Error(`there are not ${want} readers`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

test('an answer is written once wherever the first request or its answer is cut', { timeout: 120_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  await readers(server) // the first fetch of a Node process waits forever if its connection ends at once
  const app = await application(t, server.client())
  let n = 0
  for (const after of [0, 1, 50, 150, 200, 300]) {
    const cutter = await Cutter.start(t, app.url, (n) => (n < 2 ? { after, how: n ? 'fin' : 'rst' } : undefined))
    const { chat, text } = chatWith(cutter.url)
    await chat.sendMessage({ text: 'hello' })
    assert.deepEqual([chat.status, chat.error, text()], ['ready', undefined, [pieces(20).join('')]], `after ${after} bytes`)
    assert.equal(app.made, ++n, `after ${after} bytes`)
    assert.equal(cutter.cuts, 2)
  }
})

test('a request waits for an application that is away', { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const port = await freePort()
  const { chat, counts, text } = chatWith(`http://127.0.0.1:${port}`)
  const sent = chat.sendMessage({ text: 'hello' })
  await until('a failure', () => counts.failures >= 2)
  const app = await application(t, server.client(), { port })
  await sent
  assert.deepEqual([chat.status, text(), app.made], ['ready', [pieces(20).join('')], 1])
})

test('what is refused is an error at once, and an overloaded application is asked again', { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const reprise = server.client()
  const wrong = await application(t, reprise, { refuse: (response) => response.writeHead(500).end('no model today') })
  const refused = chatWith(wrong.url)
  await refused.chat.sendMessage({ text: 'hello' })
  assert.deepEqual([refused.chat.status, wrong.asked, wrong.made], ['error', 1, 0])
  assert.match(refused.chat.error.message, /no model today/)

  const busy = (response, asked) => asked < 3 && response.writeHead(503, { 'Retry-After': '0' }).end()
  const later = await application(t, reprise, { refuse: busy })
  const patient = chatWith(later.url)
  await patient.chat.sendMessage({ text: 'hello' })
  assert.deepEqual([patient.chat.status, patient.text(), later.asked], ['ready', [pieces(20).join('')], 3])

  const away = chatWith(`http://127.0.0.1:${await freePort()}`, { giveUp: 0 })
  await away.chat.sendMessage({ text: 'hello' })
  assert.deepEqual([away.chat.status, away.counts.failures, away.chat.error.code], ['error', 1, 'connection'])

  const failing = await application(t, reprise, { make: () => Promise.reject(new Error('out of order')) })
  const failed = chatWith(failing.url)
  await failed.chat.sendMessage({ text: 'hello' })
  assert.deepEqual([failed.chat.status, failing.made], ['error', 1])
  const streams = (await reprise.streams.list()).streams.filter(({ name }) => name.startsWith(`chat/${failed.chat.id}/`))
  assert.deepEqual(streams.map(({ status, outcome }) => [status, outcome]), [['ended', 'failed']])
})

test('a chat without an answer, or whose answer was removed, has nothing to resume', { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const reprise = server.client()
  const app = await application(t, reprise)
  const { chat } = chatWith(app.url)
  await chat.resumeStream()
  assert.deepEqual([chat.status, chat.error, chat.messages, app.asked], ['ready', undefined, [], 1])
  await chat.sendMessage({ text: 'hello' })
  const names = (await reprise.streams.list()).streams.map(({ name }) => name)
  await reprise.streams.remove(names.find((name) => name.startsWith(`chat/${chat.id}/`)))
  const { messages } = chat
  await chat.resumeStream()
  assert.deepEqual([chat.status, chat.error, chat.messages], ['ready', undefined, messages])
})

test('a chat that is stopped leaves no reader, and can be resumed', { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  let release
  const gate = new Promise((resolve) => (release = resolve))
  async function* slowly() {
    yield* [...started, ...deltas(pieces(10))]
    await gate
    yield* [...deltas(pieces(20, 11)), ...ended]
  }
  const app = await application(t, server.client(), { make: () => ReadableStream.from(slowly()) })
  const none = await readers(server)
  const { chat, text } = chatWith(app.url)
  const sent = chat.sendMessage({ text: 'hello' })
  await until('ten pieces', () => text()[0] === pieces(10).join(''))
  await untilReaders(server, none + 1)
  await chat.stop()
  await sent
  assert.deepEqual([chat.status, chat.error, text()], ['ready', undefined, [pieces(10).join('')]])
  await untilReaders(server, none)
  release()
  await chat.resumeStream()
  assert.deepEqual([chat.status, text(), app.made], ['ready', [pieces(20).join('')], 1])
})

test('a chat that is stopped while it waits for the application asks no more', { timeout: 60_000 }, async (t) => {
  const { chat, counts, text } = chatWith(`http://127.0.0.1:${await freePort()}`)
  for (const begin of [() => chat.sendMessage({ text: 'hello' }), () => chat.resumeStream()]) {
    counts.failures = 0
    const sent = begin()
    await until('a failure', () => counts.failures >= 1)
    await chat.stop()
    await sent
    assert.deepEqual([chat.status, chat.error, text()], ['ready', undefined, []])
  }
  t.diagnostic(`${counts.failures} failures`)
})

test('requests with one key get one answer, and other keys others', { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const { chats } = await application(t, server.client())
  let made = 0
  const make = () => (made++, ReadableStream.from(whole(5)))
  const answers = await Promise.all([1, 2, 3, 4].map(() => chats.start('c', make, { key: 'one' })))
  assert.deepEqual([made, new Set(answers.map(({ stream }) => stream)).size], [1, 1])
  assert.notEqual((await chats.start('c', make, { key: 'two' })).stream, answers[0].stream)
  assert.equal((await chats.start('c', make, { key: 'one' })).stream, answers[0].stream)
  assert.match((await chats.resume('c')).stream, /two$/, 'a repeated request does not make an old answer the newest')
  assert.equal(made, 2)
  for (const key of ['', 'a/b', '..', 'x'.repeat(65)]) await assert.rejects(chats.start('c', make, { key }), { code: 'invalid' })
  assert.equal(made, 2)
})

test('the transport has the types of the AI SDK', { timeout: 60_000 }, async () => {
  const tsc = join(import.meta.dirname, '..', 'node_modules', '.bin', 'tsc')
  const flags = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023', '--types', '']
  await promisify(execFile)(tsc, [...flags, join(import.meta.dirname, 'transport.mts')]).catch((error) => assert.fail(error.stdout))
})
