import { open, readFile, rename } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TokenSource } from './client.js'
import { checked } from './cursors.js'
import { provenFetch } from './proof.js'
import type { CursorStore } from './saver.js'

export { type DownloadFileOptions, downloadFile, uploadFile } from './node-files.js'
export { type ChildServer, type ServerOptions, startServer } from './local.js'

/**
 * Keeps a cursor in a file, as one line of text. A save writes the file name + ".tmp" and renames it, and syncs both the file
 * and its directory, so that the file always has either the old cursor or the new one. Two processes must not use one file at
 * the same time.
 */
export class FileCursor implements CursorStore {
  constructor(private readonly path: string) {}

  async load(): Promise<string | undefined> {
    const text = await readIfThere(this.path)
    // Without the line break it is not whole, and "" is no cursor.
    return text === undefined ? undefined : checked(text.endsWith('\n') ? text.slice(0, -1) : '', this.path)
  }

  async save(cursor: string): Promise<void> {
    const temporary = `${this.path}.tmp`
    const file = await open(temporary, 'w', 0o600)
    try {
      await file.writeFile(`${cursor}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, this.path)
    await syncDirectory(dirname(this.path))
  }
}

/**
 * The token that the server of this machine has written, or undefined. It is sent to loopback only, and over a connection only after
 * the server has proven that it knows the token: another program that listens at the address never gets it. The error of such a
 * request is an {@link UnprovenError}.
 */
export async function localToken(): Promise<TokenSource | undefined> {
  const state = process.env['XDG_STATE_HOME'] || join(homedir(), '.local', 'state')
  const token = (await readIfThere(join(state, 'reprise', 'token')))?.trim()
  return token ? Object.assign(() => token, { fetch: provenFetch(token) }) : undefined
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Makes a rename in a directory durable. Windows cannot sync a directory. */
async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
