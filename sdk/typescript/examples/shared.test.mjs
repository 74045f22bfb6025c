// Pages of one origin that share a connection, in Chromium: more of them than the browser has connections, which are closed one
// after the other while events come.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cutter } from '../build/test/cutter.js'
import { Server } from '../build/test/server.js'
import { clientPage, skip } from './browser.mjs'

const pages = 9
const total = 900

/** Runs in a page: follows by two loops and collects the numbers of their events, and what is wrong. */
const follow = ({ url, token }) => {
  const { Reprise, shared } = globalThis.reprise
  const client = new Reprise({ url, token, minWait: 5, maxWait: 100 })
  globalThis.loops = [0, 1].map(() => ({ last: 0, wrong: '', ended: false }))
  for (const loop of globalThis.loops) {
    void (async () => {
      for await (const event of shared(client.streams.follow('numbers'))) {
        if (event.seq !== loop.last + 1) loop.wrong ||= `${event.seq} after ${loop.last}`
        if (event.type === 'message' && event.data !== event.seq) loop.wrong ||= `${event.data} at ${event.seq}`
        loop.last = event.seq
        if (event.type === 'end') loop.ended = true
      }
    })().catch((error) => (loop.wrong ||= String(error)))
  }
}

async function readers(server) {
  const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${server.token}` } })
  return Number(/^reprise_readers (\d+)$/m.exec(await response.text())?.[1] ?? 0)
}

async function until(what, condition, ms = 60_000) {
  for (const deadline = Date.now() + ms; !(await condition()); ) {
    if (Date.now() > deadline) throw new Error(`not met within ${ms} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

test('nine pages share one connection, and the next one leads when the first is closed', { skip, timeout: 150_000 }, async (t) => {
  const { page, origin } = await clientPage(t)
  const server = await Server.start(t, '--allow-origin', origin, '--store', 'memory:')
  const none = await readers(server)
  const reprise = server.client()
  await reprise.streams.create('numbers')
  const producer = reprise.producer('numbers')
  let n = 0
  const publish = async (count) => {
    for (const last = n + count; n < last; ) await producer.publish({ data: ++n })
  }
  let cuts = 40
  const cut = () => (cuts-- > 0 ? { after: Math.floor(Math.random() * 60_000), how: cuts % 2 ? 'fin' : 'rst' } : undefined)
  const cutter = await Cutter.start(t, server.url, cut)
  await publish(100)
  const open = [page]
  while (open.length < pages) {
    const next = await page.context().newPage()
    await next.goto(origin)
    open.push(next)
  }
  for (const one of open) await one.evaluate(follow, { url: cutter.url, token: server.token })
  const states = () => Promise.all(open.map((one) => one.evaluate(() => globalThis.loops)))
  const all = async (right) => (await states()).flat().every(right)
  await until('all are at 100', () => all(({ last }) => last === 100))
  await until('one connection for all', async () => (await readers(server)) === none + 1)

  // The pages that lead are closed, one after the other; the last ones get everything.
  for (const left of [6, 4, 3, 2]) {
    const publishing = publish((total - 100) / 4)
    while (open.length > left) await open.shift().close()
    await publishing
    await until(`all are at ${n}`, () => all(({ last }) => last === n))
    assert.deepEqual((await states()).flat().map(({ wrong }) => wrong), open.flatMap(() => ['', '']))
  }
  await until('one connection for the rest', async () => (await readers(server)) === none + 1)
  await producer.end()
  await until('all have seen the end', () => all(({ ended }) => ended))
  assert.deepEqual((await states()).flat(), open.flatMap(() => [1, 2].map(() => ({ last: total + 1, wrong: '', ended: true }))))
  await until('nothing is left', async () => (await readers(server)) === none)
})
