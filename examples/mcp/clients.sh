#!/usr/bin/env bash
# Calls the forecast, which takes six seconds, with each client that there is for MCP, over connections that break: once in
# mid-call, and then all of them when they are two seconds old. What a client gets is compared with what was sent, and
# the server says whether it has computed anything twice. The table is in docs/internals/mcp.md.
#
#   examples/mcp/clients.sh [gateway|long] [go|mcp-go|typescript-1|typescript-2|python-1|python-2|fastmcp|openai-agents|langchain|ai-sdk]...
#
# With "gateway" the forecast is a server over stdio that knows nothing of all this, behind "reprise gateway". With "long" it
# is too, and takes a minute through a proxy that resets each connection after 50 seconds, and then 10 seconds over a
# connection that breaks three times. The clients choose the version of the protocol by themselves.
#
# The SDKs for TypeScript and Python are installed with npm and pip into ${XDG_CACHE_HOME:-~/.cache}/reprise; where that is
# not possible, their clients are left out, and it says so; when CI is set, that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/mcp/packages.sh
tmp=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null || true; wait; rm -rf "$tmp"' EXIT

# What is called besides, and with what.
package[go]="the Go SDK $(go list -m -f '{{.Version}}' github.com/modelcontextprotocol/go-sdk)"
package[mcp-go]="mcp-go $(go list -m -f '{{.Version}}' github.com/mark3labs/mcp-go)"
declare -A script=([typescript-1]=typescript1.mjs [typescript-2]=typescript2.mjs
  [python-1]=python1.py [python-2]=python2.py [fastmcp]=fastmcp_client.py
  [openai-agents]=openai_agents.py [langchain]=langchain.py [ai-sdk]=ai_sdk.mjs)

install() { # install NAME: what the client needs; fails if it cannot be had
  case $1 in
  go | mcp-go) return ;;
  typescript-* | ai-sdk) fetch_package "$1" && cp "examples/mcp/clients/${script[$1]}" "$(folder "$1")/cut-${script[$1]}" ;; # oauth.sh has files of these names there
  *) fetch_package "$1" ;;
  esac
}

call() { # call NAME URL: runs the client
  local dir
  dir=$(folder "$1")
  case $1 in
  go) timeout 300 "$tmp/client" -url "$2" -drop 0 ;;
  mcp-go) timeout 300 "$tmp/mcpgo" "$2" Oslo ;;
  typescript-* | ai-sdk) timeout 300 node "$dir/cut-${script[$1]}" "$2" Oslo ;;
  python-2 | fastmcp) timeout 300 "$dir/bin/python" "examples/mcp/clients/${script[$1]}" "$2" Oslo $mode ;;
  *) timeout 300 "$dir/bin/python" "examples/mcp/clients/${script[$1]}" "$2" Oslo ;;
  esac
}

address() { # address FILE: waits until a program has said where it listens
  for _ in $(seq 2400); do
    sed -n 's/^listening on \(http:\/\/\)\{0,1\}\([^/]*\).*/\2/p' "$1" | grep . && return
    sleep 0.05
  done
  echo "nothing listens: $1" >&2
  return 1
}

attempt() { # attempt NAME FOLDER OPTIONS...: one call over a bad network, with a server of its own; a day takes $day
  local dir=$2 pids=()
  mkdir "$dir"
  touch "$dir"/{server,cut}
  local server=("$tmp/forecast" -listen 127.0.0.1:0)
  [ "$kind" = direct ] || server=("$tmp/reprise" gateway --auth none --listen 127.0.0.1:0 --data "$dir/data"
    --mcp-versions "$versions" -- "$tmp/forecast" -stdio -day "$day")
  "${server[@]}" >"$dir/server" 2>&1 &
  pids+=($!)
  "$tmp/reprise" proxy "$(address "$dir/server")" "${@:3}" >"$dir/cut" 2>&1 &
  pids+=($!)
  call "$1" "http://$(address "$dir/cut")/mcp" 2>"$dir/errors" >"$dir/said" || true
  sed 's/\.0$//' "$dir/said" >"$dir/out" # Python says 1.0 where others say 1
  kill "${pids[@]}"
}

