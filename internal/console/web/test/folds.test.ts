import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Folds } from '../src/lines/folds'
import { Screen } from '../src/lines/screen'

function folds(text: string): Folds {
  const screen = new Screen()
  screen.write(text, 'stdout', 1)
  const folds = new Folds(screen)
  folds.advance()
  return folds
}

/** The lines that are shown. */
const shown = (f: Folds) => Array.from({ length: f.length }, (_, index) => f.lineOf(index))

test('groups are folded into their first line', () => {
  const f = folds('a\n::group::one\nb\nc\n::endgroup::\nd\n::group::two\ne\n')
  assert.deepEqual(shown(f), [0, 1, 2, 3, 4, 5, 6, 7, 8])
  f.toggle(1)
  assert.deepEqual(shown(f), [0, 1, 5, 6, 7, 8])
  assert.deepEqual([0, 1, 2, 4, 5, 8].map((line) => f.indexOf(line)), [0, 1, 1, 1, 2, 5])
  f.foldAll(true)
  assert.deepEqual(shown(f), [0, 1, 5, 6])
  assert.deepEqual([1, 5, 6].map((line) => f.at(line)), ['folded', undefined, 'folded'])
  f.reveal(3)
  assert.deepEqual(shown(f), [0, 1, 2, 3, 4, 5, 6])
  f.foldAll(false)
  assert.equal(f.length, 9)
})

test('a group ends where the next one begins', () => {
  const f = folds('::group::one\na\n::group::two\nb\n::endgroup::\nc\n')
  f.foldAll(true)
  assert.deepEqual(shown(f), [0, 2, 5, 6])
  f.toggle(5) // no group
  assert.deepEqual(shown(f), [0, 2, 5, 6])
})

test('there are no groups in other output', () => {
  const f = folds(': a\n::endgroup::\n ::group::\n')
  assert.equal(f.any, false)
  f.foldAll(true)
  assert.equal(f.length, 4)
})
