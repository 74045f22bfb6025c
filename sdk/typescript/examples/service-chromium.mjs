// The client in a page of Chromium behind the service contract of "reprise check-client". This program hands commands into the page
// and its answers out; every request is made by the page. The bad network of the suite answers in place of the server, without the
// headers that let a page of another origin read that, so the page may read all origins. What the server allows to other origins is
// tested by web.test.mjs.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { build } from 'esbuild'
import { launch } from './browser.mjs'
import { kind } from '../test/service-commands.mjs'

/** Runs in the page: lines go out in order, those of one moment together. */
const entry = `
  import { Reprise } from 'reprise'
  import { commands } from '../test/service-commands.mjs'
  let waiting = []
  let passing
  const pass = async () => {
    while (waiting.length > 0) await globalThis.passOut(waiting.splice(0, 1000))
    passing = undefined
  }
  const write = (line) => {
    waiting.push(line)
    passing ??= Promise.resolve().then(pass)
  }
  const base64 = (bytes) => {
    let text = ''
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192))
    return btoa(text)
  }
  const { take, finish } = commands({ Reprise, write, base64 })
  Object.assign(globalThis, { take, finish: () => finish().then(() => passing) })`

const stdin = { contents: entry, resolveDir: import.meta.dirname }
const bundle = (await build({ stdin, bundle: true, format: 'iife', write: false })).outputFiles[0].text
const pages = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html>')).listen(0, '127.0.0.1')
await once(pages, 'listening')

const browser = await launch('--disable-web-security')
const page = await browser.newPage()
page.on('pageerror', (error) => {
  console.error(error)
  process.exitCode = 1
})
await page.exposeFunction('passOut', (lines) => void process.stdout.write(lines.map((line) => `${line}\n`).join('')))
await page.goto(`http://127.0.0.1:${pages.address().port}`)
await page.addScriptTag({ content: bundle })
console.log(JSON.stringify({ hello: { name: `TypeScript, Chromium ${browser.version()}`, ...kind } }))
for await (const line of createInterface({ input: process.stdin })) await page.evaluate((command) => globalThis.take(command), line)
await page.evaluate(() => globalThis.finish())
await browser.close()
pages.close()
