import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Activity } from '../src/activity'

const begun = Date.parse('2026-11-23T08:00:59.990Z')
const time = (ms: number) => new Date(begun + ms).toISOString()

/** All that was counted, and the first event of each channel. */
function sum(activity: Activity) {
  let [stdout, stderr] = [0, 0]
  for (let i = 0; i < activity.length; i++) {
    stdout += activity.span(i).stdout
    stderr += activity.span(i).stderr
  }
  return { stdout, stderr }
}

test('spans are joined when they do not reach far enough, and nothing is lost by that', () => {
  const activity = new Activity()
  for (let i = 0; i < 10_000; i++) activity.add(i % 10 === 9 ? 'stderr' : 'stdout', time(i * 7), i + 1, 3)
  assert.deepEqual(sum(activity), { stdout: 27_000, stderr: 3_000 })
  assert.equal(activity.from, begun)
  assert.equal(activity.to, begun + 9_999 * 7)
  assert.equal(activity.width, 512)
  assert.ok(activity.length <= Activity.size && activity.length > Activity.size / 2)
  for (let i = 0; i < activity.length; i++) {
    const first = activity.span(i).firstStdout
    const at = (first - 1) * 7
    assert.equal(Math.floor(at / activity.width), i, `event ${first}`)
    const before = first - 2 < 0 || (first - 1) % 10 === 0 ? first - 3 : first - 2
    assert.ok(before < 0 || Math.floor((before * 7) / activity.width) < i, `event ${first} is not the first of its span`)
  }
})

test('a clock that goes back, times without milliseconds and empty output are counted', () => {
  const activity = new Activity()
  activity.add('stdout', time(100), 1, 5)
  activity.add('stdout', time(-5_000), 2, 5)
  activity.add('stderr', '2026-11-23T08:01:00Z', 3, 0)
  activity.add('stderr', 'never', 4, 9)
  assert.deepEqual(sum(activity), { stdout: 10, stderr: 1 })
  assert.deepEqual([activity.span(0).firstStdout, activity.span(0).firstStderr], [1, 3])
})

test('the next span with output is found in both directions', () => {
  const activity = new Activity()
  activity.add('stdout', time(0), 1, 1)
  activity.add('stderr', time(100), 2, 1)
  assert.deepEqual([activity.next(0, 1), activity.next(1, 1), activity.next(99, -1), activity.next(101, 1)], [0, 100, 0, -1])
})

test('a million events are counted quickly', () => {
  const times = Array.from({ length: 1000 }, (_, i) => time(i * 3))
  const activity = new Activity()
  const began = performance.now()
  for (let i = 0; i < 1_000_000; i++) activity.add('stdout', times[i % 1000]!, i + 1, 80)
  const took = performance.now() - began
  console.log(`a million events in ${took.toFixed(0)} ms`)
  assert.equal(sum(activity).stdout, 80_000_000)
  assert.ok(took < 20_000)
})
