import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runs } from '../src/lines/row'
import { Screen } from '../src/lines/screen'
import { bold, stderr, styleOf } from '../src/lines/style'
import { columnsOf } from '../src/lines/width'

function shown(...chunks: string[]): string[] {
  const screen = new Screen()
  chunks.forEach((chunk, i) => screen.write(chunk, 'stdout', i + 1))
  return [...screen.texts]
}

/** The text with each style in front of its run: {colour,flags}. */
function styled(...chunks: string[]): string {
  const screen = new Screen()
  for (const chunk of chunks) screen.write(chunk, 'stdout', 1)
  return screen.texts
    .map((text, line) => {
      const parts = [...runs(text, screen.styles[line]!)].map(([from, to, number]) => {
        const { fg, flags } = styleOf(number)
        return (fg < 0 && flags === 0 ? '' : `{${fg},${flags}}`) + text.slice(from, to)
      })
      return parts.join('|')
    })
    .join('\n')
}

test('lines', () => {
  assert.deepEqual(shown('a\nb'), ['a', 'b'])
  assert.deepEqual(shown('a', 'b\n', '\nc'), ['ab', '', 'c'])
  assert.deepEqual(shown('a\r\nb\r', '\nc'), ['a', 'b', 'c'])
})

test('a carriage return writes over the line', () => {
  assert.deepEqual(shown('10%\r20%\r', '100%\n'), ['100%', ''])
  assert.deepEqual(shown('12345\rab'), ['ab345'])
  assert.deepEqual(shown('12345\rab\x1b[K'), ['ab'])
  assert.deepEqual(shown('abc\b\bX'), ['aXc'])
})

test('wide characters take two columns', () => {
  assert.equal(columnsOf('日本'), 4)
  assert.equal(columnsOf('e\u0301👩‍💻x'), 4)
  assert.deepEqual(shown('日本語\r\x1b[2CX'), ['日X 語'])
  assert.deepEqual(shown('日本語\r\x1b[1CX'), [' X本語'])
})

test('the cursor moves up and down', () => {
  assert.deepEqual(shown('one\ntwo\nthree\n\x1b[2A\x1b[2Kx\n'), ['one', 'x', 'three', ''])
  assert.deepEqual(shown('a\nb\nc\x1b[1;1H\x1b[JX'), ['X', '', ''])
  assert.deepEqual(shown('a\nb\x1b[99AX'), ['aX', 'b'])
})

test('styles begin and end', () => {
  assert.equal(styled('\x1b[31mred\x1b[0m plain'), '{1,0}red| plain')
  assert.equal(styled('\x1b[1;92mbold'), `{10,${bold}}bold`)
  assert.equal(styled('\x1b[38;5;200ma\x1b[38;2;1;2;3mb'), `{200,0}a|{${0x1000000 + 0x010203},0}b`)
  assert.equal(styled('\x1b[3', '1mred'), '{1,0}red')
  assert.equal(styled('\x1b[31ma\nb\x1b[m'), '{1,0}a\n{1,0}b')
})

test('what is no text is not shown', () => {
  assert.deepEqual(shown('a\x07b\x1b]0;title\x07c\x1b]8;;http://x\x1b\\d\x1b(Be\x1b[?25lf'), ['abcdef'])
  assert.deepEqual(shown('a\x1b]0;ti', 'tle\x07b'), ['ab'])
})

test('stderr is marked', () => {
  const screen = new Screen()
  screen.write('out ', 'stdout', 1)
  screen.write('err', 'stderr', 2)
  screen.write(' out', 'stdout', 3)
  const list = [...runs(screen.texts[0]!, screen.styles[0]!)].map(([from, to, style]) => [from, to, styleOf(style).flags & stderr])
  assert.deepEqual(list, [[0, 4, 0], [4, 7, stderr], [7, 11, 0]])
})

test('lines are found by the event in which they begin', () => {
  const screen = new Screen()
  screen.write('a\nb\nc', 'stdout', 2)
  screen.write('c\nd', 'stdout', 3)
  screen.write('d', 'stdout', 4)
  screen.write('\ne\n', 'stdout', 5)
  assert.deepEqual(screen.texts, ['a', 'b', 'cc', 'dd', 'e', ''])
  const anchors = screen.texts.map((_, line) => screen.anchorOf(line))
  assert.deepEqual(anchors.map(({ seq, nth }) => `${seq}+${nth}`), ['0+0', '2+0', '2+1', '3+0', '5+0', '5+1'])
  anchors.forEach((anchor, line) => assert.equal(screen.lineAt(anchor), line))
  assert.equal(screen.lineAt({ seq: 9, nth: 0 }), -1)
})

test('the oldest lines go first', () => {
  const screen = new Screen(5, 100)
  for (let i = 1; i <= 500; i++) screen.write(`line ${i}\n`, 'stdout', i)
  assert.ok(screen.length <= 111)
  assert.equal(screen.dropped + screen.length, 501)
  assert.equal(screen.texts[0], `line ${screen.dropped + 1}`)
  assert.equal(screen.lineAt(screen.anchorOf(3)), 3)
  assert.equal(screen.lineAt({ seq: 1, nth: 0 }), -1)
})

test('any bytes in any pieces are shown as in one piece', () => {
  const text = '\x1b[31mred\x1b[0m\r\nprogress 1\rprogress 22\r\n日本\x1b[2D語\x1b]0;t\x07\x1b[1Aup\tx\b\b\x1b[K\n\x1b[1;33mend'
  const whole = styled(text)
  for (let cut = 1; cut < text.length; cut++) assert.equal(styled(text.slice(0, cut), text.slice(cut)), whole, `cut at ${cut}`)
})
