# Sourced by the examples: builds reprise, starts a server of its own on a free port with
# a temporary data directory, and ends both with the script. Sets:
#   tmp      a temporary folder
#   reprise  the binary
# and REPRISE_URL and REPRISE_TOKEN for clients. With the argument "build-only" it starts no server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tmp=$(mktemp -d)
children=()
finish() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  for child in "${children[@]}"; do wait "$child" 2>/dev/null || true; done
  rm -rf "$tmp"
}
trap finish EXIT

# until_listening FILE: the address that a program has printed into FILE.
until_listening() {
  for _ in $(seq 1200); do
    sed -n 's/^listening on //p' "$1" | grep . && return
    sleep 0.1
  done
  echo "nothing listens; see below" >&2
  cat "$1" >&2
  return 1
}

# free_ports COUNT: different ones, below those that the system gives to others, who could take them before they are used, or
# while a server is away.
free_ports() {
  python3 -c '
import random, socket, sys
found = []
while len(found) < int(sys.argv[1]):
    try:
        found.append(socket.socket())
        found[-1].bind(("127.0.0.1", random.randrange(10000, 32000)))
    except OSError:
        found.pop()
print(*(s.getsockname()[1] for s in found))' "$1"
}

go build -o "$tmp/reprise" ./cmd/reprise
reprise=$tmp/reprise
if [ "${1:-}" != build-only ]; then
  : >"$tmp/serve.out" # it may be read before the server is started
  "$reprise" serve --listen 127.0.0.1:0 --data "$tmp/data" --log-level warn --stop-executions >"$tmp/serve.out" &
  children+=($!)
  REPRISE_URL=$(until_listening "$tmp/serve.out")
  REPRISE_TOKEN=$(cat "$tmp/data/token")
  export REPRISE_URL REPRISE_TOKEN
fi
