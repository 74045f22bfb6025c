// Files, terminals, keys and held output against a real server, through cuts.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FileInfo, Reprise } from 'reprise'
import { downloadFile, uploadFile } from 'reprise/node'
import { SHA256 } from '#esm/sha256.js'
import { Cutter } from './cutter.js'
import { end, event, script, stream, until } from './script.js'
import { Server } from './server.js'

/** A server with a root, work, in a folder. */
async function filesServer(t: TestContext): Promise<{ server: Server; reprise: Reprise; folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-files-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'root'))
  const server = await Server.start(t, '--files', `work=${join(folder, 'root')}`)
  return { server, reprise: server.client(), folder }
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of stream as unknown as AsyncIterable<Uint8Array>) parts.push(part)
  return Buffer.concat(parts)
}

test('SHA-256 is that of the platform, however the bytes are cut', () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 100_003]) {
    const bytes = randomBytes(length)
    const sum = new SHA256()
    for (let at = 0; at < length; ) {
      const end = at + 1 + Math.floor(Math.random() * 200)
      sum.update(bytes.subarray(at, end))
      at = end
    }
    assert.equal(sum.hex(), createHash('sha256').update(bytes).digest('hex'), `${length} bytes`)
  }
})

test('upload and download over cut connections', { timeout: 90_000 }, async (t) => {
  const { server, reprise, folder } = await filesServer(t)
  const bytes = randomBytes(9 << 20)
  const how = ['rst', 'fin'] as const
  const down = await Cutter.start(t, server.url, (n) => (n < 8 ? { after: 1_500_000 * (n % 4), how: how[n % 2]! } : undefined))
  const client = server.client({ url: down.url, giveUp: 60_000 })
  const progress: number[] = []
  const file = await client.files.upload(bytes, 'work/deep/data.bin', { mode: '0640', onProgress: (done) => progress.push(done) })
  assert.deepEqual([file.path, file.size, file.mode], ['work/deep/data.bin', bytes.length, '0640'])
  assert.equal(progress.at(-1), bytes.length)
  assert.ok(readFileSync(join(folder, 'root/deep/data.bin')).equals(bytes))
  assert.ok((await bytesOf(client.files.download('work/deep/data.bin'))).equals(bytes))
  const local = join(folder, 'copy.bin')
  await downloadFile(client, 'work/deep/data.bin', local)
  assert.ok(readFileSync(local).equals(bytes) && (statSync(local).mode & 0o777) === 0o640)
  await assert.rejects(downloadFile(client, 'work/deep/data.bin', local, { overwrite: false }), { code: 'EEXIST' })
  writeFileSync(local, 'local')
  assert.equal((await uploadFile(client, local, 'work/local.txt')).size, 5)
  assert.ok(down.cuts >= 3, `${down.cuts} cuts`)
  await assert.rejects(reprise.files.upload('x', 'work/local.txt', { overwrite: false }), { code: 'conflict' })
  assert.equal((await reprise.files.upload(new Blob(['héé']), 'work/blob.txt')).size, 5)
  assert.equal(String(await bytesOf(reprise.files.download('work/blob.txt'))), 'héé')
  await reprise.files.upload('', 'work/empty')
  assert.equal((await bytesOf(reprise.files.download('work/empty'))).length, 0)
})

test('an upload goes on where it was after the server was killed, and with what another try has left', { timeout: 60_000 }, async (t) => {
  const { server, reprise } = await filesServer(t)
  const bytes = randomBytes(9 << 20)
  const stop = new AbortController()
  let reads = 0
  const source = {
    size: bytes.length,
    read: async (start: number, end: number) => {
      if (stop.signal.aborted === false && start >= 4 << 20 && ++reads === 1) stop.abort(new Error('stopped'))
      return bytes.subarray(start, end)
    },
    sha256: async () => createHash('sha256').update(bytes).digest('hex'),
  }
  await assert.rejects(reprise.files.upload(source, 'work/a', { signal: stop.signal }), /stopped/)
  await server.kill()
  await server.start()
  const progress: number[] = []
  await reprise.files.upload(bytes, 'work/a', { onProgress: (done) => progress.push(done) })
  assert.ok(progress[0]! >= 4 << 20, `it begins at ${progress[0]}`)
  const changing = { ...source, sha256: async () => '0'.repeat(64), read: async (start: number, end: number) => bytes.subarray(start, end) }
  await assert.rejects(reprise.files.upload(changing, 'work/b'), { code: 'file_changed', retryable: false })
})

