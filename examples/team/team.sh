#!/usr/bin/env bash
# A team on two replicas of one store: two tenants, five agents with API keys, a person who logs in at an identity
# provider, and an auditor. It shows who sees what, a key that is revoked at one replica while its bearer follows a stream
# on the other, a flood of starts that the other agents do not notice, and the record of it all. It fails where
# somebody sees too much or too little, or waits.
#
#   examples/team/team.sh
#
# The store is a Redis server of its own, and the provider is npm oidc-provider, see examples/mcp/oauth. Where one of the
# two cannot be had, it says so; when CI is set, that is a failure. It takes a few seconds.
cd "$(dirname "$0")/../.."
. examples/server.sh build-only
. examples/mcp/packages.sh

left_out() { # left_out WHY
  echo "left out: $1"
  [ -z "${CI:-}" ] || exit 1
  exit 0
}
command -v redis-server >/dev/null || left_out "there is no redis-server"
fetch_package oidc-provider >"$tmp/install" 2>&1 ||
  left_out "${package[oidc-provider]} cannot be installed: $(tail -n 1 "$tmp/install")"
begin=$SECONDS
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

launch() { # launch NAME COMMAND...: starts a server and sets the variable NAME to its URL
  : >"$tmp/$1.out" # it may be read before the server is started
  "${@:2}" >"$tmp/$1.out" 2>"$tmp/$1.log" &
  children+=($!)
  printf -v "$1" %s "$(until_listening "$tmp/$1.out")"
  [ -n "${!1}" ] || { cat "$tmp/$1.log" >&2; exit 1; }
}
replica() { # replica NAME: starts one, and sets the variable NAME to its URL
  launch "$1" "$reprise" serve --replica "$1" --listen 127.0.0.1:0 --data "$tmp/data-$1" --secrets "$tmp/secrets" \
    --store "$store" --audit --oidc-config "$tmp/issuers.yaml" --public-url "$team" \
    --max-running 8 --max-queued 16 --log-level error --stop-executions
}

