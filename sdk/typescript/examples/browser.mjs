// What the tests in Chromium share.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

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

/** Opens a page of a Chromium that ends with the test. */
export async function openPage(t) {
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
  t.after(() => browser.close())
  return browser.newPage()
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
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
  await once(createInterface({ input: child.stdout }), 'line')
  return kill
}
