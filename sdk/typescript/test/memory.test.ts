// A follow holds one piece of an answer, however long the history is and however slow the loop.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Reprise } from 'reprise'
import { Server } from './server.js'

const count = 200_000
const flags = ['--store', 'memory:', '--retain-events', String(2 * count), '--retain-bytes', '1GiB']
const text = 'a line of output as a build prints it, with some eighty characters in each, twice'.repeat(2)
const closing: (() => unknown)[] = []
let server: Server

before(async () => {
  server = await Server.start({ after: (hook: () => unknown) => closing.push(hook) } as never, ...flags)
  await server.client().streams.create('long')
  const producer = server.client().producer('long')
  for (let first = 1; first < count; first += 1000) {
    await producer.publish(Array.from({ length: 1000 }, (_, i) => ({ type: 'line', data: { n: first + i, text } })))
  }
  await producer.end()
})
after(() => Promise.all(closing.map((hook) => hook())))

/** Follows the long stream with a loop that pauses every 10,000 events, and calls look in each pause. */
async function followSlowly(client: Reprise, look: (seq: number) => void): Promise<void> {
  let seq = 0
  for await (const event of client.streams.follow<{ line: { n: number } }>('long')) {
    assert.equal(event.seq, ++seq)
    if (event.type === 'line') assert.equal(event.data.n, seq)
    if (seq % 10_000 !== 0) continue
    await new Promise((resolve) => setTimeout(resolve, 50)) // in which a client without back-pressure reads on
    look(seq)
  }
  assert.equal(seq, count + 1)
}

test('a slow loop over 200,000 events has read at most 1 MiB more than it was given', async () => {
  let received = 0
  const counted: typeof fetch = async (...args) => {
    const { body, status, headers } = await fetch(...args)
    const reader = body!.getReader()
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      const { value } = await reader.read()
      received += value?.length ?? 0
      if (value) controller.enqueue(value)
      else controller.close()
    }
    return new Response(new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) }, { highWaterMark: 0 }), { status, headers })
  }
  const seen: [seq: number, bytes: number][] = []
  await followSlowly(server.client({ fetch: counted }), (seq) => seen.push([seq, received]))
  const size = received / (count + 1)
  assert.ok(size > text.length, `${size} bytes for an event`)
  const ahead = Math.max(...seen.map(([seq, bytes]) => bytes - seq * size))
  // One piece is 64 KiB in Node and Deno, and up to 512 KiB in Bun.
  assert.ok(ahead < 1 << 20, `${ahead} bytes ahead of the loop`)
})

/** Returns a function that collects garbage. */
function collector(): () => void {
  const { Bun } = globalThis as { Bun?: { gc(wait: boolean): void } }
  if (Bun) return () => Bun.gc(true)
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}

test('the heap does not grow with the history', async () => {
  const collect = collector()
  const used = () => {
    collect()
    const { heapUsed, external } = process.memoryUsage() // external has the buffers too
    return heapUsed + external
  }
  const seen: number[] = []
  await followSlowly(server.client(), () => seen.push(used()))
  // The first pauses have what is compiled and cached once.
  const growth = Math.max(...seen.slice(2)) - seen[1]!
  assert.ok(growth < 4 << 20, `${growth} bytes more, in a history of ${(count * text.length) >> 20} MiB and more`)
})
