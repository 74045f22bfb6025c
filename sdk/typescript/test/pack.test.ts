// The package as others get it: packed, and installed into an empty folder.
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Server } from './server.js'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

test('the packed package runs in an empty folder: README, ES modules, CommonJS, types', { timeout: 290_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-pack-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], { cwd: root })
  const [tarball] = readdirSync(folder)
  const app = join(folder, 'app')
  mkdirSync(app)
  writeFileSync(join(app, 'package.json'), '{ "private": true }')
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', '--offline', join(folder, tarball!)], { cwd: app })
  assert.deepEqual(readdirSync(join(app, 'node_modules')).filter((name) => !name.startsWith('.')), ['reprise'])
  const files = readdirSync(join(app, 'node_modules', 'reprise')).sort()
  assert.deepEqual(files, ['LICENSE', 'README.md', 'dist', 'package.json'])

  // The ten lines that the README begins with, against a server on another port.
  const server = await Server.start(t)
  const state = join(folder, 'state')
  mkdirSync(join(state, 'reprise'), { recursive: true })
  writeFileSync(join(state, 'reprise', 'token'), server.token)
  const example = /```js\n([^]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8'))![1]!
  assert.ok(example.trimEnd().split('\n').length <= 10)
  writeFileSync(join(app, 'readme.mjs'), example.replace('http://127.0.0.1:7070', server.url))
  const env = { ...process.env, XDG_STATE_HOME: state }
  const readme = await run(process.execPath, ['readme.mjs'], { cwd: app, env })
  assert.match(readme.stdout, /^line 1\nline 2\nline 3\nexited 0\n$/)

  writeFileSync(
    join(app, 'common.cjs'),
    `const { Reprise, GapError } = require('reprise')
     const { FileCursor } = require('reprise/node')
     const { shared } = require('reprise/shared')
     new Reprise({ url: ${JSON.stringify(server.url)}, token: ${JSON.stringify(server.token)} })
       .run({ argv: ['echo', 'hi'] }).result().then(result => process.stdout.write(result.stdout + typeof FileCursor + typeof GapError + typeof shared))`,
  )
  assert.equal((await run(process.execPath, ['common.cjs'], { cwd: app })).stdout, 'hi\nfunctionfunctionfunction')

  const use = `import { type ExecutionEvent, Reprise } from 'reprise'
    export async function f(events: AsyncIterable<ExecutionEvent>) {
      for await (const event of events) {
        if (event.type === 'end') { const code: number | null | undefined = event.data.exit_code; console.log(code) }
        // @ts-expect-error output has no outcome
        if (event.type === 'stdout') event.data.outcome
      }
      for await (const event of new Reprise().streams.follow<{ token: { text: string }; usage: number }>('s')) {
        if (event.type === 'usage') { const n: number = event.data; console.log(n) }
        if (event.type === 'token') { const s: string = event.data.text; console.log(s) }
        // @ts-expect-error no such type
        if (event.type === 'tokem') event.data
      }
      // @ts-expect-error one of argv, command and language
      new Reprise().start({ argv: ['true'], command: 'true' })
    }`
  writeFileSync(join(app, 'use.mts'), use)
  writeFileSync(join(app, 'use.cts'), use)
  const tsc = join(root, 'node_modules', '.bin', 'tsc')
  const flags = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext', '--lib', 'es2023,dom,dom.iterable']
  await run(tsc, [...flags, '--types', '', 'use.mts', 'use.cts'], { cwd: app }).catch((error: { stdout: string }) =>
    assert.fail(error.stdout),
  )
})
