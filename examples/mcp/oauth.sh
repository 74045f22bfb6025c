#!/usr/bin/env bash
# Login as the authorization specification of MCP has it, with the OAuth clients of the official SDKs and a real identity
# provider (npm oidc-provider): each client finds the provider by itself, registers, sends a person there, gets a token
# for the server and nothing else, calls tools, and comes back for another scope when a tool needs it. Then a program
# gets tokens of its own, and they are tried where they are not good.
#
#   examples/mcp/oauth.sh
#
# Packages are installed as clients.sh does it; where that is not possible, it says so; when CI is set, that is a failure.
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/mcp/packages.sh
tmp=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$tmp"' EXIT

for name in oidc-provider typescript-1 typescript-2 python-1 python-2; do
  if ! fetch_package "$name" >"$tmp/install" 2>&1; then
    echo "left out: ${package[$name]} cannot be installed: $(tail -n 1 "$tmp/install")"
    [ -z "${CI:-}" ] || exit 1
    exit 0
  fi
  case $name in *python*) ;; *) cp examples/mcp/oauth/*.mjs "$(folder "$name")" ;; esac
done
go build -o "$tmp/" ./cmd/reprise ./examples/mcp/forecast

launch() { # launch NAME COMMAND...: starts a server and sets the variable NAME to its URL
  local name=$1
  shift
  "$@" >"$tmp/$name.out" 2>"$tmp/$name.log" &
  pids+=($!)
  for _ in $(seq 2400); do
    printf -v "$name" %s "$(sed -n 's/^listening on //p' "$tmp/$name.out")"
    [ -z "${!name}" ] || return 0
    sleep 0.05
  done
  echo "$name does not start:" >&2
  cat "$tmp/$name.log" >&2
  return 1
}

launch provider node "$(folder oidc-provider)/provider.mjs"
cat >"$tmp/issuers.yaml" <<END
issuers:
- issuer: $provider
  name: provider
  tenant_claim: org
  tenants: [acme]
END
launch server "$tmp/reprise" serve --data "$tmp/server" --store memory: --listen 127.0.0.1:0 --oidc-config "$tmp/issuers.yaml"
launch gateway "$tmp/reprise" gateway --data "$tmp/gateway" --store memory: --listen 127.0.0.1:0 --oidc-issuer "$provider" -- "$tmp/forecast" -stdio
failed=0

client() { # client NAME serve|gateway [MODE]: what one of the SDKs does
  local name=$1 at=$2 all said url=$server/mcp
  [ "$at" = serve ] || url=$gateway/mcp
  shift 2
  set -- "$url" "$@"
  case $name in
  typescript-1) set -- node "$(folder "$name")/typescript1.mjs" "$@" ;;
  typescript-2) set -- node "$(folder "$name")/typescript2.mjs" "$@" ;;
  *) set -- "$(folder "$name")/bin/python" examples/mcp/oauth/client.py "$@" ;;
  esac
  if all=$(timeout 60 "$@" 2>&1) && said=$(grep '^ok ' <<<"$all"); then
    echo "| ${package[$name]} | $(sed -n 's/^version //p' <<<"$all") | $at | ${said#ok } |"
  else
    echo "FAILED: ${package[$name]}, $at"
    echo "$all"
    tail -n 20 "$tmp"/*.log
    failed=1
  fi
}

echo "| client | version | of | scopes asked for |"
echo "|---|---|---|---|"
client typescript-1 serve
client typescript-2 serve legacy
client typescript-2 serve auto
client python-1 serve
client python-2 serve legacy
client python-2 serve auto
client typescript-1 gateway
client python-2 gateway auto

token() { # token RESOURCE SCOPE: a token of a program, by the grant client_credentials
  curl --silent --fail --user agent:agent-secret "$provider/token" -d grant_type=client_credentials \
    --data-urlencode "resource=$1" -d "scope=$2" | sed -n 's/.*"access_token":"\([^"]*\)".*/\1/p'
}

expect() { # expect STATUS TOKEN CURL-ARGUMENTS...
  local got
  got=$(curl --silent --output "$tmp/body" --write-out '%{http_code}' -H "Authorization: Bearer $2" "${@:3}")
  if [ "$got" != "$1" ]; then
    echo "FAILED: ${*:3}: $got, want $1: $(cat "$tmp/body")"
    failed=1
  fi
}

json='Content-Type: application/json'
program=$(token "$server" "publish read")
expect 201 "$program" -X PUT "$server/v1/streams/news" -H "$json" -d '{}'
expect 200 "$program" "$server/v1/streams/news"
expect 403 "$program" "$server/v1/executions" -H "$json" -d '{"command":"true"}'
expect 403 "$program" "$server/metrics"
expect 404 "$(cat "$tmp/server/token")" "$server/v1/streams/news" # of another tenant
for elsewhere in "$server/mcp" "$gateway" "$gateway/mcp" https://other.example.org; do
  foreign=$(token "$elsewhere" "publish read")
  [ -n "$foreign" ]
  expect 401 "$foreign" "$server/v1/streams/news"
done
expect 401 "$program" "$gateway/mcp" -H "$json" -d '{}'
expect 401 "${program%?????}AAAAA" "$server/v1/streams/news"
[ "$failed" != 0 ] || echo "tokens of a program: good for their own server, scopes and tenant alone"
exit $failed
