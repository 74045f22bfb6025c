#!/usr/bin/env bash
# An interpreter that remembers, while its server is killed and started again: what was declared before is there
# afterwards, and the code that ran meanwhile has all of its output and its result.
. "$(dirname "$0")/server.sh" build-only
port=$(free_ports 1)
serve() { # starts a server and sets $server
  : >"$tmp/serve.out"
  "$reprise" serve --listen "127.0.0.1:$port" --data "$tmp/data" --log-level warn >"$tmp/serve.out" &
  server=$!
  children+=("$server")
  REPRISE_URL=$(until_listening "$tmp/serve.out")
  REPRISE_TOKEN=$(cat "$tmp/data/token")
  export REPRISE_URL REPRISE_TOKEN
}

serve
id=$("$reprise" interpreter open python)
run() { "$reprise" run --quiet --interpreter "$id" "$@"; }
run 'squares = []'
job=$(run --detach '
import time
for n in range(1, 9):
    squares.append(n * n)
    print("square", n)
    time.sleep(0.25)
sum(squares)')
sleep 0.5
kill -KILL "$server"
wait "$server" 2>/dev/null || true
echo "killed the server; the code goes on"
sleep 1
serve
"$reprise" follow "$job" | tee "$tmp/got"
run 'squares' | tee "$tmp/after"
"$reprise" interpreter rm "$id"
kill "$server"
wait "$server"
printf 'square %d\n' 1 2 3 4 5 6 7 8 >"$tmp/want"
echo 204 >>"$tmp/want"
cmp "$tmp/got" "$tmp/want"
test "$(cat "$tmp/after")" = "[1, 4, 9, 16, 25, 36, 49, 64]"
echo "ok    every line once, the result, and what was declared"
