// Webhooks, schedules and quotas.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { Admin } from 'reprise/admin'
import { until } from './script.js'
import { Server } from './server.js'

test('a webhook is made, tested, rotated and removed', async (t) => {
  const bodies: string[] = []
  const receiver = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => {
      bodies.push(body)
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  t.after(() => receiver.close().closeAllConnections())
  const server = await Server.start(t, '--webhook-allow', '127.0.0.0/8')
  const reprise = server.client()
  const { webhooks } = new Admin(reprise)
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  const made = await webhooks.create({ url, source: 'streams', prefix: 'jobs/', types: ['note'] })
  assert.match(made.secret!, /^whsec_/)
  assert.deepEqual([made.source, made.prefix, made.types, made.disabled], ['streams', 'jobs/', ['note'], null])
  assert.deepEqual(await webhooks.test(made.id), { status: 204 })
  assert.match(bodies.pop()!, /"webhook.test"/)
  await reprise.streams.create('jobs/1')
  await reprise.producer('jobs/1').publish([{ type: 'other', data: 1 }, { type: 'note', data: { n: 2 } }])
  await until('a message', () => bodies.length > 0)
  assert.ok(bodies.length === 1 && bodies[0]!.includes('"n":2'))
  const rotated = await webhooks.rotate(made.id)
  assert.ok(rotated.secret && rotated.secret !== made.secret && rotated.secrets.length === 2)
  assert.equal((await webhooks.show(made.id)).secret, undefined)
  assert.equal((await webhooks.enable(made.id)).disabled, null)
  assert.deepEqual((await webhooks.list()).webhooks.map((hook) => hook.id), [made.id])
  await webhooks.remove(made.id)
  assert.deepEqual((await webhooks.list()).webhooks, [])
  await assert.rejects(webhooks.show(''), { code: 'invalid' })
})

test('a schedule starts executions until it is disabled', async (t) => {
  const server = await Server.start(t)
  const reprise = server.client()
  const { schedules } = new Admin(reprise)
  const execution = { argv: ['echo', 'hi'], session: 'ticks' }
  const { id, next, created } = await schedules.create({ cron: '@every 1s', overlap: 'allow', execution })
  assert.ok(Date.parse(next!) > Date.parse(created))
  let started: string | undefined
  while (!started) started = (await schedules.show(id)).slots?.[0]?.execution
  assert.equal((await reprise.show(started)).session, 'ticks')
  const disabled = await schedules.disable(id)
  assert.ok(disabled.disabled?.reason && disabled.next === null)
  assert.ok((await schedules.enable(id)).next)
  assert.deepEqual((await schedules.list()).schedules.map((schedule) => schedule.id), [id])
  await schedules.remove(id)
  await assert.rejects(schedules.show(id), { code: 'not_found' })
  await assert.rejects(schedules.create({ cron: 'every now and then', execution }), { code: 'invalid' })
})

test('quotas are shown, and those of a key are replaced', async (t) => {
  const server = await Server.start(t)
  const reprise = server.client()
  const admin = new Admin(reprise)
  const key = await reprise.keys.create({ name: 'ci', scopes: ['read'], limits: { running: 3 } })
  assert.deepEqual((await admin.limitKey(key.id, { readers: 2 })).limits, { readers: 2 })
  const seen = await new Admin(server.client({ token: key.key })).quotas()
  const shown = await admin.quotas({ tenant: seen.tenant, principal: seen.principal! })
  for (const { quotas } of [seen, shown]) {
    const own = Object.fromEntries(quotas.filter((quota) => quota.of === 'principal').map((quota) => [quota.quota, quota]))
    assert.deepEqual([own['readers']?.limit, own['readers']?.used, own['running']?.limit], [2, 0, null])
  }
  assert.equal((await admin.quotas({ tenant: seen.tenant })).principal, null)
})
