// A loop that is aborted at any of its awaits loses nothing and leaves nothing behind.
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { type CursorStore, Reprise } from 'reprise'
import { cursor, end, event } from './script.js'

/** A server in this process, all of whose answers and bytes come within promises, so that ticks of these reach each await. */
class Answers {
  open = 0
  private made = 0
  private readonly texts = [event(1), undefined, event(2), '', event(3) + end(4)]

  readonly fetch = async (_: unknown, init?: RequestInit): Promise<Response> => {
    init?.signal?.throwIfAborted()
    await Promise.resolve()
    init?.signal?.throwIfAborted()
    const text = this.texts[Math.min(this.made++, this.texts.length - 1)]
    const headers = { 'Content-Type': 'text/event-stream' }
    if (text === undefined) return new Response('{"code":"shutting_down","retryable":true}', { status: 503, headers: problem })
    this.open++
    let ended = false
    const over = () => {
      if (!ended) this.open--
      ended = true
    }
    let parts = ['retry: 1\n', text.slice(0, 40), text.slice(40)]
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        init?.signal?.addEventListener('abort', () => {
          if (!ended) stream.error(init.signal!.reason)
          over()
        })
      },
      pull: async (stream) => {
        await Promise.resolve()
        if (ended) return
        const [part, ...rest] = parts
        parts = rest
        if (part !== undefined) return stream.enqueue(new TextEncoder().encode(part))
        over()
        stream.close()
      },
      cancel: over,
    }, { highWaterMark: 0 })
    return new Response(body, { headers })
  }
}

const problem = { 'Content-Type': 'application/problem+json' }

test('a loop that is aborted at each await', async () => {
  const reason = new Error('enough')
  let place = 0
  for (let aborted = true; aborted; place++) {
    const answers = new Answers()
    const client = new Reprise({ url: 'http://127.0.0.1:1', token: '', fetch: answers.fetch, minWait: 1, maxWait: 2 })
    const stop = new AbortController()
    const handled: number[] = []
    let saved = ''
    const cursors: CursorStore = {
      load: async () => saved,
      save: async (text) => {
        await Promise.resolve()
        assert.ok(text === '' || handled.map((seq) => cursor(seq)).includes(text), `${place}: ${text} is saved before it is handled`)
        saved = text
      },
    }
    const loop = (async () => {
      for await (const { seq } of client.streams.follow('s', { signal: stop.signal, cursors, saveEvery: 0 })) {
        await Promise.resolve()
        handled.push(seq)
      }
    })()
    let over = false
    const settled = loop.then(
      () => 'ended',
      (error) => {
        assert.equal(error, reason, `aborted at ${place}`)
        return 'aborted'
      },
    ).finally(() => (over = true))
    for (let tick = 0; tick < place && !over; tick++) {
      await Promise.resolve()
      if (tick % 100 === 99) await new Promise((resolve) => setTimeout(resolve)) // the timers between two connections
    }
    stop.abort(reason)
    aborted = (await settled) === 'aborted'
    assert.deepEqual(handled, [1, 2, 3, 4].slice(0, handled.length), `aborted at ${place}`)
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(answers.open, 0, `aborted at ${place}: a connection is left`)
    assert.equal(getEventListeners(stop.signal, 'abort').length, 0, `aborted at ${place}: a listener is left`)
  }
  assert.ok(place > 100, `${place} places`)
})
