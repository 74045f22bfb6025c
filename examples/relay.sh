#!/usr/bin/env bash
# The AI SDK and the SDKs of OpenAI, and a backend that streams, all of them unchanged, with a relay between and a proxy that cuts
# each connection: a page reloads in mid-answer, and programs ask again under their key. The backend counts its calls. Then the
# relay is killed in mid-answer, which nobody takes for whole.
#
# The SDKs are installed with npm and pip into ${XDG_CACHE_HOME:-~/.cache}/reprise. See docs/relay.md.
. "$(dirname "$0")/server.sh" build-only
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/relay
if [ ! -e "$cache/done" ]; then
  timeout 200 npm install --silent --no-audit --no-fund --prefix "$cache" ai@7.0.173 openai@6.49.0
  python3 -m venv --clear "$cache/python"
  timeout 300 "$cache/python/bin/pip" install --quiet --disable-pip-version-check openai==3.57.0
  touch "$cache/done"
fi
cp examples/relay/*.mjs "$cache/"

node "$cache/backend.mjs" 0 >"$tmp/backend.out" &
children+=($!)
backend=$(until_listening "$tmp/backend.out")
port=$(free_ports 1)
relay() { # starts a relay on the data and the port of the one before
  : >"$tmp/relay.out"
  "$reprise" relay "$backend" --listen "127.0.0.1:$port" --data "$tmp/data" --log-level error \
    --latest json:/id --latest-path '/api/chat/{key}/stream' >"$tmp/relay.out" &
  server=$!
  children+=("$server")
  until_listening "$tmp/relay.out" >/dev/null
}
relay
cutting() { # starts a proxy that cuts, and sets $proxy
  : >"$tmp/proxy.out"
  "$reprise" proxy "127.0.0.1:$port" --cut 'rst@2000-7000*6' >"$tmp/proxy.out" &
  children+=($!)
  proxy=$(until_listening "$tmp/proxy.out")
}
cutting
timeout 120 node "$cache/client.mjs" "http://127.0.0.1:$port" "$proxy"
cutting
timeout 120 "$cache/python/bin/python" examples/relay/client.py "$proxy"
calls=$(curl -s "$backend/calls")
[ "$calls" = 3 ] || { echo "the backend was called $calls times for 3 answers" >&2; exit 1; }
echo "3 answers, 3 calls of the backend"

# A relay that is killed.
curl -sN -d '{}' -H 'Idempotency-Key: killed' "http://127.0.0.1:$port/v1/chat/completions" >"$tmp/before" &
reader=$!
until [ "$(grep -c '^id:' "$tmp/before")" -ge 10 ]; do sleep 0.05; done
kill -KILL "$server"
wait "$server" 2>/dev/null || true
wait "$reader" || true
relay
if curl -sN -d '{}' -H 'Idempotency-Key: killed' "http://127.0.0.1:$port/v1/chat/completions" >"$tmp/after"; then
  echo "an answer that was lost was taken for whole" >&2
  exit 1
fi
[ "$(curl -s "$backend/calls")" = 4 ] || { echo "the backend was called again" >&2; exit 1; }
echo "a relay was killed: $(grep -c '^id:' "$tmp/after") events are kept, and the answer is cut off behind them"
