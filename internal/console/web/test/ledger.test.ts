import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ledger } from '../src/ledger'

function take(ledger: Ledger, from: number, to: number): void {
  for (let seq = from; seq <= to; seq++) ledger.event(seq)
}

test('what was missed while away is replayed', () => {
  const ledger = new Ledger()
  ledger.connected(0)
  take(ledger, 1, 10)
  ledger.disconnected()
  ledger.moved(25)
  ledger.connected(30)
  take(ledger, 11, 35)
  assert.deepEqual(ledger.absence, { after: 10, tail: 30, replayed: 20, gone: 0 })
  assert.deepEqual([ledger.received, ledger.live, ledger.replayed, ledger.duplicates], [35, 15, 20, 0])
  assert.deepEqual(ledger.parts.map(({ kind, from, to }) => `${kind} ${from}-${to}`), ['live 1-10', 'replayed 11-30', 'live 31-35'])
  assert.ok(ledger.whole)
})

test('a duplicate is counted and not handed on', () => {
  const ledger = new Ledger()
  take(ledger, 1, 3)
  assert.equal(ledger.event(3), false)
  assert.equal(ledger.duplicates, 1)
  assert.equal(ledger.received, 3)
  assert.ok(ledger.whole)
})

test('a hole that no gap explains is found', () => {
  const ledger = new Ledger()
  take(ledger, 1, 3)
  take(ledger, 5, 6)
  assert.equal(ledger.holes, 1)
  assert.equal(ledger.whole, false)
})

test('a gap accounts for what it tells of', () => {
  const ledger = new Ledger()
  ledger.connected(100)
  take(ledger, 51, 60)
  assert.deepEqual([ledger.gaps, ledger.missed, ledger.received], [1, 50, 10])
  ledger.gap(80)
  take(ledger, 81, 100)
  assert.ok(ledger.whole)
  assert.equal(ledger.missed, 70)
})

test('a fork takes events back', () => {
  const ledger = new Ledger()
  ledger.connected(0)
  take(ledger, 1, 10)
  ledger.fork(7, 3)
  take(ledger, 8, 12)
  assert.ok(ledger.whole)
  assert.deepEqual([ledger.received, ledger.last, ledger.takenBack], [12, 12, 3])
})

test('a connection that is lost while it replays belongs to the same absence', () => {
  const ledger = new Ledger()
  take(ledger, 1, 5)
  ledger.connected(5)
  ledger.disconnected()
  ledger.connected(20)
  take(ledger, 6, 10)
  ledger.disconnected()
  ledger.connected(22)
  take(ledger, 11, 22)
  assert.deepEqual(ledger.absence, { after: 5, tail: 22, replayed: 17, gone: 0 })
})
