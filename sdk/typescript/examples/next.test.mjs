// The handlers from Request to Response: an EventSource that loses its connection gets each event once, and nothing is left open.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { EventSource } from 'eventsource'
import { Cutter } from '../build/test/cutter.js'
import { Server } from '../build/test/server.js'
import { freePort, startApp } from './browser.mjs'

test('a handler streams a job to an EventSource over cuts', { timeout: 90_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const port = await freePort()
  await startApp(t, 'next', port, { REPRISE_URL: server.url, REPRISE_TOKEN: server.token })
  const app = `http://127.0.0.1:${port}`
  const start = () => fetch(`${app}/api/jobs/a`, { method: 'POST', body: JSON.stringify({ steps: 40 }) })
  assert.deepEqual((await (await start()).json()).id, 'job.a')
  assert.equal((await start()).status, 201)
  assert.equal((await fetch(`${app}/api/jobs/nobody`)).status, 404)

  const cutter = await Cutter.start(t, app, (n) => (n < 3 ? { after: 900, how: 'fin' } : undefined))
  const texts = []
  await new Promise((resolve, reject) => {
    const source = new EventSource(`${cutter.url}/api/jobs/a`)
    t.after(() => source.close())
    source.addEventListener('stdout', ({ data }) => texts.push(JSON.parse(data)))
    source.addEventListener('end', ({ data }) => {
      source.close()
      resolve(assert.equal(JSON.parse(data).outcome, 'exited'))
    })
    source.addEventListener('error', ({ code }) => code && reject(new Error(`status ${code}`)))
  })
  assert.equal(texts.join(''), Array.from({ length: 40 }, (_, i) => `step ${i + 1}\n`).join(''))
  assert.equal(cutter.cuts, 3)

  // A client that has gone leaves no reader behind.
  const readers = async () => {
    const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${server.token}` } })
    return Number(/^reprise_readers (\d+)$/m.exec(await response.text())?.[1] ?? 0)
  }
  const none = await readers()
  const untilReaders = async (want) => {
    for (const deadline = Date.now() + 30_000; (await readers()) !== want; ) {
      assert.ok(Date.now() < deadline, `${await readers()} readers, not ${want}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  await server.client().start({ id: 'job.slow', argv: ['sleep', '100'] })
  const stop = new AbortController()
  const response = await fetch(`${app}/api/jobs/slow`, { signal: stop.signal })
  await response.body.getReader().read()
  await untilReaders(none + 1)
  stop.abort()
  await untilReaders(none)
})

test('the CLI script gives output and exit code of its command', { timeout: 60_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const env = { ...process.env, REPRISE_URL: server.url, REPRISE_TOKEN: server.token }
  const script = join(import.meta.dirname, 'cli/run.mjs')
  const done = spawnSync(process.execPath, [script, 'sh', '-c', 'echo out; echo err >&2; exit 3'], { env, encoding: 'utf8' })
  assert.deepEqual([done.stdout, done.stderr, done.status], ['out\n', 'err\n', 3])
})
