import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandOf, isolationText, retentionOf, waitingText } from '../src/format'

test('the isolation of a run is text, its layers too', () => {
  const layers = { no_new_privileges: true, capabilities: 'reduced', hidden: 'mounts' }
  assert.equal(
    isolationText({ level: 'limits', kill: 'cgroup', memory_bytes: 'kernel', layers }),
    'level: limits, kill: cgroup, memory_bytes: kernel, no_new_privileges, capabilities: reduced, hidden: mounts',
  )
  assert.equal(isolationText({ level: 'none', kill: 'group' }), 'level: none, kill: group')
})

test('an execution that is only remembered says what became of its output', () => {
  const hour = new Date(Date.now() - 2 * 3600_000).toISOString()
  assert.equal(commandOf({ id: 'x', expired: true, expired_at: hour }), 'output expired 2 h ago')
  assert.equal(commandOf({ id: 'x', expired: true }), 'output removed to make room')
})

test('a retention has the fields that were filled in', () => {
  assert.deepEqual(retentionOf({ events: '', size: '', age: '' }), {})
  assert.deepEqual(retentionOf({ events: ' 100 ', size: '1.5', age: ' 48h' }), { max_events: 100, max_bytes: 1572864, max_age: '48h' })
})

test('a command that waits for room says since when, and what would help', () => {
  const since = new Date(Date.now() - 5 * 60_000).toISOString()
  assert.match(waitingText({ waiting: 'storage', waiting_since: since })!, /^Its output waits for storage, since 5 min ago\. End or remove streams/)
  assert.equal(waitingText({}), undefined)
})
