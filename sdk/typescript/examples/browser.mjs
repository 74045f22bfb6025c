// What the tests in Chromium share.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createWebServer } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'

export { freePort } from '../build/test/server.js'

function findChromium() {
  try {
    return execFileSync('sh', ['-c', 'command -v chromium || command -v google-chrome'], { encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}
const executablePath = findChromium()

/** Why a test in Chromium is skipped. With CI it is not, and fails. */
export const skip = executablePath || process.env.CI ? false : 'chromium is missing: apt-get install chromium'

/** Starts Chromium, without a window. */
export function launch(...args) {
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', ...args] })
}

/** Opens a page of a Chromium that ends with the test. */
export async function openPage(t) {
  const browser = await launch()
  t.after(() => browser.close())
  return (await browser.newContext()).newPage()
}

/** A page with the client, and shared, in the global reprise, at an origin of its own. */
export async function clientPage(t) {
  const entry = `import * as reprise from 'reprise'; import { shared } from 'reprise/shared'
    globalThis.reprise = { ...reprise, shared }
    globalThis.onmessage = async ({ data }) => globalThis.postMessage(await (0, eval)('(' + data.work + ')')(data.argument))`
  const stdin = { contents: entry, resolveDir: import.meta.dirname }
  const bundle = (await build({ stdin, bundle: true, format: 'iife', write: false })).outputFiles[0].text
  const pages = createWebServer((request, response) => {
    const script = request.url === '/client.js'
    response.writeHead(200, { 'Content-Type': script ? 'text/javascript' : 'text/html' })
    response.end(script ? bundle : '<!doctype html><script src="/client.js"></script>')
  }).listen(0, '127.0.0.1')
  await once(pages, 'listening')
  t.after(() => {
    pages.close()
    pages.closeAllConnections()
  })
  const origin = `http://127.0.0.1:${pages.address().port}`
  const page = await openPage(t)
  await page.goto(origin)
  return { page, origin }
}

/** Starts the server of an example, and returns what kills it. */
export async function startApp(t, name, port, env) {
  const args = [join(import.meta.dirname, name, 'server.mjs'), String(port)]
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  t.after(kill)
  const ended = once(child, 'exit').then(([code]) => Promise.reject(new Error(`the server of ${name} ended with ${code}`)))
  ended.catch(() => {}) // as it does when it is killed
  await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended])
  return kill
}
