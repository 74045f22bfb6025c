import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { EventStores } from 'reprise/mcp'
import { type Answer, cursor, problem, script } from './script.js'

test('a session whose last message cannot be read is not ended as silent', async (t) => {
  const stream = { name: 'mcp/a', status: 'open', created: '2020-01-01T00:00:00Z', window: { earliest: cursor(0), tail: cursor(5) } }
  const listed = (_: unknown, response: ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ streams: [stream], next_cursor: '' }))
  const s = await script(t, listed, problem(503, 'store_unavailable', { retryable: true }))
  await assert.rejects(new EventStores(s.client({ giveUp: 0 })).sweep(), { code: 'store_unavailable' })
  assert.deepEqual(s.requests.map((request) => request.method), ['GET', 'GET'])
})

/** A page of the stream of a session. */
function page(...events: { seq: number; data: object }[]): Answer {
  const shown = events.map((e) => ({ ...e, cursor: cursor(e.seq), time: '2026-11-20T09:30:00.000Z', type: 'call' }))
  const members = { events: shown, next_cursor: cursor(events.at(-1)?.seq ?? 3), has_more: false, ended: false }
  const body = JSON.stringify({ ...members, window: { earliest: cursor(0), tail: cursor(9) } })
  return (_, response) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(body)
}

/** An MCP server on the store of a scripted Reprise server, which has session s, and a client that resumes. */
async function mcp(t: TestContext, here: boolean, ...answers: Answer[]) {
  const stores = new EventStores((await script(t, ...answers)).client({ giveUp: 0 }))
  const transport = { sessionId: 's', handleRequest: () => Promise.reject(new Error('the SDK is not asked')) }
  const server = createServer((request, response) => void stores.serve(request, response, here ? transport : undefined))
  t.after(() => server.close().closeAllConnections())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  return (last: string) => fetch(url, { headers: { Accept: 'text/event-stream', 'Mcp-Session-Id': 's', 'Last-Event-ID': last } })
}

const progress = { seq: 3, data: { jsonrpc: '2.0', method: 'notifications/progress', params: {} } }
const answer = { seq: 4, data: { jsonrpc: '2.0', id: 5, result: {} } }

test('a call whose process has died is answered with server_lost', async (t) => {
  const resume = await mcp(t, false, page(), page(progress), page())
  const text = await (await resume(`${cursor(3)}:call:5`)).text()
  assert.match(text, /^event: message\ndata: \{"jsonrpc":"2.0","id":5,"error":.*"code":"server_lost"/)
})

test('a resumed response ends with the answer of the call', async (t) => {
  const resume = await mcp(t, false, page(answer), page(progress), page())
  const text = await (await resume(`${cursor(3)}:call:5`)).text()
  assert.match(text, /^event: message\ndata: \{"jsonrpc":"2.0","id":5,"result":\{\}\}\nid: 4\./)
  assert.doesNotMatch(text, /server_lost/)
})

test('a call whose answer the client has seen is not lost', async (t) => {
  const resume = await mcp(t, false, page(), page(answer), page())
  assert.equal(await (await resume(`${cursor(4)}:call:5`)).text(), '')
})

test('a resumed response takes over from the one before', async (t) => {
  const resume = await mcp(t, true, page(progress), () => {}, page(progress), () => {})
  const first = await resume(`${cursor(2)}:_GET_stream`)
  const second = await resume(`${cursor(2)}:_GET_stream`)
  await assert.rejects(first.text())
  await second.body!.cancel()
})

test('positions that the store does not have are refused', async (t) => {
  for (const [refusal, here, status] of [
    [problem(400, 'cursor_foreign'), true, 400],
    [problem(404, 'not_found'), true, 400],
    [problem(404, 'not_found'), false, 404],
    [problem(410, 'cursor_expired'), true, 410],
    [problem(503, 'store_unavailable', { retryable: true }), true, 503],
  ] as const) {
    const resume = await mcp(t, here, refusal)
    assert.equal((await resume(`${cursor(3)}:call:5`)).status, status)
  }
  const resume = await mcp(t, true, page())
  for (const id of ['x', `${cursor(3)}`, `${cursor(3)}:call:5:6`, `${cursor(3)}:call:{}`]) {
    assert.equal((await resume(id)).status, 400, id)
  }
})
