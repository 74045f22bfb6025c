// The client in Node behind the service contract of "reprise check-client": commands on stdin, what happened on stdout, a JSON
// object a line. The client must have been built.
import { createInterface } from 'node:readline'
import { Reprise } from '../dist/esm/index.js'
import { commands, kind } from './service-commands.mjs'

const write = (line) => process.stdout.write(`${line}\n`)
const { take, finish } = commands({ Reprise, write, base64: (bytes) => Buffer.from(bytes).toString('base64') })
write(JSON.stringify({ hello: { name: 'TypeScript, Node', ...kind } }))
for await (const line of createInterface({ input: process.stdin })) take(line)
await finish()
