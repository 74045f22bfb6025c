// Follows 100,000 events of a real server with this client, and with eventsource and JSON.parse, by turns; then the size of a
// bundle of the client. It fails where a target is missed: 3 times as fast, 15 KB gzipped. Run it by "scripts/sdk-typescript bench".
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

const theirs = (name) =>
  new Promise((resolve, reject) => {
    let sum = 0
    const headers = { Authorization: `Bearer ${token}` }
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

const want = (count * (count - 1)) / 2
const times = { ours: [], theirs: [] }
for (let round = 0; round < rounds; round++) {
  for (const [name, read] of Object.entries({ ours, theirs })) {
    const start = performance.now()
    const cpu = process.cpuUsage()
    if ((await read('json')) !== want) throw new Error(`${name} has lost something`)
    const used = process.cpuUsage(cpu)
    if (round > 0) times[name].push([performance.now() - start, (used.user + used.system) / 1000])
  }
}
await close()

const median = (list, i) => list.map((pair) => pair[i]).sort((a, b) => a - b)[list.length >> 1]
const rate = (ms) => `${Math.round(count / ms)} events/ms`
for (const [name, list] of Object.entries(times)) {
  console.log(`${name.padEnd(7)} ${median(list, 0).toFixed(0)} ms (${rate(median(list, 0))}), ${median(list, 1).toFixed(0)} ms of CPU`)
}
const ratios = [0, 1].map((i) => median(times.theirs, i) / median(times.ours, i))
console.log(`ratio   ${ratios[0].toFixed(2)} in time, ${ratios[1].toFixed(2)} in CPU`)

const { size, bytes } = await bundleSize()
console.log(`bundle  ${bytes} bytes, ${size} gzipped`)
if (ratios[0] < 3 || size > 15_000) process.exitCode = 1
