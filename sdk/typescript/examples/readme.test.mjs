// Every block of README.md runs as it is written there: as a program of its own, after the lines that it takes for granted, and
// before lines that say what it has done. "..." stands for what the program does, here for nothing. pack.test.js runs the first
// one, from the packed package.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer as createWebServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { Server, binary } from '../build/test/server.js'
import { openPage, skip } from './browser.mjs'

const run = promisify(execFile)
const readme = readFileSync(join(import.meta.dirname, '..', 'README.md'), 'utf8')
const blocks = [...readme.matchAll(/```(?:js|ts|jsx)\n([^]*?)```/g)].map(([, code]) => code.replaceAll(/\{ \.\.\. \}|\.\.\./g, '{}'))

/** The block that contains a text. */
function block(text) {
  const found = blocks.filter((code) => code.includes(text))
  assert.equal(found.length, 1, `${found.length} blocks contain ${text}`)
  return found[0]
}

const client = `import assert from 'node:assert/strict'
import { LocalStorageCursor, MemoryCursor, Reprise } from 'reprise'
const url = process.env.REPRISE_URL, token = process.env.REPRISE_TOKEN
const all = async (items) => {
  const list = []
  for await (const item of items) list.push(item)
  return list
}
`
const connected = `${client}const reprise = new Reprise()\n`
const execution = `${connected}const { id } = await reprise.start({ command: 'echo hello' })\n`

/** By a text that is in one block alone: what comes before the block and what comes after it. */
const programs = {
  'reprise.run(request, options)': [
    `${client}import { Admin } from 'reprise/admin'
    const setup = new Reprise()
    const { id } = await setup.start({ command: 'sleep 60', tty: { cols: 80, rows: 24 } })
    const run = 'made'
    await setup.run({ id: run, cwd: process.cwd(), command: 'mkdir dist && echo 1 > dist/app.js', artifacts: ['dist'] }).result()
    const [name, after, types, cursors, onGap, signal, parse, ticket] = ['answers', '', [], undefined, 'event', undefined, undefined, undefined]
    const [cols, rows, request, options, data] = [100, 30, { argv: ['true'] }, {}, 'a model']
    await setup.files.upload('a page', 'work/out.pdf')\n`,
    `assert.equal((await reprise.interpreters.run(python.id, 'x')).result.mime['text/plain'], '41')
    assert.equal((await reprise.streams.page(name)).events.length, 2)
    assert.equal((await admin.webhooks.list()).webhooks.length, 1)`,
  ],
  'importer.kept()': [
    `${connected}import { FileCursor } from 'reprise/node'
    await reprise.streams.create('rows')
    const rows = [1, 2, 3]
    for (const killed of [true, false]) {\n`,
    `if (killed) rows.push(4)
    else await importer.end()
    }
    assert.deepEqual((await reprise.streams.page('rows')).events.map((event) => event.data).slice(0, 4), rows)`,
  ],
  "new FileCursor('cursor')": [execution, `assert.deepEqual(await all(reprise.follow(id, { cursors: new FileCursor('cursor') })), [])`],
  'new EventStores(': [
    `import assert from 'node:assert/strict'
    import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
    const server = new McpServer({ name: 'notes', version: '1' })
    import { createServer } from 'node:http'
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
    let answer
    const [request, response] = await new Promise((resolve) => {
      const http = createServer((...both) => resolve(both)).listen(0, '127.0.0.1', () => {
        answer = fetch('http://127.0.0.1:' + http.address().port, { method: 'POST', headers, body })
      })
    })\n`,
    `assert.match(await (await answer).text(), /^id: /m)
    await reprise.streams.create('there')
    await eventStore.storeEvent('stream', { jsonrpc: '2.0', id: 1, result: {} })
    await transport.close()
    process.exit()`,
  ],
  "fetch('/ticket')": [
    `${client}import { createServer } from 'node:http'
    const setup = new Reprise()
    const { id } = await setup.start({ command: 'echo hello' })
    let given = 0
    const tickets = createServer(async (_, response) => {
      given++
      response.end((await setup.tickets.create({ execution: id })).ticket)
    })
    await new Promise((resolve) => tickets.listen(0, '127.0.0.1', resolve))
    const page = 'http://127.0.0.1:' + tickets.address().port
    const fetch = (path) => globalThis.fetch(page + path)\n`,
    'assert.equal(given, 1)\nprocess.exit()',
  ],
  'shared(reprise.follow(': [
    `${execution}import { shared } from 'reprise/shared'\nconst [after, cursors] = ['', new MemoryCursor()]\n`,
    'assert.match(cursors.load(), /^3\\./)',
  ],
  'new ChatStreams(': [
    `${connected}import { RepriseChatTransport, ChatStreams } from 'reprise/ai'
    const [id, model] = ['chat', 'one that counts']
    const goOn = () => assert.fail('no writer has died')
    const streamText = ({ messages }) => ({
      toUIMessageStream: () => ReadableStream.from([{ type: 'start', messageId: 'm' }, { type: 'text-delta', id: 't', delta: messages[0] }, { type: 'finish' }]),
    })
    const app = { post: (_, handler) => (app.start = handler), get: (_, handler) => (app.find = handler) }
    const request = (path, init) => new Request('http://page' + path, init)
    globalThis.fetch = ((fetch) => (path, init) => {
      if (!String(path).startsWith('/')) return fetch(path, init)
      return init?.method === 'POST' ? app.start(request(path, init)) : app.find(request(path, init), { id })
    })(fetch)
    let used
    const useChat = (options) => (used = options)\n`,
    `assert.ok(used.resume)
    assert.equal(await used.transport.reconnectToStream({ chatId: id }), null)
    const asked = await used.transport.sendMessages({ chatId: id, messages: ['one'], trigger: 'submit-message', messageId: undefined })
    const chunks = (await all(asked)).map((chunk) => chunk.type)
    assert.deepEqual(chunks, ['start', 'text-delta', 'finish'])
    assert.ok(await used.transport.reconnectToStream({ chatId: id }))
    process.exit()`,
  ],
}

