// The application's server: server.mjs [PORT]. It serves the page, starts answers, and finds them again after a reload. The page
// reads answers from the Reprise server itself, which has to allow the page's origin:
//
//     reprise serve --allow-origin http://127.0.0.1:3000
//     npm install && node chat/server.mjs
//
// REPRISE_URL, REPRISE_TOKEN: the Reprise server (default: the one of this machine). PUBLIC_URL: where pages reach it.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { build } from 'esbuild'
import { Reprise } from 'reprise'
import { ChatStreams } from 'reprise/ai'
import { localToken } from 'reprise/node'

const port = Number(process.argv[2] ?? 3000)
const reprise = new Reprise({ token: process.env.REPRISE_TOKEN ?? (await localToken()) })
const pace = Number(process.env.PACE ?? 20) // milliseconds between pieces
const chats = new ChatStreams({
  reprise,
  ...(process.env.PUBLIC_URL && { url: process.env.PUBLIC_URL }),
  orphanAfter: Number(process.env.ORPHAN_AFTER ?? 15_000),
  goOn: (chatId, written) => answer(goal(written), written),
})

/** A model that needs no account: it counts. A real one is streamText({ ... }).toUIMessageStream(). */
function answer(count, written = []) {
  const done = written.filter((chunk) => chunk.type === 'text-delta').length
  async function* chunks() {
    if (!written.some((chunk) => chunk.type === 'start')) yield { type: 'start', messageId: `count-${count}` }
    if (!written.some((chunk) => chunk.type === 'text-start')) yield { type: 'text-start', id: 't' }
    for (let i = done + 1; i <= count; i++) {
      yield { type: 'text-delta', id: 't', delta: `${i}\n` }
      if (i % 10 === 0) await sleep(pace * 10)
    }
    yield { type: 'text-end', id: 't' }
    yield { type: 'finish' }
  }
  return ReadableStream.from(chunks())
}

/** How far an answer was to count. A real application keeps its messages in a database, and asks the model to go on. */
const goal = (written) => Number(written.find((chunk) => chunk.type === 'start').messageId.split('-')[1])

const bundle = await build({
  entryPoints: [join(import.meta.dirname, 'page.jsx')],
  bundle: true,
  format: 'esm',
  jsx: 'automatic',
  write: false,
  define: { 'process.env.NODE_ENV': '"production"' },
})

async function body(request) {
  const parts = []
  for await (const part of request) parts.push(part)
  return JSON.parse(Buffer.concat(parts).toString())
}

async function handle(request, response) {
  const { pathname } = new URL(request.url, 'http://localhost')
  const [, chatId] = /^\/api\/chat\/([^/]+)\/stream$/.exec(pathname) ?? []
  const json = (value) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))
  if (request.method === 'POST' && pathname === '/api/chat') {
    const { id, messages } = await body(request)
    const [{ text }] = messages.at(-1).parts
    const key = request.headers['idempotency-key']
    return json(await chats.start(id, () => answer(Number(text) || 100), { key }))
  }
  if (chatId) {
    const found = await chats.resume(decodeURIComponent(chatId))
    return found ? json(found) : response.writeHead(204).end()
  }
  if (pathname === '/page.js') return response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(bundle.outputFiles[0].text)
  response.writeHead(200, { 'Content-Type': 'text/html' }).end(readFileSync(join(import.meta.dirname, 'index.html')))
}

const http = createServer((request, response) => {
  handle(request, response).catch((error) => response.headersSent || response.writeHead(500).end(String(error)))
})
http.listen(port, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${http.address().port}`))
