// The store for assistant-ui. "examples/faces/assistant-ui.sh" runs the tests that assistant-ui has for its own stores.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ResumableStreamStore, createResumableStreamStore } from 'reprise/assistant-ui'
import { Server } from './server.js'

const bytes = (text: string) => new TextEncoder().encode(text)
const never = new AbortController().signal

async function drain(store: ResumableStreamStore, id: string, cursor = ''): Promise<string> {
  let all = ''
  for await (const { chunk } of store.read(id, cursor, never)) all += new TextDecoder().decode(chunk)
  return all
}

test('one of many is the producer, and each reader gets every chunk once, over a server that is killed', async (t) => {
  const server = await Server.start(t)
  const stores = Array.from({ length: 5 }, () => createResumableStreamStore({ reprise: server.client() }))
  const roles = await Promise.all(stores.map((store) => store.acquireLease('a:b_c.d')))
  const at = roles.findIndex(({ role }) => role === 'producer')
  assert.equal(roles.filter(({ role }) => role === 'producer').length, 1)
  const producer = stores[at]!
  const { lease } = roles[at] as { lease: { token: string } }
  const readers = stores.map((store) => drain(store, 'a:b_c.d'))
  let written = ''
  for (let i = 0; i < 200; i++) {
    if (i === 100) {
      await server.kill()
      await server.start()
    }
    await producer.append('a:b_c.d', bytes(`${i} `), lease)
    written += `${i} `
  }
  assert.equal(await producer.finalize('a:b_c.d', 'done', undefined, lease), true)
  for (const reader of readers) assert.equal(await reader, written)
  assert.equal(await producer.status('a:b_c.d'), 'done')
  assert.equal(await producer.acquire('a:b_c.d'), 'consumer')
})

test('a chunk of any size and content comes back, and from each cursor the rest', async (t) => {
  const store = createResumableStreamStore({ reprise: (await Server.start(t)).client() })
  await store.acquire('.')
  const large = new Uint8Array(2 << 20).map((_, i) => i * 7)
  for (const chunk of [new Uint8Array(0), bytes('a\r\n\0'), large]) await store.append('.', chunk)
  await store.finalize('.', 'error', 'the model has failed')
  const entries: { cursor: string; chunk: Uint8Array }[] = []
  const reading = async (cursor: string) => {
    for await (const entry of store.read('.', cursor, never)) entries.push(entry)
  }
  await assert.rejects(reading(''), /the model has failed/)
  assert.deepEqual(Buffer.concat(entries.map(({ chunk }) => chunk)), Buffer.concat([bytes('a\r\n\0'), large]))
  const { cursor } = entries[1]!
  entries.length = 0
  await assert.rejects(reading(cursor), /the model has failed/)
  assert.deepEqual(Buffer.concat(entries.map(({ chunk }) => chunk)), Buffer.from(large))
  await assert.rejects(reading('elsewhere'), /cursor/)
})

test('a producer that was superseded writes nothing into the stream of the next one', async (t) => {
  const server = await Server.start(t)
  const [one, other] = [createResumableStreamStore({ reprise: server.client() }), createResumableStreamStore({ reprise: server.client() })]
  const old = await one.acquireLease('s')
  assert.ok(old.role === 'producer')
  await one.append('s', bytes('old'), old.lease)
  await other.delete('s')
  await assert.rejects(one.append('s', bytes('lost'), old.lease), /not found/)
  const next = await other.acquireLease('s')
  assert.ok(next.role === 'producer')
  await other.append('s', bytes('new'), next.lease)
  await assert.rejects(one.append('s', bytes('old'), old.lease), { code: 'missing' })
  assert.equal(await one.finalize('s', 'done', undefined, old.lease), false)
  await other.finalize('s', 'done', undefined, next.lease)
  assert.equal(await drain(one, 's'), 'new')
  await assert.rejects(other.append('s', bytes('late'), next.lease), { code: 'finalized' })
  assert.equal(await other.finalize('s', 'error'), false)
})

test('what is not there is told', async (t) => {
  const server = await Server.start(t)
  const store = createResumableStreamStore({ reprise: server.client() })
  assert.equal(await store.status('none'), 'missing')
  await store.delete('none')
  await assert.rejects(drain(store, 'none'), /not found/)
  await assert.rejects(store.append('none', bytes('a')), /not found/)
  await assert.rejects(store.finalize('none', 'done'), /not found/)
  await assert.rejects(store.acquire('a/b'), { code: 'invalid-id' })
  await store.acquire('deleted')
  await store.append('deleted', bytes('x'))
  const stop = new AbortController()
  const entries = store.read('deleted', '', stop.signal)
  await entries.next()
  await store.delete('deleted')
  assert.equal((await entries.next()).done, true)
  await store.acquire('left')
  const waiting = store.read('left', '', stop.signal).next()
  stop.abort()
  assert.equal((await waiting).done, true)
})

test('chunks that are no longer kept are an error', async (t) => {
  const reprise = (await Server.start(t)).client()
  const store = createResumableStreamStore({ reprise })
  await store.acquire('a')
  for (const text of ['1', '2', '3']) await store.append('a', bytes(text))
  await reprise.streams.trim('assistant-ui/a')
  await assert.rejects(drain(store, 'a'), /no longer kept/)
})
