// What a proxy compresses without being asked to, where fetch does not decode it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Zlib, createDeflate, createDeflateRaw, createGzip } from 'node:zlib'
import { inflated } from '#esm/inflate.js'

const codings = { gzip: createGzip, 'X-Gzip': createGzip, deflate: createDeflate, 'deflate without its header': createDeflateRaw }

for (const [coding, make] of Object.entries(codings)) {
  test(`${coding} is decoded as it was flushed`, async () => {
    const coder = make()
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        coder.on('data', (chunk: Uint8Array) => controller.enqueue(new Uint8Array(chunk)))
        coder.on('end', () => controller.close())
      },
    })
    const reader = inflated(body, coding).getReader()
    for (const text of ['first', 'second']) {
      coder.write(text)
      ;(coder as unknown as Zlib).flush()
      const parts: Buffer[] = []
      while (Buffer.concat(parts).length < text.length) parts.push(Buffer.from((await reader.read()).value!))
      assert.equal(Buffer.concat(parts).toString(), text)
    }
    coder.end()
    assert.equal((await reader.read()).done, true)
  })
}

test('bytes that are in no coding fail, and a reader that leaves cancels the body', async () => {
  const plain = new Response('data: never compressed\n\n').body!
  await assert.rejects(inflated(plain as ReadableStream<Uint8Array<ArrayBuffer>>, 'gzip').getReader().read())
  let left: unknown
  const open = new ReadableStream<Uint8Array<ArrayBuffer>>({ cancel: (reason) => void (left = reason) })
  await inflated(open, 'gzip').cancel('enough')
  assert.equal(left, 'enough')
})
