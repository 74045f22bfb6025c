// R9.8: the chat of examples/chat in Chromium. The page is reloaded again and again while an answer is written, its connections are
// cut, the Reprise server is killed twice, and the program that writes the answer once in the middle. It writes too slowly to come
// to the end of the answer meanwhile; another one does, which takes over from it when it is killed for the second time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cutter } from '../build/test/cutter.js'
import { Server } from '../build/test/server.js'
import { freePort, openPage, skip, startApp } from './browser.mjs'

const count = 20_000
const reloads = 50

test(`a page that is reloaded ${reloads} times shows each of ${count} pieces once`, { skip, timeout: 290_000 }, async (t) => {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const server = await Server.start(t, '--allow-origin', origin, '--retain-events', '100000')
  // The first connections are cut, until there were enough. What is left of the answer is more than all of these cuts take.
  const cutter = await Cutter.start(t, server.url, () =>
    cutter.cuts < 20 ? { after: 500 + Math.floor(Math.random() * 3000), how: Math.random() < 0.7 ? 'fin' : 'rst' } : undefined,
  )
  const env = { REPRISE_URL: server.url, REPRISE_TOKEN: server.token, PUBLIC_URL: cutter.url, PACE: '6', ORPHAN_AFTER: '1500' }
  let killApp = await startApp(t, 'chat', port, env)

  const page = await openPage(t)
  const errors = []
  page.on('pageerror', (error) => errors.push(error))
  await page.goto(`${origin}/#chat`)
  await page.fill('input', String(count))
  await page.press('input', 'Enter')
  await page.waitForSelector('pre.assistant')
  for (let i = 1; i <= reloads; i++) {
    await page.waitForTimeout(Math.random() * 300)
    if (i === 10 || i === 30) {
      await server.kill()
      await server.start()
    }
    if (i === 20) {
      await killApp()
      killApp = await startApp(t, 'chat', port, env)
    }
    await page.reload()
  }
  await page.waitForSelector('pre.assistant') // the page has been told where the answer is before the program is gone
  const answers = (await server.client().streams.list()).streams.filter((stream) => /^chat\/chat\/./.test(stream.name))
  assert.deepEqual(answers.map((stream) => stream.status), ['open'], 'the answer was written while the page was reloaded')
  await killApp()
  await startApp(t, 'chat', port, { ...env, PACE: '0' })
  const shown = () => page.locator('pre.assistant').allTextContents()
  const last = `${count}\n`
  await page.waitForFunction((end) => document.querySelector('pre.assistant')?.textContent.endsWith(`\n${end}`), last, { timeout: 200_000 })
  await page.waitForFunction(() => document.getElementById('status').textContent.startsWith('ready'))
  assert.deepEqual(await shown(), [Array.from({ length: count }, (_, i) => `${i + 1}\n`).join('')])
  assert.deepEqual(errors, [])
  t.diagnostic(`${cutter.connections} connections, ${cutter.cuts} cut`)
  assert.ok(cutter.cuts >= 20, `${cutter.cuts} cuts`)
})
