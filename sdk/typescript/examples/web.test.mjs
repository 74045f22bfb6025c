// The client in Chromium: in a page and in a worker, with cursors in localStorage and IndexedDB, and the hook for React.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cutter } from '../build/test/cutter.js'
import { Server } from '../build/test/server.js'
import { clientPage, freePort, openPage, skip, startApp } from './browser.mjs'

const randomCut = (most) => ({ after: Math.floor(Math.random() * most), how: Math.random() < 0.5 ? 'fin' : 'rst' })

async function numbers(server, name, count) {
  const reprise = server.client()
  await reprise.streams.create(name)
  const producer = reprise.producer(name)
  for (let i = 0; i < count; i += 1000) await producer.publish(Array.from({ length: 1000 }, (_, k) => ({ data: i + k + 1 })))
  await producer.end()
  return (await reprise.tickets.create({ stream: name })).ticket
}

/** Runs in the page: follows a stream and checks each number. */
async function follow({ url, token, ticket, name }) {
  const { Reprise } = globalThis.reprise
  let seq = 0
  const client = new Reprise({ url, token, minWait: 5, maxWait: 50 })
  for await (const event of client.streams.follow(name, ticket ? { ticket } : {})) {
    if (event.seq !== ++seq || (event.type === 'message' && event.data !== seq)) throw new Error(`${event.seq} at ${seq}`)
  }
  return seq
}

test('20,000 events over 30 cuts in Chromium, with a token, with a ticket, and in a worker', { skip, timeout: 90_000 }, async (t) => {
  const { page, origin } = await clientPage(t)
  const server = await Server.start(t, '--allow-origin', origin, '--retain-events', '100000')
  const ticket = await numbers(server, 'numbers', 20_000)
  let left = 30
  // The browser asks for compressed events, of which there are few bytes.
  const cutter = await Cutter.start(t, server.url, () => (left-- > 0 ? randomCut(8_000) : undefined))
  const withToken = { url: cutter.url, token: server.token, name: 'numbers' }
  assert.equal(await page.evaluate(follow, withToken), 20_001)
  assert.equal(await page.evaluate(follow, { url: cutter.url, ticket, name: 'numbers' }), 20_001)
  const inWorker = ([work, argument]) =>
    new Promise((resolve, reject) => {
      const worker = new Worker('/client.js')
      worker.onmessage = ({ data }) => resolve(data)
      worker.onerror = (event) => reject(new Error(event.message))
      worker.postMessage({ work, argument })
    })
  assert.equal(await page.evaluate(inWorker, [String(follow), withToken]), 20_001)
  assert.ok(cutter.cuts > 20, `${cutter.cuts} cuts`)
})

test('a cursor in IndexedDB or localStorage is there after a reload', { skip, timeout: 60_000 }, async (t) => {
  const { page, origin } = await clientPage(t)
  const server = await Server.start(t, '--allow-origin', origin)
  await numbers(server, 'numbers', 1000)
  /** Runs in the page: reads until 100 events are handled, or to the end. */
  const part = async ({ url, token, kind }) => {
    const { Reprise, IndexedDBCursor, LocalStorageCursor } = globalThis.reprise
    const cursors = kind === 'IndexedDB' ? new IndexedDBCursor('key') : new LocalStorageCursor('key')
    const got = []
    for await (const event of new Reprise({ url, token }).streams.follow('numbers', { cursors })) {
      if (got.length === 100) break
      got.push(event.seq)
    }
    return got
  }
  for (const kind of ['IndexedDB', 'localStorage']) {
    const seqs = []
    while (seqs.at(-1) !== 1001) {
      seqs.push(...(await page.evaluate(part, { url: server.url, token: server.token, kind })))
      await page.reload()
    }
    assert.deepEqual(seqs, Array.from({ length: 1001 }, (_, i) => i + 1))
  }
})

test('the example page shows a run, through cuts, and leaves nothing open when it is left', { skip, timeout: 60_000 }, async (t) => {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const server = await Server.start(t, '--allow-origin', origin)
  const cutter = await Cutter.start(t, server.url, (n) => (n < 10 ? randomCut(5000) : undefined))
  await startApp(t, 'page', port, { REPRISE_URL: server.url, REPRISE_TOKEN: server.token, PUBLIC_URL: cutter.url })
  const page = await openPage(t)
  await page.goto(origin)
  await page.waitForFunction(() => document.getElementById('status')?.textContent === 'ended')
  const lines = Array.from({ length: 100 }, (_, i) => `line ${i + 1}\n`).join('')
  assert.equal(await page.locator('pre').textContent(), `${lines}[exited 0]\n`)
  assert.ok(cutter.cuts > 0)
})
