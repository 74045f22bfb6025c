// The server's side of reprise/ai: the interface of resumable-stream, and writers that die.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChatStreams, RepriseChatTransport, createResumableStreamContext } from 'reprise/ai'
import { readUIMessageStream } from 'ai'
import { Server } from '../build/test/server.js'

const pieces = (count, from = 1) => Array.from({ length: count - from + 1 }, (_, i) => `${from + i} `)

async function text(stream) {
  let all = ''
  for await (const part of stream) all += part
  return all
}

/** A source that gives its parts, and then waits until it is let go on. */
function held(parts, rest) {
  let release
  const gate = new Promise((resolve) => (release = resolve))
  const stream = ReadableStream.from(
    (async function* () {
      yield* parts
      await gate
      yield* rest
    })(),
  )
  return { stream, release }
}

test('a stream is made once, and read by many, from any character on', async (t) => {
  const reprise = (await Server.start(t)).client()
  const context = createResumableStreamContext({ reprise, waitUntil: null })
  const source = held(pieces(500), pieces(1000, 501))
  let made = 0
  const make = () => (made++, source.stream)
  assert.equal(await context.hasExistingStream('a'), null)
  assert.equal(await context.resumeExistingStream('a'), undefined)
  const first = await context.resumableStream('a', make)
  const second = await context.resumableStream('a', make)
  const third = await context.resumeExistingStream('a', 101)
  assert.equal(await context.hasExistingStream('a'), true)
  await (await context.resumeExistingStream('a')).cancel()
  source.release()
  const want = pieces(1000).join('')
  assert.deepEqual(await Promise.all([first, second, third].map(text)), [want, want, want.slice(101)])
  assert.equal(made, 1)
  assert.equal(await context.hasExistingStream('a'), 'DONE')
  assert.equal(await context.resumableStream('a', make), null)
})

test('a source that fails is told to who reads', async (t) => {
  const reprise = (await Server.start(t)).client()
  let written
  const context = createResumableStreamContext({ reprise, waitUntil: (promise) => (written = promise) })
  const failing = ReadableStream.from(
    (async function* () {
      yield 'some'
      throw new Error('the model is out of order')
    })(),
  )
  const stream = await context.createNewResumableStream('b', () => failing)
  await assert.rejects(text(stream), { message: 'the model is out of order', code: 'answer_failed' })
  await assert.rejects(written, /out of order/)
})

/** Writes to the stream of an answer as a program does that dies in mid-answer. */
async function dead(reprise, stream, parts) {
  await reprise.streams.create(stream)
  await reprise.producer(stream, { id: 'writer' }).publish(parts.map((data) => ({ type: 'chunk', data })))
}

test('an answer whose writer has died is gone on with, once, or ends as failed', async (t) => {
  const reprise = (await Server.start(t)).client()
  await dead(reprise, 'resumable-stream/c', pieces(50))
  let taken = 0
  const goOn = (id, written) => {
    taken++
    assert.equal(id, 'c')
    return ReadableStream.from(pieces(100, written.length + 1))
  }
  const options = { reprise, waitUntil: null, goOn }
  const patient = createResumableStreamContext({ ...options, orphanAfter: 60_000 })
  const early = await patient.resumeExistingStream('c')
  assert.equal(taken, 0)
  await new Promise((resolve) => setTimeout(resolve, 250))
  assert.ok(await createResumableStreamContext({ ...options, orphanAfter: 200 }).hasExistingStream('c'))
  assert.equal(taken, 1)
  const late = await patient.resumeExistingStream('c')
  assert.equal(await text(early), pieces(100).join(''))
  if (late) assert.equal(await text(late), pieces(100).join(''))

  await dead(reprise, 'resumable-stream/d', pieces(50))
  const waits = createResumableStreamContext({ reprise, waitUntil: null, orphanAfter: 3000 })
  const waiting = text(await waits.resumeExistingStream('d'))
  await assert.rejects(waiting, { message: 'the program that writes this answer has died' })
  const alone = createResumableStreamContext({ reprise, waitUntil: null, orphanAfter: 200 })
  assert.equal(await alone.resumeExistingStream('d'), null)
  await assert.rejects(reprise.producer('resumable-stream/d').publish({ data: 'late' }), { code: 'stream_ended' })
})

test('the chat transport gives the chunks of the newest answer, merged, and after a reload from its beginning', async (t) => {
  const server = await Server.start(t)
  const chats = new ChatStreams({ reprise: server.client() })
  const chunks = (count) => [
    { type: 'start', messageId: 'm' },
    { type: 'text-start', id: 't' },
    ...pieces(count).map((delta) => ({ type: 'text-delta', id: 't', delta })),
    { type: 'text-end', id: 't' },
    { type: 'finish' },
  ]
  const application = async (url, init) => {
    const answer = init.method === 'POST' ? await chats.start('x/y', () => ReadableStream.from(chunks(3000))) : await chats.resume('x/y')
    return answer ? Response.json(answer) : new Response(null, { status: 204 })
  }
  const transport = new RepriseChatTransport({ fetch: application })
  assert.equal(await transport.reconnectToStream({ chatId: 'x/y' }), null)
  const request = { chatId: 'x/y', messages: [], trigger: 'submit-message', messageId: undefined, abortSignal: undefined }
  for (const read of [() => transport.sendMessages(request), () => transport.reconnectToStream(request)]) {
    let count = 0
    const counting = new TransformStream({ transform: (chunk, controller) => (count++, controller.enqueue(chunk)) })
    let message
    for await (const state of readUIMessageStream({ stream: (await read()).pipeThrough(counting) })) message = state
    assert.equal(message.parts.find((part) => part.type === 'text').text, pieces(3000).join(''))
    assert.ok(count < 1500, `${count} chunks`)
  }
})
