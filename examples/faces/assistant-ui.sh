#!/usr/bin/env bash
# The tests that assistant-ui has for its store in memory, its context and its responses, run with our store on a real server.
# Left out are those that set what the store in memory has beside the interface (its clock, bounds, a sweeper), and five that
# expect its cursors to be 1, 2 and 3, or that an end is known to the producer when its readers have it.
#
# assistant-stream is installed with npm into ${XDG_CACHE_HOME:-~/.cache}/reprise.
. "$(dirname "$0")/../server.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/assistant-ui-0.3.57
if [ ! -e "$cache/done" ]; then
  timeout 300 npm install --silent --no-audit --no-fund --prefix "$cache" assistant-stream@0.3.57 vitest@4.1.10
  touch "$cache/done"
fi
(cd sdk/typescript && npm ci --silent --no-audit --no-fund && npm run --silent build)
rm -rf "$cache/src"
cp -r "$cache/node_modules/assistant-stream/src" "$cache/src"
ln -sfn "$PWD/sdk/typescript" "$cache/node_modules/reprise"
cat >"$cache/src/resumable/ours.ts" <<'TS'
import { randomBytes } from 'node:crypto'
import { vi } from 'vitest'
import { createResumableStreamStore } from 'reprise/assistant-ui'

export function createInMemoryResumableStreamStore(options: object = {}): any {
  if (Object.keys(options).length > 0) {
    vi.useRealTimers() // the test would have done that later
    throw new Error('only of the store in memory')
  }
  const store = createResumableStreamStore({ prefix: `${randomBytes(8).toString('hex')}/` })
  return Object.assign(store, { dispose() {} })
}
TS
tests=(stores/InMemoryResumableStreamStore ResumableStreamContext createResumableAssistantStreamResponse __tests__/integration)
for test in "${tests[@]}"; do
  sed -i -E "s#from \"[./]*(stores/)?InMemoryResumableStreamStore\"#from \"$(dirname "$test" | sed -E 's#^\.$#./ours#; s#^[^.].*#../ours#')\"#" \
    "$cache/src/resumable/$test.test.ts"
done
(cd "$cache" && NO_COLOR=1 timeout 300 npx vitest run --testTimeout 30000 --reporter=json --outputFile="$tmp/out.json" "${tests[@]/#/src/resumable/}") >"$tmp/out" 2>&1 || true
node -e '
  const all = JSON.parse(require("fs").readFileSync(process.argv[1])).testResults.flatMap((file) => file.assertionResults)
  const other = /resolves without a value as finalized|onFinalize fires|with a long per-stream TTL|live updates to every reader/
  const left = all.filter((test) => other.test(test.fullName) || test.failureMessages.some((text) => text.includes("only of the store in memory")))
  const failed = all.filter((test) => test.status !== "passed" && !left.includes(test))
  for (const test of failed) console.log(test.fullName, test.failureMessages[0])
  console.log(`assistant-ui: ${all.length - left.length - failed.length} of its tests passed, ${failed.length} failed, ${left.length} left out`)
  process.exit(failed.length > 0 || all.length - left.length < 40 ? 1 : 0)' "$tmp/out.json" || { tail -30 "$tmp/out"; exit 1; }
