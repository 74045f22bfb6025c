import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { EventStores } from 'reprise/mcp'
import { cursor, problem, script } from './script.js'

test('a session whose last message cannot be read is not ended as silent', async (t) => {
  const stream = { name: 'mcp/a', status: 'open', created: '2020-01-01T00:00:00Z', window: { earliest: cursor(0), tail: cursor(5) } }
  const listed = (_: unknown, response: ServerResponse) =>
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ streams: [stream], next_cursor: '' }))
  const s = await script(t, listed, problem(503, 'store_unavailable', { retryable: true }))
  await assert.rejects(new EventStores(s.client({ giveUp: 0 })).sweep(), { code: 'store_unavailable' })
  assert.deepEqual(s.requests.map((request) => request.method), ['GET', 'GET'])
})
