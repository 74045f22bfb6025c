// The page and the backends of docs/streams.md, as they stand there, in Chromium: the page is reloaded, the Reprise server is
// killed and started again, and tickets expire while an answer is written. Each word is shown once. Other ports are the only change,
// and tickets of the backend in Node live for two seconds.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { Server } from '../build/test/server.js'
import { freePort, openPage, skip } from './browser.mjs'

const root = join(import.meta.dirname, '..', '..', '..')
const document = readFileSync(join(root, 'docs', 'streams.md'), 'utf8')
const named = /```\w+\n(?:<!--|\/\/|#) ([\w.]+)(?: -->)?\n([^]*?)```/g
const files = Object.fromEntries([...document.matchAll(named)].map(([, name, text]) => [name, text]))

const python = () => execFileSync(join(root, 'scripts', 'sdk-python'), ['env'], { encoding: 'utf8' }).trim()
const backends = { 'backend.mjs': () => process.execPath, 'backend.py': python }

test('every program of docs/streams.md is run', () => {
  assert.deepEqual(Object.keys(files).sort(), [...Object.keys(backends), 'page.html'].sort())
  assert.equal(document.match(/```(js|python|html)\n/g).length, Object.keys(files).length)
})

for (const [name, interpreter] of Object.entries(backends)) {
  test(`a page of ${name} shows each word once`, { skip, timeout: 200_000 }, async (t) => {
    const port = await freePort()
    const origin = `http://127.0.0.1:${port}`
    const server = await Server.start(t, '--allow-origin', origin)
    const folder = mkdtempSync(join(import.meta.dirname, 'node_modules', '.streams-')) // which finds the packages
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    for (const [file, text] of Object.entries(files)) {
      const here = text.replaceAll('8000', String(port)).replace("searchParams.get('stream') }", "searchParams.get('stream'), ttl: '2s' }")
      writeFileSync(join(folder, file), here)
    }
    const state = join(folder, 'state')
    mkdirSync(join(state, 'reprise'), { recursive: true })
    writeFileSync(join(state, 'reprise', 'token'), server.token)
    const env = { ...process.env, REPRISE_URL: server.url, XDG_STATE_HOME: state, PYTHONPATH: join(root, 'sdk', 'python', 'src') }
    const backend = spawn(interpreter(), [name], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => backend.kill('SIGKILL'))
    await once(createInterface({ input: backend.stdout }), 'line')

    const page = await openPage(t)
    const errors = []
    page.on('pageerror', (error) => errors.push(error))
    const shows = (word) => page.waitForFunction((word) => document.querySelector('pre').textContent.includes(word), `word ${word},`)
    await page.goto(origin)
    await page.click('button')
    await shows(10)
    await page.reload()
    await shows(20)
    await server.kill()
    await page.waitForFunction(() => document.querySelector('p').textContent === 'connection lost')
    await server.start()
    await page.waitForFunction(() => document.querySelector('p').textContent === 'completed', undefined, { timeout: 60_000 })
    const words = Array.from({ length: 100 }, (_, i) => `word ${i + 1}, `).join('')
    assert.equal(await page.locator('pre').textContent(), words)
    assert.deepEqual(errors, [])
  })
}
