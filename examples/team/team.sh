#!/usr/bin/env bash
# A team on one server: two tenants, five agents with API keys, a person who logs in at an identity provider, and an
# auditor. It shows who sees what, a key that is revoked under an open stream, and the record of it all, and fails
# where somebody sees too much or too little.
#
#   examples/team/team.sh
#
# The provider is npm oidc-provider, see examples/mcp/oauth; where it cannot be installed, it says so; when CI is set,
# that is a failure.
cd "$(dirname "$0")/../.."
. examples/server.sh build-only
. examples/mcp/packages.sh

if ! fetch_package oidc-provider >"$tmp/install" 2>&1; then
  echo "left out: ${package[oidc-provider]} cannot be installed: $(tail -n 1 "$tmp/install")"
  [ -z "${CI:-}" ] || exit 1
  exit 0
fi
provider=$(folder oidc-provider)
cp examples/mcp/oauth/*.mjs "$provider"
: >"$tmp/provider.out" # it may be read before the provider is started
: >"$tmp/serve.out"
node "$provider/provider.mjs" >"$tmp/provider.out" 2>"$tmp/provider.log" &
children+=($!)
issuer=$(until_listening "$tmp/provider.out")
cat >"$tmp/issuers.yaml" <<END
issuers:
- issuer: $issuer
  name: provider
  tenant_claim: org # which the provider says of each person
  tenants: [acme]
END
"$reprise" serve --listen 127.0.0.1:0 --data "$tmp/data" --log-level warn --stop-executions --audit \
  --oidc-config "$tmp/issuers.yaml" >"$tmp/serve.out" &
children+=($!)
REPRISE_URL=$(until_listening "$tmp/serve.out")
export REPRISE_URL

as() { # as NAME ARGUMENTS...: a verb of reprise as somebody
  local name=$1
  shift
  REPRISE_TOKEN=$(cat "$tmp/$name") timeout 60 "$reprise" "$@"
}
must() { # must WANT TEXT: the text has to match
  grep -q -E -- "$1" <<<"$2" || { echo "FAILED: want $1 in: $2" >&2; exit 1; }
}
refused() { # refused WANT NAME ARGUMENTS...: the verb has to fail, and to say why
  local said
  if said=$(as "${@:2}" 2>&1); then
    echo "FAILED: $2 may ${*:3}: $said" >&2
    exit 1
  fi
  must "$1" "$said"
}

echo "== the admin makes keys: five agents in two tenants, and an auditor"
cp "$tmp/data/token" "$tmp/admin"
agent() { # agent NAME TENANT SCOPES...
  local scopes=()
  for scope in "${@:3}"; do scopes+=(--scope "$scope"); done
  as admin key add "$1" --tenant "$2" --ttl 24h "${scopes[@]}" >"$tmp/$1"
}
agent builder acme run:build- read:build- control:build-
agent tester acme run:test- read:test- control:test-
agent reporter acme publish:report/ read:report/
agent spider umbrella run read control
agent archivist umbrella read
agent auditor default audit
as admin key list

echo "== alice logs in at the provider, and gets a token for this server"
node "$provider/login.mjs" "$issuer" "$REPRISE_URL" "read run" >"$tmp/alice"

echo "== everybody works"
must '^built$' "$(as builder run --id build-1 --session build-1 -- echo built)"
must '^tested$' "$(as tester run --id test-1 --session test-1 -- echo tested)"
must '^crawled$' "$(as spider run --id crawl-1 -- echo crawled)"
must '^by hand$' "$(as alice run --id by-hand -- echo by hand)"
echo all is well | as reporter publish report/today >/dev/null

echo "== who sees what"
for name in builder tester alice spider archivist; do
  printf '%-10s' "$name"
  as "$name" list --json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | sort | paste -sd ' '
done | tee "$tmp/seen"
must '^builder +build-1$' "$(cat "$tmp/seen")"
must '^tester +test-1$' "$(cat "$tmp/seen")"
must '^alice +build-1 by-hand test-1$' "$(cat "$tmp/seen")"
must '^spider +crawl-1$' "$(cat "$tmp/seen")"
must '^archivist +crawl-1$' "$(cat "$tmp/seen")"
refused 'not_found|no such|not found' builder show test-1   # beside the prefix of its scopes
refused 'not_found|no such|not found' spider show build-1   # of another tenant
refused 'needs the scope' archivist run -- true
refused 'needs the scope' alice cancel build-1              # she has asked for read and run
refused 'needs the scope' auditor list
refused 'needs the scope' alice key list

echo "== a key is revoked while its bearer follows a stream"
as spider run --id long --detach -- sh -c 'echo begun; sleep 600' >/dev/null
as archivist follow long >"$tmp/followed" 2>"$tmp/ended" &
follower=$!
children+=("$follower")
for _ in $(seq 600); do
  [ ! -s "$tmp/followed" ] || break
  sleep 0.05
done
must '^begun$' "$(cat "$tmp/followed")"
as admin key revoke "$(cut -d _ -f 2 "$tmp/archivist")"
if wait "$follower"; then
  echo "FAILED: the stream ended as if nothing had happened" >&2
  exit 1
fi
must 'revoked|unauthenticated' "$(cat "$tmp/ended")"
refused 'revoked|unauthenticated' archivist list
as spider cancel long

echo "== the record, as the auditor reads it"
as auditor audit | tee "$tmp/audit" | tail -n 12
for record in 'alice@provider +acme +POST /v1/executions' 'builder\.[0-9a-z]+ +acme' 'token +default +POST /v1/keys' \
  'token +default +DELETE /v1/keys/'; do
  must "$record" "$(cat "$tmp/audit")"
done
must '0 things wrong' "$(as auditor audit --check)"
if grep -q -F -f <(cut -d _ -f 3 "$tmp/builder") "$tmp/audit"; then
  echo "FAILED: a key is in the record" >&2
  exit 1
fi
echo "done: each saw their own"
