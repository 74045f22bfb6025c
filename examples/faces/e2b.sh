#!/usr/bin/env bash
# The SDKs of E2B, unchanged, run commands and code on a Reprise server: through a proxy that cuts their streams, and
# through a SIGKILL of the server in mid-command. Each gets every line once, and the exit code.
#
#   examples/faces/e2b.sh [python] [javascript]
#
# The SDKs are installed with pip and npm into ${XDG_CACHE_HOME:-~/.cache}/reprise. See docs/faces/e2b.md.
. "$(dirname "$0")/../server.sh" build-only
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/e2b
wanted=${*:-python javascript}
port=$(free_ports 1)

python=$cache/python-2.63.0
if [[ " $wanted " = *" python "* && ! -e $python/done ]]; then
  python3 -m venv --clear "$python"
  timeout 300 "$python/bin/pip" install --quiet --disable-pip-version-check e2b==2.63.0
  touch "$python/done"
fi
javascript=$cache/javascript-2.51.0
if [[ " $wanted " = *" javascript "* && ! -e $javascript/done ]]; then
  timeout 200 npm install --silent --no-audit --no-fund --prefix "$javascript" e2b@2.51.0 @e2b/code-interpreter@2.8.0
  touch "$javascript/done"
fi

mkdir "$tmp/work"
serve() { # starts a server on the data and the port of the one before, and sets $server
  : >"$tmp/serve.out"
  (cd "$tmp/work" && exec "$reprise" serve --listen "127.0.0.1:$port" --data "$tmp/data" --face e2b --files "work=$tmp/work" \
    --log-level warn --stop-executions) >"$tmp/serve.out" &
  server=$!
  children+=("$server")
  until_listening "$tmp/serve.out" >/dev/null
}
serve
token=$(cat "$tmp/data/token")

"$reprise" proxy "127.0.0.1:$port" --cut 'fin@3000-9000*' >"$tmp/proxy.out" &
children+=($!)
proxy=$(until_listening "$tmp/proxy.out")
proxy=${proxy#http://}

# attempt NAME PROGRAM...: the program asks for a kill by a line "kill", and is told that the server is back.
attempt() {
  local name=$1 line
  mkfifo "$tmp/$name.back"
  E2B_API_KEY=$token E2B_API_URL=http://127.0.0.1:$port/e2b E2B_SANDBOX_URL=http://127.0.0.1:$port/e2b timeout 120 "${@:2}" "127.0.0.1:$port" "$proxy" <"$tmp/$name.back" >"$tmp/$name.out" &
  local program=$!
  exec {back}>"$tmp/$name.back"
  while kill -0 "$program" 2>/dev/null; do
    if grep -qs '^kill$' "$tmp/$name.out" && [ ! -e "$tmp/$name.killed" ]; then
      touch "$tmp/$name.killed"
      kill -KILL "$server"
      wait "$server" 2>/dev/null || true
      serve
      echo back >&"$back"
    fi
    sleep 0.05
  done
  exec {back}>&-
  wait "$program" || { cat "$tmp/$name.out"; echo "the SDK for $name failed" >&2; return 1; }
  grep -v '^kill$' "$tmp/$name.out" | sed "s/^/$name: /"
}

for name in $wanted; do
  case $name in
  python) attempt python "$python/bin/python" examples/faces/e2b/check.py ;;
  javascript)
    cp examples/faces/e2b/check.mjs "$javascript/check.mjs"
    attempt javascript node "$javascript/check.mjs"
    ;;
  *) echo "unknown: $name" >&2; exit 2 ;;
  esac
done
