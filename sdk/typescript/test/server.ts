import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import type { TestContext } from 'node:test'
import { Reprise, type Options } from 'reprise'

/** The program under test: REPRISE_BINARY, or built from this checkout. */
export function binary(): string {
  const given = process.env['REPRISE_BINARY']
  if (given) return given
  const root = join(import.meta.dirname, '..', '..')
  const built = join(root, 'build', 'reprise')
  execFileSync('go', ['build', '-o', built, './cmd/reprise'], { cwd: join(root, '..', '..'), stdio: 'inherit' })
  return built
}

/** A port that nothing listens at, and that no outgoing connection gets while its server is not there. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 11_000 + Math.floor(Math.random() * 21_000) // fetch refuses 10080
    const probe = createServer()
    const free = await new Promise<boolean>((resolve) => {
      probe.once('error', () => resolve(false))
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
    })
    if (free) return port
  }
}

/** A real server with a data directory of its own, which can be killed and started again on its port. */
export class Server {
  readonly directory = mkdtempSync(join(tmpdir(), 'reprise-ts-'))
  url = ''
  token = ''
  private process: ChildProcess | undefined

  /** Starts a server that ends with the test. */
  static async start(t: TestContext, ...flags: string[]): Promise<Server> {
    const server = new Server(flags)
    t.after(() => server.close())
    await server.start()
    return server
  }

  private constructor(private readonly flags: string[]) {}

  /** Starts the server, again at the address that it had. */
  async start(): Promise<void> {
    if (this.url) return this.listen(new URL(this.url).host)
    for (let tries = 1; ; tries++) {
      try {
        return await this.listen(`127.0.0.1:${await freePort()}`)
      } catch (error) {
        if (tries === 3) throw error // twice, another program may have been faster to take the port
      }
    }
  }

  private async listen(listen: string): Promise<void> {
    const args = ['serve', '--listen', listen, '--data', this.directory, '--log-level', 'error', ...this.flags]
    const child = spawn(binary(), args, { stdio: ['ignore', 'pipe', 'inherit'] })
    this.process = child
    process.once('exit', () => child.kill('SIGKILL'))
    const lines = createInterface({ input: child.stdout! })
    const address = new Promise<string>((resolve, reject) => {
      lines.on('line', (line) => {
        const found = /listening on (http\S+)/.exec(line)
        if (found) resolve(found[1]!)
      })
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}`)))
    })
    this.url = (await address).replace(/\/$/, '')
    this.token = readFileSync(join(this.directory, 'token'), 'utf8').trim()
  }

  /** Ends the server as a crash does. */
  async kill(): Promise<void> {
    const child = this.process
    this.process = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await gone
  }

  async close(): Promise<void> {
    await this.kill()
    for (let tries = 1; ; tries++) {
      try {
        return rmSync(this.directory, { recursive: true, force: true })
      } catch (error) {
        if (tries === 20) throw error // before, a supervisor of a command may still write what it knows
        await setTimeout(50)
      }
    }
  }

  /** A client, at another URL if there is something in between. */
  client(options: Options = {}): Reprise {
    return new Reprise({ url: this.url, token: this.token, minWait: 5, maxWait: 200, ...options })
  }
}