test('every block of the README is run', () => {
  const known = [...Object.keys(programs), 'await localToken()', 'useStream('].map(block)
  assert.deepEqual(blocks.filter((code) => !known.includes(code)), [])
  assert.equal(new Set(known).size, blocks.length)
})

test('the programs of the README do what it says', { timeout: 290_000 }, async (t) => {
  const folder = mkdtempSync(join(import.meta.dirname, 'node_modules', '.readme-')) // which finds the packages
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const work = join(folder, 'work')
  const bin = join(folder, 'bin')
  for (const path of [work, bin]) mkdirSync(path)
  symlinkSync(binary(), join(bin, 'reprise'))
  const server = await Server.start(t, '--files', `work=${work}`)
  const env = { ...process.env, REPRISE_URL: server.url, REPRISE_TOKEN: server.token, PATH: `${bin}:${process.env.PATH}` }
  for (const [text, [before, after]] of Object.entries(programs)) {
    writeFileSync(join(folder, 'program.mjs'), `${before}${block(text)}\n${after}\n`)
    await t.test(text, () => run(process.execPath, ['program.mjs'], { cwd: folder, env, timeout: 120_000 }))
  }
})

test('the component of the README renders what a run has written', { skip, timeout: 120_000 }, async (t) => {
  const source = `import { createRoot } from 'react-dom/client'
    import { Reprise } from 'reprise'
    import { useStream } from 'reprise/react'
    const { url, token, id } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)))
    const reprise = new Reprise({ url, token })
    function Output() {
      ${block('useStream(')}
      return <pre id={status}>{error ? String(error) : value}</pre>
    }
    createRoot(document.body).render(<Output />)`
  const stdin = { contents: source, loader: 'jsx', resolveDir: import.meta.dirname }
  const define = { 'process.env.NODE_ENV': '"production"' }
  const bundle = (await build({ stdin, define, bundle: true, format: 'esm', jsx: 'automatic', write: false })).outputFiles[0].text
  const pages = createWebServer((request, response) => {
    const script = request.url === '/page.js'
    response.writeHead(200, { 'Content-Type': script ? 'text/javascript' : 'text/html' })
    response.end(script ? bundle : '<!doctype html><body><script type="module" src="/page.js"></script>')
  })
  await new Promise((resolve) => pages.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    pages.close()
    pages.closeAllConnections()
  })
  const origin = `http://127.0.0.1:${pages.address().port}`
  const server = await Server.start(t, '--allow-origin', origin)
  const { id } = await server.client().start({ command: 'echo hello; echo again' })
  const page = await openPage(t)
  await page.goto(`${origin}/#${new URLSearchParams({ url: server.url, token: server.token, id })}`)
  await page.waitForSelector('pre#ended')
  assert.equal(await page.locator('pre').textContent(), 'hello\nagain\n')
})
