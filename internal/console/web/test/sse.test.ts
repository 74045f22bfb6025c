import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseMetrics, quantile, sum } from '../src/metrics'
import { parseRoute } from '../src/route'
import { Decoder } from '../src/sse'

const wire = new TextEncoder().encode(
  'retry: 250\nid: 1.E.T\nevent: stdout\ndata: {"seq":1,"text":"日本"}\n\n: heartbeat\nid: 2.E.T\r\ndata: a\r\ndata: b\r\n\r\nid: 3\n\nevent: x\n\n',
)

function decode(...chunks: Uint8Array[]): string {
  const decoder = new Decoder()
  const frames: unknown[] = []
  for (const chunk of chunks) {
    decoder.push(chunk)
    for (let frame; (frame = decoder.next()); ) frames.push([frame.id, frame.type, frame.data])
  }
  return JSON.stringify([frames, decoder.retry])
}

test('frames are the same wherever the wire is cut', () => {
  const whole = decode(wire)
  assert.equal(
    whole,
    JSON.stringify([[['1.E.T', 'stdout', '{"seq":1,"text":"日本"}'], ['2.E.T', 'message', 'a\nb'], ['3', 'message', undefined]], 250]),
  )
  for (let cut = 1; cut < wire.length; cut++) assert.equal(decode(wire.slice(0, cut), wire.slice(cut)), whole, `cut at ${cut}`)
})

test('metrics are read', () => {
  const samples = parseMetrics(
    '# HELP x y\nruns{status="running"} 2\nruns{status="a\\"b"} 3\nup 1e+06\nt_bucket{le="0.1"} 5\nt_bucket{le="+Inf"} 10\n',
  )
  assert.equal(sum(samples, 'runs'), 5)
  assert.equal(sum(samples, 'runs', { status: 'a"b' }), 3)
  assert.equal(sum(samples, 'up'), 1_000_000)
  assert.equal(quantile(samples, 't', 0.5), 0.1)
  assert.equal(quantile(samples, 't', 0.9), Number.POSITIVE_INFINITY)
  assert.equal(quantile(samples, 'none', 0.5), undefined)
})

test('addresses name pages', () => {
  const read = (hash: string) => {
    const { page, name, query } = parseRoute(hash)
    return `${page} ${name} ${query}`
  }
  assert.equal(read(''), 'executions  ')
  assert.equal(read('#/executions?session=a%20b'), 'executions  session=a+b')
  assert.equal(read('#/streams/builds%2F42'), 'stream builds/42 ')
  assert.equal(read('#/executions/x?line=7.E.T:0'), 'execution x line=7.E.T%3A0')
  assert.equal(read('#/streams/100%'), 'stream 100% ')
  assert.equal(read('#/elsewhere'), 'none elsewhere ')
})
