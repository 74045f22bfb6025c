import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Reprise } from './client.js'
import { ConnectionError } from './errors.js'

/** Settings of startServer. */
export interface ServerOptions {
  /** The program. Default: `reprise`, looked up in the PATH. */
  command?: string
  /** Where events are kept: `memory:`, the default, or `sqlite:`, `redis://...` and so on; see `reprise serve --help`. */
  store?: string
  /** The data directory. One that is given is kept; default: a temporary one. */
  data?: string
  /** More flags of `reprise serve`. */
  flags?: string[]
}

/** A server that is a child of this process. */
export interface ChildServer {
  url: string
  token: string
  /** A client of it. */
  reprise: Reprise
  /** Ends it, and is done when it has ended. */
  close(): Promise<void>
}

// Ends the server when the pipe to this process is closed, however the process has ended.
const guard = 'exec 3<&0; "$@" <&- & pid=$!; { cat <&3 >/dev/null; kill "$pid" 2>/dev/null; } & exec 3<&-; wait "$pid"'

/**
 * Starts `reprise serve` on a free port of loopback as a child of this process, which ends with it, and waits until it answers.
 * POSIX systems only.
 */
export async function startServer(options: ServerOptions = {}): Promise<ChildServer> {
  const temporary = options.data === undefined ? await mkdtemp(join(tmpdir(), 'reprise-')) : undefined
  const data = options.data ?? temporary!
  const args = ['serve', '--listen', '127.0.0.1:0', '--data', data, '--store', options.store ?? 'memory:', '--log-level', 'warn']
  const command = ['-c', guard, 'sh', options.command ?? 'reprise', ...args, ...(options.flags ?? [])]
  const child = spawn('sh', command, { stdio: ['pipe', 'pipe', 'inherit'] })
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const close = async () => {
    child.stdin.destroy()
    await exit
    if (temporary) await rm(temporary, { recursive: true, force: true })
  }
  try {
    const url = await new Promise<string>((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const found = /listening on (http\S+)/.exec(line)
        if (found) resolve(found[1]!.replace(/\/+$/, ''))
      })
      child.once('error', reject)
      child.once('exit', (code) => reject(new ConnectionError(`the server ended with ${code}`, { retryable: false })))
    })
    const token = (await readFile(join(data, 'token'), 'utf8')).trim()
    return { url, token, reprise: new Reprise({ url, token }), close }
  } catch (error) {
    await close()
    throw error
  }
}
