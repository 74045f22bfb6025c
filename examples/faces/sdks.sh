# Sourced by the examples of faces whose SDKs run commands, behind ../server.sh: starts a server with the face, and runs
# faces/NAME/check.py and check.mjs of the SDKs that are named on the command line, all by default. It expects
#   face                the name of the face
#   python, javascript  the folders in which the SDKs are installed
#   credentials         a function that sets shown, the variables of the SDKs, by port and token
mkdir "$tmp/work"
serve() { # starts a server on the data and the port of the one before, and sets $server
  : >"$tmp/serve.out"
  (cd "$tmp/work" && exec "$reprise" serve --listen "127.0.0.1:$port" --data "$tmp/data" --face "$face" --files "work=$tmp/work" \
    --log-level warn --stop-executions) >"$tmp/serve.out" &
  server=$!
  children+=("$server")
  until_listening "$tmp/serve.out" >/dev/null
}
serve
token=$(cat "$tmp/data/token")
credentials

"$reprise" proxy "127.0.0.1:$port" --cut 'fin@3000-9000*' >"$tmp/proxy.out" &
children+=($!)
proxy=$(until_listening "$tmp/proxy.out")
proxy=${proxy#http://}

# attempt NAME PROGRAM...: the program asks for a kill by a line "kill", and is told that the server is back.
attempt() {
  local name=$1
  mkfifo "$tmp/$name.back"
  env "${shown[@]}" timeout 120 "${@:2}" "127.0.0.1:$port" "$tmp/work" "$proxy" <"$tmp/$name.back" >"$tmp/$name.out" &
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
  python) attempt python "$python/bin/python" "examples/faces/$face/check.py" ;;
  javascript)
    cp "examples/faces/$face/check.mjs" "$javascript/check.mjs"
    attempt javascript node "$javascript/check.mjs"
    ;;
  *) echo "unknown: $name" >&2; exit 2 ;;
  esac
done