reports() { sed -n 's/^progress //p' "$1/out" | paste -sd ' '; }
count() { grep -c "$1" "$2" || true; }

judge() { # judge NAME: a line of the table; fails if the client did not get what it must
  local once=$tmp/$1-once often=$tmp/$1-often good=0 dir
  for dir in "$once" "$often"; do
    [ "$(count '^result Sunny in Oslo, for six days.$' "$dir/out")" = 1 ] &&
      [ "$(count 'is begun' "$dir/server")" = 1 ] && [ "$(count '^cut' "$dir/cut")" -ge 1 ] || good=1
  done
  [ "$(reports "$once")" = "1 2 3 4 5 6" ] || good=1
  echo "| ${package[$1]} | $(sed -n 's/^version //p' "$once/out") | $(reports "$once") | $(count '^result' "$once/out")" \
    "| $(count '^cut' "$often/cut") | $(reports "$often") | $(count '^result' "$often/out") | $(count 'is begun' "$often/server") |"
  [ $good = 0 ] || tail -n 20 "$once"/{out,errors,server,cut} "$often"/{out,errors,server,cut}
  return $good
}

judge_long() { # judge_long NAME: a line of the table; fails if a call was not answered once, or not cut
  local good=0 line="| ${package[$1]} |" dir
  for dir in "$tmp/$1-minute" "$tmp/$1-often"; do
    [ "$(count '^result Sunny in Oslo, for six days.$' "$dir/out")" = 1 ] &&
      [ "$(count 'is begun' "$dir/server")" = 1 ] && [ "$(count '^cut' "$dir/cut")" -ge 1 ] || good=1
    line+=" $(count '^cut' "$dir/cut") | $(count '^result' "$dir/out") | $(count 'is begun' "$dir/server") |"
  done
  echo "$line"
  [ $good = 0 ] || tail -n 20 "$tmp/$1"-{minute,often}/{out,errors,server,cut}
  return $good
}

kind=direct mode='' day=1s clients='go mcp-go typescript-1 typescript-2 python-1 python-2 fastmcp'
versions=2026-07-28,2025-11-25,2025-06-18,2025-03-26
case ${1:-} in
gateway) kind=gateway && shift ;;
long)
  kind=long mode=auto clients='typescript-2 python-2 fastmcp openai-agents langchain ai-sdk'
  versions=2025-11-25,2025-06-18,2025-03-26
  shift
  ;;
esac
go build -o "$tmp/" ./cmd/reprise ./examples/mcp/forecast ./examples/mcp/forecast/client ./examples/mcp/clients/mcpgo
failed=0 ready=()
for name in "${@:-$clients}"; do
  for name in $name; do
    if install "$name" >"$tmp/install" 2>&1; then
      ready+=("$name")
    else
      echo "left out: ${package[$name]} cannot be installed: $(tail -n 1 "$tmp/install")"
      [ -z "${CI:-}" ] || failed=1
    fi
  done
done
waiting=()
for name in "${ready[@]}"; do
  if [ $kind = long ]; then
    day=10s attempt "$name" "$tmp/$name-minute" --cut 'rst@50s*100' &
    waiting+=($!)
    day=1670ms attempt "$name" "$tmp/$name-often" --cut 'rst@3s*3' &
    waiting+=($!)
    continue
  fi
  attempt "$name" "$tmp/$name-once" --on tools/call --cut rst@2s &
  waiting+=($!)
  attempt "$name" "$tmp/$name-often" --cut 'rst@2s*100' &
  waiting+=($!)
done
wait "${waiting[@]}"
if [ $kind = long ]; then
  echo "| client | a minute, cut every 50 s: cuts | results | computed | 10 s, cut every 3 s: cuts | results | computed |"
  echo "|---|---|---|---|---|---|---|"
  for name in "${ready[@]}"; do judge_long "$name" || failed=1; done
  exit $failed
fi
echo "| client | version | one break: progress | results | many breaks | progress | results | computed |"
echo "|---|---|---|---|---|---|---|---|"
for name in "${ready[@]}"; do judge "$name" || failed=1; done
exit $failed
