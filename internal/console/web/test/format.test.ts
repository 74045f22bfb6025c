import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandOf, isolationText } from '../src/format'

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
