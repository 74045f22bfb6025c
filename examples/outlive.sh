#!/usr/bin/env bash
# A build goes on while its server is killed three times and replaced by another build of the program, whose file was removed
# meanwhile. A client that follows the build all the while gets every byte of it once, and its exit code.
. "$(dirname "$0")/server.sh" build-only
port=$(free_ports 1)
serve() { # serve PROGRAM: starts a server and sets $server
  : >"$tmp/serve.out" # what the server before has said
  "$1" serve --listen "127.0.0.1:$port" --data "$tmp/data" --log-level warn >"$tmp/serve.out" &
  server=$!
  children+=("$server")
  REPRISE_URL=$(until_listening "$tmp/serve.out")
  REPRISE_TOKEN=$(cat "$tmp/data/token")
  export REPRISE_URL REPRISE_TOKEN
}
killed() {
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
}

cp "$reprise" "$tmp/reprise-old"
serve "$tmp/reprise-old"
rm "$tmp/reprise-old"
code=0
: >"$tmp/got.stdout" >"$tmp/got.stderr" # the client may be slower than what reads them
build="go build -x -a -p 1 ./sse"
"$reprise" run --quiet --id build --retain-events 1000000 --retain-bytes 1GiB --cwd "$PWD" \
  --env GOCACHE="$tmp/cache" --env GOFLAGS=-buildvcs=false -- sh -c "$build; echo the build is over; exit 7" \
  >"$tmp/got.stdout" 2>"$tmp/got.stderr" &
client=$!
for i in 1 2 3; do
  before=$(wc -c <"$tmp/got.stderr")
  for _ in $(seq 300); do
    [ "$(wc -c <"$tmp/got.stderr")" -gt $((before + 2000)) ] && break
    sleep 0.1
  done
  killed
  echo "killed the server after $(wc -c <"$tmp/got.stderr") bytes of the build"
  sleep 1 # nobody is there, and the build goes on
  serve "$reprise"
done
wait "$client" || code=$?

auth="Authorization: Bearer $REPRISE_TOKEN"
for channel in stdout stderr; do
  curl -sSf -H "$auth" "$REPRISE_URL/v1/executions/build/$channel" >"$tmp/kept.$channel"
done
failed=0
check() { # check WHAT COMMAND...
  if "${@:2}"; then echo "ok    $1"; else echo "FAIL  $1"; failed=1; fi
}
check "exit code $code" test "$code" = 7
check "the end of the build was seen once" test "$(cat "$tmp/got.stdout")" = "the build is over"
check "there is something to compare: $(wc -c <"$tmp/kept.stderr") bytes" test "$(wc -c <"$tmp/kept.stderr")" -gt 50000
for channel in stdout stderr; do
  check "$channel is what the server has kept" cmp "$tmp/got.$channel" "$tmp/kept.$channel"
done
"$reprise" show build
kill "$server"
wait "$server" || failed=1
exit $failed
