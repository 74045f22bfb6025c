// Chromium's own EventSource behind the service contract of "reprise check-client", as a reader of any source:
//
//   reprise check-client --quick -- node sdk/typescript/examples/service-eventsource.mjs
//
// An EventSource sends no header of the page. A page that uses one has a cookie or a ticket in the URL; here Chromium adds the token
// to its requests, which changes nothing else of what it does. As in service-chromium.mjs the page may read all origins.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { launch } from './browser.mjs'

/** Runs in the page: lines go out in order, those of one moment together. */
function listen() {
  const sources = new Map()
  let waiting = []
  let passing
  const pass = async () => {
    while (waiting.length > 0) await globalThis.passOut(waiting.splice(0, 1000))
    passing = undefined
  }
  const say = (message) => {
    waiting.push(JSON.stringify(message))
    passing ??= Promise.resolve().then(pass)
  }
  const base64 = (text) => btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''))
  const done = (id) => {
    if (!sources.delete(id)) return
    say({ id, done: true })
  }
  globalThis.follow = ({ id, source, after }) => {
    const url = new URL(source)
    if (after) url.searchParams.set('after', after)
    const events = new EventSource(url)
    sources.set(id, events)
    for (const type of ['message', 'note', 'noise', 'end']) {
      events.addEventListener(type, (e) => say({ id, event: { type: e.type, cursor: e.lastEventId, data: base64(e.data) } }))
    }
    events.onerror = () => events.readyState === EventSource.CLOSED && done(id)
  }
  globalThis.stop = ({ id }) => {
    sources.get(id)?.close()
    done(id)
  }
  globalThis.finish = () => passing
}

const pages = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html>')).listen(0, '127.0.0.1')
await once(pages, 'listening')
const browser = await launch('--disable-web-security')
const page = await browser.newPage()
await page.exposeFunction('passOut', (lines) => void process.stdout.write(lines.map((line) => `${line}\n`).join('')))
await page.goto(`http://127.0.0.1:${pages.address().port}`)
await page.evaluate(listen)
console.log(JSON.stringify({ hello: { name: `EventSource, Chromium ${browser.version()}`, kind: 'sse', can: [] } }))
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  if (command.token) await page.setExtraHTTPHeaders({ Authorization: `Bearer ${command.token}` })
  await page.evaluate((c) => (c.do === 'stop' ? globalThis.stop(c) : globalThis.follow(c)), command)
}
await page.evaluate(() => globalThis.finish())
await browser.close()
pages.close()