provider=$(folder oidc-provider)
cp examples/mcp/oauth/*.mjs "$provider"
launch issuer node "$provider/provider.mjs"
go build -o "$tmp/engine" ./examples/engine
launch store "$tmp/engine" redis
team=https://team.example.org # the name by which a balancer would be known, and for which tokens are given
cat >"$tmp/issuers.yaml" <<END
issuers:
- issuer: $issuer
  name: provider
  tenant_claim: org # which the provider says of each person
  tenants: [acme]
END
"$reprise" secrets "$tmp/secrets" >/dev/null # the same for both replicas
replica first
replica second
second_pid=${children[-1]}
export REPRISE_URL=$first

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
  echo "$2 may not \"reprise ${*:3}\": ${said%%$'\n'*}"
}

echo "two replicas share one store: $first and $second"
echo "== the admin makes keys: five agents in the tenants acme and umbrella, and an auditor"
cp "$tmp/secrets/token" "$tmp/admin"
agent() { # agent NAME TENANT SCOPES...
  local scopes=()
  for scope in "${@:3}"; do scopes+=(--scope "$scope"); done
  as admin key add "$1" --tenant "$2" --ttl 24h "${scopes[@]}" >"$tmp/$1" 2>/dev/null # which says that it is shown once
}
agent builder acme run:build- read:build- control:build-
agent tester acme run:test- read:test- control:test-
agent reporter acme publish:report/ read:report/
agent spider umbrella run read control
agent archivist umbrella read
agent auditor default audit
as admin key list

echo "== alice logs in at the identity provider, and gets a token for this server: of acme, with read and run"
node "$provider/login.mjs" "$issuer" "$team" "read run" >"$tmp/alice"

echo "== everybody works, at either replica"
must '^built$' "$(as builder run --id build-1 --session build-1 -- echo built)"
must '^tested$' "$(REPRISE_URL=$second as tester run --id test-1 --session test-1 -- echo tested)"
must '^crawled$' "$(as spider run --id crawl-1 -- echo crawled)"
must '^by hand$' "$(as alice run --id by-hand -- echo by hand)"
echo all is well | REPRISE_URL=$second as reporter publish report/today >/dev/null

echo "== who sees which executions: agents those of their prefix or tenant, alice all of acme"
for name in builder tester alice spider archivist; do
  printf '%-10s' "$name"
  as "$name" list --json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | sort | paste -sd ' '
done | tee "$tmp/seen"
must '^builder +build-1$' "$(cat "$tmp/seen")"
must '^tester +test-1$' "$(cat "$tmp/seen")"
must '^alice +build-1 by-hand test-1$' "$(cat "$tmp/seen")"
must '^spider +crawl-1$' "$(cat "$tmp/seen")"
must '^archivist +crawl-1$' "$(cat "$tmp/seen")"
echo "== and what they may not"
refused 'not_found|no such|not found' builder show test-1   # beside the prefix of its scopes
refused 'not_found|no such|not found' spider show build-1   # of another tenant
refused 'needs the scope' archivist run -- true
refused 'needs the scope' alice cancel build-1              # she has asked for read and run
refused 'needs the scope' auditor list
refused 'needs the scope' alice key list

echo "== a key is revoked at one replica while its bearer follows a stream on the other"
as spider run --id long --detach -- sh -c 'echo begun; sleep 600' >/dev/null
REPRISE_URL=$second as archivist follow long >"$tmp/followed" 2>"$tmp/ended" &
follower=$!
children+=("$follower")
for _ in $(seq 600); do
  [ ! -s "$tmp/followed" ] || break
  sleep 0.05
done
must '^begun$' "$(cat "$tmp/followed")"
as admin key revoke "$(cut -d _ -f 2 "$tmp/archivist")"
revoked=$(milliseconds)
if wait "$follower"; then
  echo "FAILED: the stream ended as if nothing had happened" >&2
  exit 1
fi
must 'revoked|unauthenticated' "$(cat "$tmp/ended")"
echo "archivist read \"$(cat "$tmp/followed")\" at the second replica; revoked at the first, its stream ended within" \
  "$(($(milliseconds) - revoked)) ms: $(grep -m 1 -E 'revoked|unauthenticated' "$tmp/ended")"
echo "and at neither replica is the key good:"
for url in "$first" "$second"; do
  REPRISE_URL=$url refused 'revoked|unauthenticated' archivist list
done
as spider cancel long

echo "== spider starts 60 commands of ten minutes where 8 may run and 16 may wait: how many get which status"
for _ in $(seq 60); do
  printf 'url = "%s/v1/executions"\noutput = "/dev/null"\n' "$first"
done >"$tmp/flood"
curl --silent --max-time 60 --config "$tmp/flood" --write-out '%{http_code}\n' -H "Authorization: Bearer $(cat "$tmp/spider")" \
  -H 'Content-Type: application/json' -d '{"argv":["sleep","600"]}' | sort | uniq -c | tee "$tmp/answers"
must ' 201$' "$(cat "$tmp/answers")"
must ' 429$' "$(cat "$tmp/answers")"
echo "== and the others go on as before"
meanwhile() { # meanwhile NAME ARGUMENTS...: a command of somebody runs at once
  local from
  from=$(milliseconds)
  must '^meanwhile$' "$(as "$1" run "${@:2}" -- echo meanwhile)"
  echo "$1 has run a command in $(($(milliseconds) - from)) ms"
}
meanwhile builder --id build-2 --session build-2
meanwhile tester --id test-2 --session test-2
meanwhile alice --id by-hand-2
echo still well | as reporter publish report/today >/dev/null
echo "reporter has published, and umbrella, whose spider it is, uses:"
as admin quota --tenant umbrella >"$tmp/quota"
grep -E '^(running|queued)' "$tmp/quota"
must '^running +tenant +[1-7] ' "$(cat "$tmp/quota")" # of eight places one at least is kept free for others
must '^queued +tenant +[1-9]' "$(cat "$tmp/quota")"    # and none of the flood has ended

echo "== the record of both replicas, as the auditor reads it: the last lines, and those of the revoked key"
kill "$second_pid"
wait "$second_pid" || true
as auditor audit >"$tmp/audit"
tail -n 8 "$tmp/audit"
grep -E 'archivist|DELETE /v1/keys|unauthenticated' "$tmp/audit"
for record in 'alice@provider +acme +POST /v1/executions' 'builder\.[0-9a-z]+ +acme' 'token +default +POST /v1/keys' \
  'token +default +DELETE /v1/keys/' 'archivist\.[0-9a-z]+ +umbrella +GET /v1/executions/\{id\}/events +/v1/executions/long' \
  'tester\.[0-9a-z]+ +acme +POST /v1/executions' 'refused|unauthenticated'; do
  must "$record" "$(cat "$tmp/audit")"
done
starts=$(grep -c -E 'spider\.[0-9a-z]+ +umbrella +POST /v1/executions ' "$tmp/audit")
echo "spider has asked for $starts starts, and each is on record"
[ "$starts" = 62 ] || { echo "FAILED: want 62: two by hand, and 60 of the flood" >&2; exit 1; }
as auditor audit --check | tee "$tmp/check"
must '0 things wrong' "$(cat "$tmp/check")"
if grep -q -F -f <(cut -d _ -f 3 "$tmp/builder") "$tmp/audit"; then
  echo "FAILED: a key is in the record" >&2
  exit 1
fi
echo "done after $((SECONDS - begin)) s: each saw their own"
