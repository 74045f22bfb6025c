#!/usr/bin/env bash
# Clients of Durable Streams, unchanged, on a Reprise server: the public tests of servers, and then the client and an EventSource
# that read through a proxy which cuts their streams, and through a SIGKILL of the server. Each gets every line once.
#
#   examples/faces/durable.sh [STORE]
#
# They are installed with npm into ${XDG_CACHE_HOME:-~/.cache}/reprise. See docs/faces/durable-streams.md.
. "$(dirname "$0")/../server.sh" build-only
store=${1:-log:$tmp/log}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/durable-0.3.6
port=$(free_ports 1)
if [ ! -e "$cache/done" ]; then
  timeout 300 npm install --silent --no-audit --no-fund --prefix "$cache" @durable-streams/client@0.2.7 eventsource@3.0.7 \
    @durable-streams/server-conformance-tests@0.3.6 vitest@4.1.10 fast-check@4.9.0
  touch "$cache/done"
fi
cp examples/faces/durable/*.mjs "$cache"

serve() { # starts a server on the data and the port of the one before, and sets $server
  : >"$tmp/serve.out"
  "$reprise" serve --listen "127.0.0.1:$port" --data "$tmp/data" --store "$store" --face durable --log-level warn \
    --allow-origin https://example.com >"$tmp/serve.out" & # the origin of the public tests
  server=$!
  children+=("$server")
  until_listening "$tmp/serve.out" >/dev/null
}
serve
REPRISE_TOKEN=$(cat "$tmp/data/token")
export REPRISE_TOKEN

(cd "$cache" && DURABLE_URL=http://127.0.0.1:$port NO_COLOR=1 timeout 400 npx vitest run --testTimeout 40000 conformance.test.mjs) >"$tmp/suite.out" 2>&1 || {
  cat "$tmp/suite.out"
  exit 1
}
grep -E "^ +Tests " "$tmp/suite.out"

"$reprise" proxy "127.0.0.1:$port" --cut 'fin@1500-6000*' >"$tmp/proxy.out" &
children+=($!)
proxy=$(until_listening "$tmp/proxy.out")
mkfifo "$tmp/back"
timeout 120 node "$cache/check.mjs" "127.0.0.1:$port" "${proxy#http://}" <"$tmp/back" >"$tmp/check.out" &
check=$!
children+=("$check")
exec {back}>"$tmp/back"
while kill -0 "$check" 2>/dev/null; do
  if grep -qs '^kill$' "$tmp/check.out" && [ ! -e "$tmp/killed" ]; then
    touch "$tmp/killed"
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    serve
    echo back >&"$back"
  fi
  sleep 0.05
done
wait "$check" || { cat "$tmp/check.out"; exit 1; }
grep -v '^kill$' "$tmp/check.out"
