// The client in Node, Deno or Bun behind the service contract of "reprise check-client": commands on stdin, what happened on
// stdout, a JSON object a line. The client must have been built.
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { Reprise } from '../dist/esm/index.js'
import { commands, kind } from './service-commands.mjs'

const { bun, deno, node } = process.versions
const runtime = bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`

const write = (line) => process.stdout.write(`${line}\n`)
const { take, finish } = commands({ Reprise, write, base64: (bytes) => Buffer.from(bytes).toString('base64') })
const can = deno ? kind.can : [...kind.can, 'tls'] // Deno is told what to trust in another way
write(JSON.stringify({ hello: { name: `TypeScript, ${runtime}`, ...kind, can } }))
for await (const line of createInterface({ input: process.stdin })) take(line)
await finish()
