#!/usr/bin/env bash
# Two replicas on one store behind a load balancer, on each engine in turn: replicas are killed with
# SIGKILL and started again while clients publish, follow and run commands through the balancer, and
# what arrives is compared with what was sent, byte for byte.
#
#   examples/replicas.sh [redis|postgres|nats]...
. "$(dirname "$0")/server.sh" build-only
lines=3000
kills=4

failed=0
check() { # check WHAT COMMAND...
  if "${@:2}"; then echo "ok    $1"; else echo "FAIL  $1"; failed=1; fi
}

# balance FILE: a configuration for haproxy that spreads requests over both replicas, and knows within a
# quarter of a second which of them answer.
balance() {
  cat >"$1" <<END
defaults
  mode http
  timeout connect 1s
  timeout client 10m
  timeout server 10m
  option redispatch
  retries 2
frontend front
  bind 127.0.0.1:$front
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET /readyz
  default-server check inter 250ms fall 1 rise 1 on-marked-down shutdown-sessions
  server a 127.0.0.1:${port[a]}
  server b 127.0.0.1:${port[b]}
END
}

declare -A port pid
start() { # start REPLICA
  : >"$dir/$1.out"
  "$reprise" serve --listen "127.0.0.1:${port[$1]}" --data "$dir/$1" --secrets "$dir/secrets" --replica "$1" \
    --store "$store" --log-level error --stop-executions >"$dir/$1.out" 2>>"$dir/$1.log" &
  pid[$1]=$!
  children+=("${pid[$1]}")
  until_listening "$dir/$1.out" >/dev/null
}
slay() { # slay REPLICA
  kill -9 "${pid[$1]}"
  wait "${pid[$1]}" 2>/dev/null || true
}
# trouble REPLICA...: kills one after the other, and starts it again.
trouble() {
  for replica in "$@"; do
    sleep 0.7
    slay "$replica"
    sleep 0.3
    start "$replica"
    sleep 0.5 # the balancer finds it
  done
}

published() {
  echo "$engine: $lines lines are published and followed while replicas are killed in turn"
  seq 1 $lines | sed 's/$/ line of the stream/' >"$dir/sent"
  echo first | through "$reprise" publish news >/dev/null # the stream is there
  through "$reprise" follow --quiet --stream news >"$dir/got" &
  local follower=$!
  (while read -r line; do echo "$line"; sleep 0.0015; done <"$dir/sent") |
    through "$reprise" publish news >"$dir/published" 2>&1 &
  local publisher=$!
  trouble a b a b
  local code=0
  wait $publisher || code=$?
  check "$engine: the publisher ends with $code" test $code = 0
  through "$reprise" end news >/dev/null
  wait $follower || code=$?
  check "$engine: the follower ends with $code" test $code = 0
  check "$engine: nothing missing, nothing twice: $(wc -l <"$dir/got") lines after $kills kills" \
    cmp <(tail -n +2 "$dir/got") "$dir/sent"
}

ran() {
  echo "$engine: a command runs at replica a, is followed through the balancer, and replica b is killed"
  REPRISE_URL=http://127.0.0.1:${port[a]} "$reprise" run --detach --id job -- \
    sh -c 'i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo out $i; echo err $i >&2; sleep 0.01; done; exit 7' >/dev/null
  local code=0
  through "$reprise" follow --quiet job >"$dir/stdout" 2>"$dir/stderr" &
  local follower=$!
  trouble b b
  wait $follower || code=$?
  check "$engine: the exit code of the command: $code" test $code = 7
  check "$engine: all of stdout" cmp "$dir/stdout" <(seq 1 400 | sed 's/^/out /')
  check "$engine: all of stderr" cmp "$dir/stderr" <(seq 1 400 | sed 's/^/err /')
}

controlled() {
  echo "$engine: a command that runs at replica a is spoken to through replica b"
  REPRISE_URL=http://127.0.0.1:${port[a]} "$reprise" run --detach --stdin --id cat -- cat </dev/null >/dev/null
  echo "to the other side" | REPRISE_URL=http://127.0.0.1:${port[b]} "$reprise" input cat
  local code=0
  through "$reprise" follow --quiet cat >"$dir/cat" || code=$?
  check "$engine: its output, and exit code $code" grep -qx "to the other side" "$dir/cat"
}

lost() {
  echo "$engine: a command runs at replica a, which is killed for good"
  REPRISE_URL=http://127.0.0.1:${port[a]} "$reprise" run --detach --id doomed -- \
    sh -c 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done' >/dev/null
  local code=0 begin=$SECONDS
  through "$reprise" follow --quiet doomed >"$dir/doomed" 2>"$dir/doomed.err" &
  local follower=$!
  sleep 1.5
  slay a
  wait $follower || code=$?
  check "$engine: it ended as lost after $((SECONDS - begin)) s, and not as a success" test $code = 125
  check "$engine: what had arrived is whole: $(wc -l <"$dir/doomed") lines" \
    cmp "$dir/doomed" <(seq 1 "$(wc -l <"$dir/doomed")")
}

through() { REPRISE_URL=http://127.0.0.1:$front "$@"; }

go build -o "$tmp/engine" ./examples/engine
for engine in "${@:-redis}"; do
  dir=$tmp/$engine
  mkdir "$dir"
  "$reprise" secrets "$dir/secrets" >/dev/null # the same for all
  "$tmp/engine" "$engine" >"$dir/engine.out" &
  children+=($!)
  store=$(until_listening "$dir/engine.out")
  read -r port[a] port[b] front < <(free_ports 3)
  start a
  start b
  REPRISE_TOKEN=$(cat "$dir/secrets/token")
  export REPRISE_TOKEN
  balance "$dir/haproxy.cfg"
  haproxy -f "$dir/haproxy.cfg" -db >"$dir/haproxy.log" 2>&1 &
  children+=($!)
  for _ in $(seq 1200); do
    curl -sf "http://127.0.0.1:$front/healthz" >/dev/null && break
    kill -0 "${children[-1]}" || { cat "$dir/haproxy.log" >&2; exit 1; }
    sleep 0.1
  done
  published
  ran
  controlled
  lost
done
exit $failed
