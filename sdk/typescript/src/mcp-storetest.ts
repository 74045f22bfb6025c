import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Message } from './mcp-id.js'

/** The event store of the SDK's transports, as far as it is tested. */
export interface TestedStore {
  storeEvent(streamId: string, message: never): Promise<string>
  replayEventsAfter(lastEventId: string, to: { send: (eventId: string, message: never) => Promise<void> }): Promise<string>
  getStreamIdForEventId?(eventId: string): Promise<string | undefined>
}

/** How a store is tested. */
export interface StoreTestOptions {
  /** Opens a store. Stores of one test need not be apart: each test has streams of its own. */
  open: () => TestedStore | Promise<TestedStore>
  /** Whether a store that is opened again has the events of the one before. Default: false. */
  durable?: boolean
}

/**
 * What an event store of an MCP server has to do, as tests for any store, by name; with node:test or vitest:
 *
 *     for (const [name, run] of Object.entries(storeTests({ open: () => new MyStore() }))) test(name, run)
 *
 * Whether clients of a server that uses the store can resume is tested by `reprise check-mcp`.
 */
export function storeTests({ open, durable }: StoreTestOptions): Record<string, () => Promise<void>> {
  const tests: Record<string, () => Promise<void>> = {
    'replay sends what follows, in order': async () => {
      const [store, stream] = [await open(), randomUUID()]
      const messages = [note(1), note(2), answer(1), note(3)]
      const ids: string[] = []
      for (const message of messages) ids.push(await put(store, stream, message))
      for (const [at, id] of ids.slice(0, -1).entries()) {
        const want = ids.slice(at + 1).map((id, i) => [id, messages[at + 1 + i]])
        assert.deepEqual(await replay(store, id), { stream, got: want })
      }
      assert.deepEqual((await replay(store, ids.at(-1)!)).got, [])
    },
    'ids are unique and fit a header': async () => {
      const [store, streams] = [await open(), [randomUUID(), randomUUID(), randomUUID()]]
      const ids = await Promise.all(Array.from({ length: 100 }, (_, i) => put(store, streams[i % 3]!, note(i))))
      assert.equal(new Set(ids).size, ids.length)
      for (const id of ids) assert.match(id, /^[!-~]+$/)
    },
    'a priming event is a position': async () => {
      const [store, stream] = [await open(), randomUUID()]
      const first = await put(store, stream, {})
      const id = await put(store, stream, note(1))
      const { got } = await replay(store, first)
      assert.deepEqual(got.filter(([, message]) => Object.keys(message).length > 0), [[id, note(1)]])
    },
    'only the stream of the id is replayed': async () => {
      const [store, one, other] = [await open(), randomUUID(), randomUUID()]
      const first = await put(store, one, note('one'))
      await put(store, other, note('other'))
      const own = await put(store, one, note('own'))
      assert.deepEqual(await replay(store, first), { stream: one, got: [[own, note('own')]] })
      assert.equal((await store.getStreamIdForEventId?.(own)) ?? one, one)
    },
    'unknown ids bring no message': async () => {
      const [store, stream] = [await open(), randomUUID()]
      const known = await put(store, stream, note(1))
      await put(store, stream, note(2))
      for (const id of ['', 'x', '0', '-1', '../../x', '%00', 'x'.repeat(3000), randomUUID(), `${known}!`, `x${known}`]) {
        const sent: unknown[] = []
        const send = async (_: string, message: never) => void sent.push(message)
        await store.replayEventsAfter(id, { send }).catch(() => '') // the SDK answers 500
        assert.deepEqual(sent, [], id)
        assert.equal((await store.getStreamIdForEventId?.(id)) || undefined, undefined, id)
      }
    },
    'messages come back unchanged': async () => {
      const [store, stream] = [await open(), randomUUID()]
      const first = await put(store, stream, note(0))
      const texts = ['\u2028\u2029\u0085', '\0\r\n\x1b', '\u{1f600}', 'data: x\n\nid: y', '', 'x'.repeat(900_000)]
      const hostile = [...texts, { a: [null, 1.5, {}] }]
      for (const data of hostile) await put(store, stream, note(data))
      assert.deepEqual((await replay(store, first)).got.map(([, message]) => message), hostile.map(note))
    },
    'messages that are stored at once come back once': async () => {
      const [store, stream] = [await open(), randomUUID()]
      const first = await put(store, stream, note(-1))
      const ids = await Promise.all(Array.from({ length: 50 }, (_, i) => put(store, stream, note(i))))
      const got = new Map((await replay(store, first)).got)
      assert.deepEqual(ids.map((id) => got.get(id)), ids.map((_, i) => note(i)))
      assert.equal(got.size, ids.length)
    },
  }
  if (durable) {
    tests['a store that is opened again has the events'] = async () => {
      const [store, stream] = [await open(), randomUUID()]
      const [first, second] = [await put(store, stream, note(1)), await put(store, stream, note(2))]
      assert.deepEqual(await replay(await open(), first), { stream, got: [[second, note(2)]] })
    }
  }
  return tests
}

function note(data: unknown): Message {
  return { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data } }
}

function answer(id: number): Message {
  return { jsonrpc: '2.0', id, result: { content: [] } }
}

function put(store: TestedStore, stream: string, message: Message): Promise<string> {
  return store.storeEvent(stream, message as never)
}

async function replay(store: TestedStore, id: string): Promise<{ stream: string; got: [string, Message][] }> {
  const got: [string, Message][] = []
  const stream = await store.replayEventsAfter(id, { send: async (id, message) => void got.push([id, message]) })
  return { stream, got }
}
