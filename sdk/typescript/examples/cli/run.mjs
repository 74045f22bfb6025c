#!/usr/bin/env node
// Runs a command on the server as if it were here, and exits as it did: run.mjs make test
import { Reprise } from 'reprise'
import { localToken } from 'reprise/node'

const reprise = new Reprise({ token: process.env.REPRISE_TOKEN ?? (await localToken()) })
for await (const event of reprise.run({ argv: process.argv.slice(2), hold: '1m' })) {
  if (event.type === 'stdout' || event.type === 'stderr') process[event.type].write(event.bytes)
  if (event.type === 'end') process.exitCode = event.data.exit_code ?? 125
}
