#!/usr/bin/env bash
# Does what the quick start of the README says, word for word: takes the commands out
# of README.md, runs them against a server that was started as it says, but on a
# free port and with a state directory of its own, and checks what they print.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$tmp"
}
trap finish EXIT

# The first block of the section is the quick start.
awk '/^## Quick start/ { section = 1 } section && /^```$/ && block { exit }
  block { print } section && /^```sh$/ { block = 1 }' README.md >"$tmp/commands"
test -s "$tmp/commands"
if [ "$(wc -l <"$tmp/commands")" -gt 25 ]; then
  echo "the quick start has more than 25 lines" >&2
  exit 1
fi

export XDG_STATE_HOME=$tmp/state
go build -o "$tmp/reprise" ./cmd/reprise
: >"$tmp/serve.out" # it may be read before the server is started
REPRISE_LISTEN=127.0.0.1:0 REPRISE_LOG_LEVEL=warn REPRISE_STOP_EXECUTIONS=true "$tmp/reprise" serve >"$tmp/serve.out" &
server=$!
for _ in $(seq 1200); do
  url=$(sed -n 's/^listening on //p' "$tmp/serve.out")
  [ -n "$url" ] && break
  sleep 0.1
done
export REPRISE_URL=$url

# The port and the place of the token are the only things that differ. part1 is left
# in a folder of ours.
sed -e "s|http://127.0.0.1:7070|$url|" -e "s|~/.local/state|$XDG_STATE_HOME|" \
  -e "s|-o bin/ |-o $tmp/bin/ |" -e "s|bin/reprise run|$tmp/bin/reprise run|; s|bin/reprise follow|$tmp/bin/reprise follow|" \
  -e "s|part1|$tmp/part1|" "$tmp/commands" >"$tmp/quickstart"
bash "$tmp/quickstart" >"$tmp/out" 2>"$tmp/err" || true
cat "$tmp/out" "$tmp/err"

failed=0
expect() { # expect COUNT REGEXP
  if [ "$(grep -cE "$2" "$tmp/out")" != "$1" ]; then
    echo "FAIL: expected $1 times: $2" >&2
    failed=1
  fi
}
for i in 1 2 3 4 5 6 7 8 9; do
  expect 1 "\"text\":\"line $i\\\\n\"" # once over both connections
  expect 1 "^line $i\$"                # and once by the client
done
expect 1 '^exit code 0$'
expect 1 '^exit code 3$'
grep -q '^err$' "$tmp/err" || { echo "FAIL: no stderr" >&2; failed=1; }
if grep -q '^event: end' "$tmp/part1" 2>/dev/null; then
  echo "FAIL: the first connection was not killed" >&2
  failed=1
fi
[ $failed = 0 ] && echo "the quick start does what it says"
exit $failed
