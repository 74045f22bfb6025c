import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytesOf } from '../src/term/keys'
import { Terminal } from '../src/term/terminal'

function drawn(text: string, cols = 10, rows = 4): string {
  const terminal = new Terminal(cols, rows)
  terminal.write(text)
  return terminal.text()
}

test('sequences may lie in pieces', () => {
  const text = 'ab\x1b[2;3Hcd\x1b]0;a title\x1b\\\x1b[1mef\x1b[0m\x1b(0q\x1b(B'
  const whole = drawn(text)
  assert.equal(whole, 'ab\n  cdef─')
  for (let at = 0; at <= text.length; at++) {
    const terminal = new Terminal(10, 4)
    terminal.write(text.slice(0, at))
    terminal.write(text.slice(at))
    assert.equal(terminal.text(), whole, `cut at ${at}`)
    assert.equal(terminal.title, 'a title')
  }
})

test('lines wrap and scroll', () => {
  assert.equal(drawn('0123456789abc'), '0123456789\nabc')
  assert.equal(drawn('1\r\n2\r\n3\r\n4\r\n5'), '2\n3\n4\n5')
  assert.equal(drawn('\x1b[?7l0123456789abc'), '012345678c')
  assert.equal(drawn('123456789日'), '123456789\n日')
})

test('the alternate screen leaves the main one as it was', () => {
  const terminal = new Terminal(10, 4)
  terminal.write('shell\x1b[?1049h\x1b[Heditor')
  assert.equal(terminal.alternate, true)
  assert.equal(terminal.text(), 'editor')
  terminal.write('\x1b[?1049l!')
  assert.equal(terminal.text(), 'shell!')
})

test('regions', () => {
  assert.equal(drawn('a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2;1H\x1b[M'), 'a\nc\n\nd')
  assert.equal(drawn('a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2;1H\x1bM'), 'a\n\nb\nd')
})

test('questions are answered', () => {
  const terminal = new Terminal(10, 4)
  const answers: string[] = []
  terminal.onAnswer = (text) => answers.push(text)
  terminal.write('ab\x1b[6n\x1b[c\x1b[5n')
  assert.deepEqual(answers, ['\x1b[1;3R', '\x1b[?62;22c', '\x1b[0n'])
})

test('a smaller terminal keeps the line of the cursor', () => {
  const terminal = new Terminal(10, 4)
  terminal.write('1\r\n2\r\n3\r\n4')
  terminal.resize(5, 2)
  assert.equal(terminal.text(), '3\n4')
  terminal.resize(8, 3)
  terminal.write('!')
  assert.equal(terminal.text(), '3\n4!')
})

test('keys', () => {
  const key = (name: string, held = '') =>
    bytesOf(
      { key: name, ctrlKey: held.includes('c'), altKey: held.includes('a'), shiftKey: held.includes('s'), metaKey: held.includes('m') },
      held.includes('k'),
    )
  assert.equal(key('a'), 'a')
  assert.equal(key('c', 'c'), '\x03')
  assert.equal(key('é'), 'é')
  assert.equal(key('b', 'a'), '\x1bb')
  assert.equal(key('ArrowUp'), '\x1b[A')
  assert.equal(key('ArrowUp', 'k'), '\x1bOA')
  assert.equal(key('ArrowLeft', 'ck'), '\x1b[1;5D')
  assert.equal(key('Delete'), '\x1b[3~')
  assert.equal(key('F5', 's'), '\x1b[15;2~')
  assert.equal(key('F1'), '\x1bOP')
  assert.equal(key('Tab', 's'), '\x1b[Z')
  assert.equal(key(' ', 'c'), '\0')
  assert.equal(key('Shift'), undefined)
  assert.equal(key('r', 'm'), undefined)
})