test('a download of a file that changes fails, and a part of a killed program is gone on with', { timeout: 60_000 }, async (t) => {
  const { server, reprise, folder } = await filesServer(t)
  const bytes = randomBytes(5 << 20)
  await reprise.files.upload(bytes, 'work/a')
  const local = join(folder, 'a')
  const cutter = await Cutter.start(t, server.url, () => ({ after: 2 << 20, how: 'fin' })) // at a reset Bun drops what it has received
  const cut = server.client({ url: cutter.url, giveUp: 0 })
  await assert.rejects(downloadFile(cut, 'work/a', local), { code: 'connection' })
  const [part] = readdirSync(folder).filter((name) => name.endsWith('.part'))
  assert.ok(statSync(join(folder, part!)).size > 0)
  const seen: number[] = []
  await downloadFile(reprise, 'work/a', local, { onProgress: (done) => seen.push(done) })
  assert.ok(seen[0]! > 0 && readFileSync(local).equals(bytes))
  assert.deepEqual(readdirSync(folder).filter((name) => name.endsWith('.part')), [])

  const reader = reprise.files.download('work/a').getReader()
  await reader.read()
  const { etag } = await reprise.files.show('work/a')
  writeFileSync(join(folder, 'root/a'), randomBytes(5 << 20))
  await assert.rejects(
    async () => {
      while (!(await reader.read()).done);
    },
    { code: 'file_changed' },
  )
  await assert.rejects(bytesOf(reprise.files.download('work/a', { offset: 10, etag: etag! })), { code: 'file_changed' })
})

test('list, search, move, permissions, directories and removal', async (t) => {
  const { reprise } = await filesServer(t)
  const { files } = reprise
  await files.makeDirectory('work/src/deep', { parents: true })
  await files.upload('one\nfunc main\n', 'work/src/main.go')
  await files.upload('two', 'work/src/deep/b.txt')
  const names = (list: { files: FileInfo[] }) => list.files.map((file) => file.path)
  assert.deepEqual(names(await files.list()), ['work'])
  const first = await files.list('work/src', { limit: 1 })
  assert.deepEqual(names(first), ['work/src/deep'])
  assert.deepEqual(names(await files.list('work/src', { cursor: first.next_cursor })), ['work/src/main.go'])
  const [found] = (await files.search('work', { name: '*.go', text: 'func main' })).files
  assert.deepEqual([found!.path, found!.line, found!.text], ['work/src/main.go', 2, 'func main'])
  assert.equal((await files.move('work/src/main.go', 'work/src/x.go')).path, 'work/src/x.go')
  await assert.rejects(files.move('work/src/x.go', 'work/src/deep/b.txt'), { code: 'conflict' })
  await files.move('work/src/x.go', 'work/src/deep/b.txt', { overwrite: true })
  assert.equal((await files.setMode('work/src/deep/b.txt', '0600')).mode, '0600')
  assert.match((await files.show('work/src/deep/b.txt', { checksum: true })).sha256!, /^[0-9a-f]{64}$/)
  await assert.rejects(files.remove('work/src'), { code: 'conflict' })
  await files.remove('work/src', { recursive: true })
  await assert.rejects(files.show('work/src'), { code: 'not_found' })
})

test('a watch tells each change once, through cuts', { timeout: 60_000 }, async (t) => {
  const { server, reprise } = await filesServer(t)
  const cutter = await Cutter.start(t, server.url, (n) => (n < 6 ? { after: 150 * n, how: 'rst' } : undefined))
  const watch = await reprise.files.watch('work', { recursive: true })
  const names = Array.from({ length: 5 }, (_, i) => `work/f${i}`)
  const seen: string[] = []
  for (const name of names) await reprise.files.upload(name, name)
  for await (const event of server.client({ url: cutter.url }).files.changes(watch)) {
    assert.ok(event.type === 'created', event.type)
    seen.push(event.data.path)
    if (seen.length === names.length) break
  }
  assert.deepEqual(seen.sort(), names)
  await reprise.files.unwatch(watch.id)
  await assert.rejects(reprise.files.changes(watch.id)[Symbol.asyncIterator]().next(), { code: 'not_found' })
})

