import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isolationText } from '../src/format'

test('the isolation of a run is text, its layers too', () => {
  const layers = { no_new_privileges: true, capabilities: 'reduced', hidden: 'mounts' }
  assert.equal(
    isolationText({ level: 'limits', kill: 'cgroup', memory_bytes: 'kernel', layers }),
    'level: limits, kill: cgroup, memory_bytes: kernel, no_new_privileges, capabilities: reduced, hidden: mounts',
  )
  assert.equal(isolationText({ level: 'none', kill: 'group' }), 'level: none, kill: group')
})
