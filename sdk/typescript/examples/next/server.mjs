// Serves route.mjs as Next would, by Node alone: server.mjs [PORT]
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import * as route from './route.mjs'

const http = createServer(async (incoming, outgoing) => {
  const url = new URL(incoming.url, 'http://localhost')
  const id = /^\/api\/jobs\/([\w-]+)$/.exec(url.pathname)?.[1]
  const handler = id && route[incoming.method]
  if (!handler) return void outgoing.writeHead(404).end()
  const gone = new AbortController()
  outgoing.on('close', () => gone.abort(new Error('the client has gone')))
  const body = incoming.method === 'POST' ? { body: Readable.toWeb(incoming), duplex: 'half' } : {}
  const request = new Request(url, { method: incoming.method, headers: incoming.headers, signal: gone.signal, ...body })
  try {
    const response = await handler(request, { params: Promise.resolve({ id }) })
    outgoing.writeHead(response.status, Object.fromEntries(response.headers))
    for await (const bytes of response.body ?? []) outgoing.write(bytes)
    outgoing.end()
  } catch (error) {
    if (!outgoing.headersSent) outgoing.writeHead(500)
    if (!gone.signal.aborted) console.error(error)
    outgoing.end()
  }
})
http.listen(Number(process.argv[2] ?? 3000), '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${http.address().port}`))