test('a terminal is resized and shown, and two writers type into it', { timeout: 60_000 }, async (t) => {
  const { reprise } = await filesServer(t)
  const { id } = await reprise.start({ argv: ['cat'], tty: { cols: 40, rows: 10 }, stdin_open: true })
  for (const writer of ['ann', 'bob']) {
    const stdin = reprise.stdin(id, { writer })
    await stdin.write(`${writer}\n`)
    assert.equal(stdin.offset, 4)
  }
  let text = ''
  for await (const event of reprise.follow(id)) {
    text += event.type === 'stdout' ? event.text : ''
    if (text.split('bob').length === 3) break
  }
  await reprise.resize(id, 100, 30)
  assert.deepEqual((await reprise.show(id)).tty, { cols: 100, rows: 30 })
  const screen = await reprise.screen(id)
  assert.deepEqual([screen.cols, screen.rows, screen.text.split('\n')[0]], [100, 30, 'ann'])
  assert.equal((await reprise.screen(id, { cols: 20, rows: 5 })).cols, 20)
  await reprise.cancel(id)
})

/** Waits until an execution has ended or, if it is held back, until its output does not grow any more. */
async function standsStill(reprise: Reprise, id: string, held: boolean): Promise<void> {
  for (let last = -1; ; ) {
    const { status, bytes } = await reprise.show(id)
    if (status === 'ended' || (held && bytes.stdout === last)) return
    last = bytes.stdout
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

test('held output: a slow loop over a run misses nothing, and without it does', { timeout: 90_000 }, async (t) => {
  const server = await Server.start(t, '--store', 'memory:')
  const reprise = server.client()
  const request = { command: 'seq 4000000', retention: { max_bytes: 1 << 20 } } // 31 MB, more than sockets hold
  for (const hold of [undefined, '60s']) {
    const run = reprise.run({ ...request, ...(hold && { hold }) })
    let bytes = 0
    let gaps = 0
    for await (const event of run) {
      if (event.type === 'gap') gaps++
      if (event.type !== 'stdout') continue
      if (bytes === 0) await standsStill(reprise, run.id, hold !== undefined)
      bytes += event.bytes.length
    }
    assert.equal(gaps > 0, hold === undefined, `${gaps} gaps with hold ${hold}`)
    if (hold) assert.equal(bytes, 30_888_896)
  }
  assert.throws(() => reprise.start({ argv: ['true'], hold: '30s' }), { code: 'invalid' })
})

test('a run that is held back is asked for again under the name that the server gave', async (t) => {
  const head = { headers: { 'Execution-Hold': 'name' } }
  const one = await script(t, stream([event(1)], head), stream([event(2)]), stream([end(3)]))
  await one.client().run({ argv: ['true'], hold: '30s' }).result()
  assert.match(one.requests[0]!.url!, /hold=30s/)
  assert.deepEqual(one.requests.map((request) => request.headers['execution-hold']), [undefined, 'name', 'name'])
})

test('keys are made, shown, rotated and revoked', async (t) => {
  const { server, reprise } = await filesServer(t)
  const made = await reprise.keys.create({ name: 'ci', scopes: ['read'], ttl: '1h' })
  const reader = server.client({ token: made.key! })
  await reader.list()
  await assert.rejects(reader.start({ argv: ['true'] }), { code: 'forbidden' })
  assert.deepEqual((await reprise.keys.list()).keys.map((key) => key.id), [made.id])
  const shown = await reprise.keys.show(made.id)
  assert.deepEqual([shown.name, shown.scopes, shown.key, shown.revoked], ['ci', ['read'], undefined, null])
  const rotated = await reprise.keys.rotate(made.id)
  await assert.rejects(reader.list(), { code: 'unauthenticated' })
  const again = server.client({ token: rotated.key! })
  await again.list()
  await reprise.keys.revoke(made.id)
  let refused = false
  await again.list().catch(() => (refused = true))
  await until('the key is refused', () => refused)
})
