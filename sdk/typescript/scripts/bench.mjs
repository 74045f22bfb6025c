// Follows 100,000 events of a real server with this client, and with eventsource and JSON.parse, by turns; then the size of a
// bundle of the client. It fails where a target is missed: 3 times as fast, 17,500 bytes gzipped. Run it by "scripts/sdk-typescript bench".
import { EventSource } from '../examples/node_modules/eventsource/dist/index.js'
import { startServer } from '../dist/esm/node.js'
import { bundleSize } from './size.mjs'

const count = Number(process.env.EVENTS ?? 100_000)
const rounds = 7
const flags = ['--retain-events', String(2 * count), '--retain-bytes', '1GiB']
const { reprise, url, token, close } = await startServer({ command: process.env.REPRISE_BINARY, flags })

/** Fills a stream with pieces of an answer, as text or as JSON. */
async function fill(name, event) {
  await reprise.streams.create(name)
  const producer = reprise.producer(name)
  for (let i = 0; i < count; i += 1000) await producer.publish(Array.from({ length: 1000 }, (_, k) => event(i + k)))
  await producer.end()
}
await fill('json', (i) => ({ type: 'token', data: { index: i, text: `piece ${i} of an answer` } }))

const ours = async (name) => {
  let sum = 0
  for await (const event of reprise.streams.follow(name)) if (event.type === 'token') sum += event.data.index
  return sum
}

const headers = { Authorization: `Bearer ${token}` }
const plain = { ...headers, 'Accept-Encoding': 'identity' }

const theirs = (headers) => (name) =>
  new Promise((resolve, reject) => {
    let sum = 0
    const source = new EventSource(`${url}/v1/streams/${name}/events`, {
      fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...headers } }),
    })
    source.addEventListener('token', (event) => (sum += JSON.parse(event.data).data.index))
    source.addEventListener('end', () => {
      source.close()
      resolve(sum)
    })
    source.addEventListener('error', reject)
  })

const bytes = async (name) => {
  const response = await fetch(`${url}/v1/streams/${name}/events`, { headers: { ...plain, Accept: 'text/event-stream' } })
  for (const reader = response.body.getReader(); ; ) if ((await reader.read()).done) return want
}

const want = (count * (count - 1)) / 2
const readers = { reprise: ours, eventsource: theirs(headers), 'eventsource, no gzip': theirs(plain), 'bytes alone': bytes }
const times = Object.fromEntries(Object.keys(readers).map((name) => [name, []]))
for (let round = 0; round < rounds; round++) {
  for (const [name, read] of Object.entries(readers)) {
    globalThis.gc?.()
    const start = performance.now()
    const cpu = process.cpuUsage()
    if ((await read('json')) !== want) throw new Error(`${name} has lost something`)
    const used = process.cpuUsage(cpu)
    if (round > 0) times[name].push([performance.now() - start, (used.user + used.system) / 1000])
  }
}
await close()

const median = (list) => list.sort((a, b) => a - b)[list.length >> 1]
const ratio = (name, i) => median(times[name].map((pair, round) => pair[i] / times.reprise[round][i]))
console.log('| client | ms | ms of CPU | time and CPU time, reprise = 1 |\n|---|---|---|---|')
for (const [name, list] of Object.entries(times)) {
  const [time, cpu] = [0, 1].map((i) => median(list.map((pair) => pair[i])).toFixed(0))
  console.log(`| ${name} | ${time} | ${cpu} | ${ratio(name, 0).toFixed(2)} and ${ratio(name, 1).toFixed(2)} |`)
}
const { size, bytes: all } = await bundleSize()
console.log(`\nbundle: ${all} bytes, ${size} gzipped`)
if (ratio('eventsource', 1) < 3 || size > 17_500) process.exitCode = 1
