import assert from 'node:assert/strict'
import { test } from 'node:test'
import { marksOf } from '../src/lines/marks'

const all = (line: number) => line

test('a row is marked where one of its lines matches', () => {
  assert.deepEqual(marksOf([0, 55, 56, 99], 100, 10, all), [0, 5, 9])
  assert.deepEqual(marksOf([], 100, 10, all), [])
})

test('few lines stand in many rows', () => {
  assert.deepEqual(marksOf([1], 4, 8, all), [2, 3])
})

test('what is folded away is marked where it would be', () => {
  const folded = (place: number) => (place <= 10 ? place : place + 80) // lines 11 to 90 are in line 10
  assert.deepEqual(marksOf([40, 95], 20, 20, folded), [10, 15])
})

test('a million matches take no time that is seen', () => {
  const begun = performance.now()
  marksOf(Array.from({ length: 1_000_000 }, (_, line) => line), 1_000_000, 1000, all)
  assert.ok(performance.now() - begun < 500)
})
