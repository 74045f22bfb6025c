// The parser of event streams, by the HTML standard, section 9.2.6.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Decoder, type Frame, ProtocolError } from 'reprise'

const utf8 = new TextEncoder()

/** Reads the parts as one stream. */
function decode(parts: Uint8Array[], decoder = new Decoder()): Frame[] {
  const frames: Frame[] = []
  for (const part of parts) {
    decoder.push(part)
    for (let frame = decoder.next(); frame; frame = decoder.next()) frames.push(frame)
  }
  return frames
}

const frame = (data: string | undefined, id?: string, type = 'message'): Frame => ({ id, type, data })

const vectors: Record<string, { text: string | Uint8Array; want: Frame[] }> = {
  'lines end with LF': { text: 'id: 1\ndata: a\n\ndata: b\n\n', want: [frame('a', '1'), frame('b')] },
  'lines end with CR': { text: 'id: 1\rdata: a\r\rdata: b\r\r', want: [frame('a', '1'), frame('b')] },
  'lines end with CRLF': { text: 'id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n', want: [frame('a', '1'), frame('b')] },
  'all of them in one stream': { text: 'data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\r\n', want: [frame('a\nb\nc'), frame('d')] },
  'a byte order mark': { text: '\uFEFFdata: a\n\n', want: [frame('a')] },
  'a second byte order mark is part of a name': { text: '\uFEFF\uFEFFdata: a\n\ndata: b\n\n', want: [frame('b')] },
  'an id with NUL is ignored': { text: 'id: 1\0\ndata: a\n\n', want: [frame('a')] },
  'an empty id': { text: 'id\ndata: a\n\n', want: [frame('a', '')] },
  'a bare id': { text: 'id: 7\n\n', want: [frame(undefined, '7')] },
  'one space goes, the others stay': { text: 'data:  a \ndata:b\n\n', want: [frame(' a \nb')] },
  'data without a colon, and empty': { text: 'data\n\ndata\ndata\n\ndata:\n\n', want: [frame(''), frame('\n'), frame('')] },
  'comments and unknown fields': { text: ': hello\nfoo: bar\ndata: a\n:\n\n', want: [frame('a')] },
  'a comment alone is no event': { text: ': hello\n\n\n\n', want: [] },
  'an event without data is no event': { text: 'event: x\n\ndata: a\n\n', want: [frame('a')] },
  'the newest type counts, and for one event': {
    text: 'event: x\nevent: y\ndata: a\n\ndata: b\n\n',
    want: [frame('a', undefined, 'y'), frame('b')],
  },
  'a block that is cut off is none': { text: 'data: a\n\nid: 2\ndata: b\n', want: [frame('a')] },
  'other line separators are no line breaks': { text: 'data: a\u2028b\u0085c\u2029\v\f\n\n', want: [frame('a\u2028b\u0085c\u2029\v\f')] },
  'characters of one to four bytes': { text: 'data: aé€🦊\n\n', want: [frame('aé€🦊')] },
  'invalid UTF-8': {
    text: new Uint8Array([...utf8.encode('data: '), 0xff, 0xe2, 0x82, 10, ...utf8.encode('data: b\n\n')]),
    want: [frame('\uFFFD\uFFFD\nb')],
  },
}

for (const [name, { text, want }] of Object.entries(vectors)) {
  test(`${name}, in parts of every size`, () => {
    const bytes = typeof text === 'string' ? utf8.encode(text) : text
    assert.deepEqual(decode([bytes]), want)
    assert.deepEqual(decode([...bytes].map((byte) => Uint8Array.of(byte))), want, 'byte by byte')
    for (let i = 0; i <= bytes.length; i++) {
      assert.deepEqual(decode([bytes.slice(0, i), bytes.slice(i)]), want, `cut at ${i}`)
    }
  })
}

test('an event is not late: what ends with CR is given before the next byte comes', () => {
  assert.deepEqual(decode([utf8.encode('data: a\r\n\r')]), [frame('a')])
})

test('retry counts at once, and only if it is a number', () => {
  const decoder = new Decoder()
  decode([utf8.encode('retry: 1500\nretry: 2x\nretry:\nretry: -1\n')], decoder)
  assert.equal(decoder.retry, 1500)
})

test('comments are told as their line has come', () => {
  const comments: string[] = []
  const decoder = new Decoder({ onComment: (text) => comments.push(text) })
  decode([utf8.encode(': one\n:two\n')], decoder)
  assert.deepEqual(comments, ['one', 'two'])
})

test('a line of 5 MiB in small parts, and 5,120 lines', () => {
  const long = 'x'.repeat(5 << 20)
  const bytes = utf8.encode(`data: ${long}\n\n`)
  const parts: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += 16_384) parts.push(bytes.slice(at, at + 16_384))
  const [got] = decode(parts)
  assert.ok(got?.data === long)
  const lines = Array.from({ length: 5120 }, (_, i) => `line ${i}`)
  assert.equal(decode([utf8.encode(lines.map((line) => `data: ${line}\n`).join('') + '\n')])[0]?.data, lines.join('\n'))
})

test('a line or an event that is too long is refused', () => {
  assert.throws(() => decode([utf8.encode(`data: ${'x'.repeat(200)}`)], new Decoder({ maxLength: 100 })), ProtocolError)
  const lines = utf8.encode('data: 0123456789\n'.repeat(20))
  assert.throws(() => decode([lines], new Decoder({ maxLength: 100 })), ProtocolError)
})
