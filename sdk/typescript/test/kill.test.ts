// R9.4: a program that is killed goes on where it was.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { LocalStorageCursor } from 'reprise'
import { FileCursor } from 'reprise/node'
import { cursor } from './script.js'
import { Server } from './server.js'

test('a reader that is killed again and again loses nothing, and is given at most the last event twice', async (t) => {
  const server = await Server.start(t)
  const reprise = server.client()
  await reprise.streams.create('numbers')
  const producer = reprise.producer('numbers')
  const directory = mkdtempSync(join(tmpdir(), 'reprise-ts-'))
  const files = [join(directory, 'cursor'), join(directory, 'output')] as const
  writeFileSync(files[1], '')
  const args = [join(import.meta.dirname, 'reader.js'), server.url, server.token, 'numbers', ...files]
  let published = 0
  let kills = 0
  for (let ended = false; !ended; ) {
    const reader = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    const exit = new Promise<number | null>((resolve) => reader.once('exit', resolve))
    if (kills < 8) {
      const before = readFileSync(files[1]).length
      for (let i = 0; i < 40; i++) await producer.publish({ data: ++published })
      while (readFileSync(files[1]).length === before) await new Promise((resolve) => setTimeout(resolve, 1))
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
      reader.kill('SIGKILL')
      kills++
    } else {
      await producer.end()
      ended = true
    }
    assert.equal(await exit, ended ? 0 : null)
  }
  const seqs = readFileSync(files[1], 'utf8').trim().split('\n').map(Number)
  const once = seqs.filter((seq, i) => seq !== seqs[i - 1])
  assert.deepEqual(once, Array.from({ length: published + 1 }, (_, i) => i + 1))
  assert.ok(seqs.length - once.length <= kills, `${seqs.length - once.length} doubled by ${kills} kills`)
})

test('a cursor file that holds no cursor is an error', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'reprise-ts-')), 'cursor')
  const file = new FileCursor(path)
  assert.equal(await file.load(), undefined)
  await file.save(cursor(7))
  assert.equal(await file.load(), cursor(7))
  assert.equal(readFileSync(path, 'utf8'), `${cursor(7)}\n`)
  for (const text of ['', cursor(7), '\n', 'a b\n', `${cursor(7)}\n${cursor(8)}\n`]) {
    writeFileSync(path, text)
    await assert.rejects(file.load(), { code: 'cursor_malformed' }, JSON.stringify(text))
  }
})

test('a cursor in a Storage', () => {
  const map = new Map<string, string>()
  const storage = { getItem: (key: string) => map.get(key) ?? null, setItem: (key: string, value: string) => void map.set(key, value) }
  const store = new LocalStorageCursor('key', storage)
  assert.equal(store.load(), undefined)
  store.save(cursor(7))
  assert.equal(new LocalStorageCursor('key', storage).load(), cursor(7))
  map.set('key', 'no cursor')
  assert.throws(() => store.load(), { code: 'cursor_malformed' })
})
