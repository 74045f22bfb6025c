// What an event gives, and what does not count as one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { elementTexts, memberText } from '#esm/json.js'
import { ReceivedEvent } from '#esm/event.js'
import { formatCursor, parseCursor } from '#esm/cursor.js'
import { ProtocolError } from 'reprise'
import { cursor } from './script.js'

const time = '2026-11-20T09:30:00.000Z'
const from = (json: string, type = 'note', parse?: (text: string) => unknown) => ReceivedEvent.from(cursor(7), type, json, parse)

for (const text of ['', 'a', 'a"b', 'a\\', '\n\t\u0001', '\u2028🦊é', '","text":"', 'x"}']) {
  test(`text ${JSON.stringify(text)} is exact, whatever the form`, () => {
    const escaped = JSON.stringify(text)
    const forms = [
      `{"seq":7,"time":"${time}","text":${escaped}}`,
      `{"seq": 7, "time":"${time}", "text":${escaped}}`,
      `{"time":"${time}","text":${escaped},"seq":7}`,
      `{"seq":7,"time":"${time}","text":${escaped},"more":{"text":"no"}}`,
    ]
    for (const json of forms) {
      const event = from(json)
      assert.equal(event.text, text)
      assert.equal(event.data, text)
      assert.deepEqual(event.bytes, new TextEncoder().encode(text))
      assert.equal(event.time.toISOString(), time)
      assert.equal(event.seq, 7)
    }
  })
}

test('bytes that are no UTF-8', () => {
  const event = from(`{"seq":7,"time":"${time}","base64":"/wBh"}`)
  assert.deepEqual(event.data, Uint8Array.of(0xff, 0, 0x61))
  assert.deepEqual(event.bytes, Uint8Array.of(0xff, 0, 0x61))
  assert.equal(event.text, '\uFFFD\0a')
})

test('JSON keeps its text, and a parse function is given it', () => {
  const text = '{ "n": 12345678901234567890, "data": [1,{"}":"\\"]"}] }'
  const event = from(`{"seq":7,"time":"${time}","data":${text}}`, 'note', (json) => [json])
  assert.equal(event.text, text)
  assert.deepEqual(event.data, [text])
  assert.deepEqual(from(`{"seq":7,"time":"${time}","data":null}`).data, null)
})

test('the events of Reprise itself are objects', () => {
  const end = from(`{"seq":7,"time":"${time}","outcome":"exited","exit_code":3}`, 'end')
  assert.deepEqual(end.data, { seq: 7, time, outcome: 'exited', exit_code: 3 })
})

const damaged = [
  '',
  '{"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"a',
  '{"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"a"',
  `{"seq":7,"time":"${time}","text":"a"b"}`,
  `{"seq":7,"time":"${time}","text":"a\\"}`,
  '{"seq":0,"text":"a"}',
  '{"seq":"7","text":"a"}',
  '{"seq":1.5,"text":"a"}',
  '{"text":"a"}',
  'null',
  '[7]',
]
for (const json of damaged) {
  test(`no event: ${json}`, () => assert.throws(() => from(json), ProtocolError))
}

test('an event without a cursor is none', () => {
  assert.throws(() => ReceivedEvent.from('', 'note', `{"seq":7,"time":"${time}","text":"a"}`, undefined), ProtocolError)
})

test('members and elements are found in any JSON', () => {
  const object = ' { "a" : "}\\\\" , "\\u0062":[1, {"c":2} ] ,"d":-1.5e3,"e":true } '
  assert.equal(memberText(object, 'a'), '"}\\\\"')
  assert.equal(memberText(object, 'b'), '[1, {"c":2} ]')
  assert.equal(memberText(object, 'd'), '-1.5e3')
  assert.equal(memberText(object, 'e'), 'true')
  assert.equal(memberText(object, 'c'), undefined)
  assert.deepEqual(elementTexts('[]'), [])
  assert.deepEqual(elementTexts(' [ 1 , "a,]" ,{"b":[2,3]},[ ]] '), ['1', '"a,]"', '{"b":[2,3]}', '[ ]'])
})

test('cursors are read, and formatted back', () => {
  for (const text of [cursor(0), cursor(7), cursor(9007199254740991)]) assert.equal(formatCursor(parseCursor(text)!), text)
  const wrong = ['', '7', '07.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC', '-1.7ZK3M9Q2VTX4WB8A.0F3KQ6T2M9YVC', `${cursor(7)}x`]
  for (const text of [...wrong, cursor(9007199254740992)]) assert.equal(parseCursor(text), undefined)
})
