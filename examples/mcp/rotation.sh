#!/usr/bin/env bash
# A login that outlives the keys of its identity provider (npm oidc-provider): a person logs in, the app refreshes the
# token, the provider changes its key and withdraws the old one, and the app refreshes again. A token of the old key, and a
# stream that was opened with it, end then; one of the new key is good at once.
#
#   examples/mcp/rotation.sh
#
# Packages are installed as clients.sh does it; where that is not possible, it says so; when CI is set, that is a failure.
# It takes a few seconds.
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

launch() { # launch NAME COMMAND...: starts a server and sets the variable NAME to its URL, and NAME_pid
  : >"$tmp/$1.out" # it may be read before the server is started
  "${@:2}" >"$tmp/$1.out" 2>"$tmp/$1.log" &
  children+=($!)
  printf -v "$1_pid" %s $!
  printf -v "$1" %s "$(until_listening "$tmp/$1.out")"
  [ -n "${!1}" ] || { cat "$tmp/$1.log" >&2; exit 1; }
}
launch issuer node "$provider/provider.mjs"
launch server "$reprise" serve --data "$tmp/data" --store memory: --listen 127.0.0.1:0 --oidc-issuer "$issuer" --log-level error

status() { # status TOKEN: what the server says to it
  curl --silent --output "$tmp/body" --write-out '%{http_code}' --max-time 30 -H "Authorization: Bearer $1" \
    "$server/v1/streams"
}
expect() { # expect STATUS TOKEN WHAT: within 30 s, because keys are fetched at most once in 5 s
  local got
  for _ in $(seq 300); do
    got=$(status "$2")
    [ "$got" != "$1" ] || { echo "$3: $got"; return 0; }
    sleep 0.1
  done
  echo "FAILED: $3: $got, want $1: $(cat "$tmp/body")" >&2
  exit 1
}
refresh() { # refresh: prints the next token, and keeps what gets the one after it
  curl --silent --fail "$issuer/token" -d @"$tmp/login" >"$tmp/answer"
  local next
  next=$(sed -n 's/.*"refresh_token":"\([^"]*\)".*/\1/p' "$tmp/answer")
  [ -z "$next" ] || sed -i "s/refresh_token=[^&]*$/refresh_token=$next/" "$tmp/login"
  sed -n 's/.*"access_token":"\([^"]*\)".*/\1/p' "$tmp/answer"
}

echo "a person logs in at the identity provider; the app gets a token for the server, and refreshes it"
first=$(node "$provider/login.mjs" "$issuer" "$server" "read publish" "$tmp/login")
expect 200 "$first" "the token of the login"
second=$(refresh)
[ -n "$second" ] && [ "$second" != "$first" ] || { echo "FAILED: there is no second token" >&2; exit 1; }
expect 200 "$second" "the token of a refresh"

curl --silent --fail -X PUT -H "Authorization: Bearer $second" -H 'Content-Type: application/json' -d '{}' \
  "$server/v1/streams/news" >"$tmp/body"
curl --silent --no-buffer --max-time 120 --write-out 'ended\n' -H "Authorization: Bearer $second" \
  -H 'Accept: text/event-stream' "$server/v1/streams/news/events" >"$tmp/followed" &
follower=$!
children+=("$follower")
for _ in $(seq 600); do
  [ ! -s "$tmp/followed" ] || break
  sleep 0.05
done

kill -USR1 "$issuer_pid"
for _ in $(seq 600); do
  ! grep -q rotated "$tmp/issuer.out" || break
  sleep 0.05
done
echo "the provider has another key, and has withdrawn the old one"
third=$(refresh)
[ -n "$third" ] || { echo "FAILED: the provider has forgotten the login" >&2; exit 1; }
expect 200 "$third" "a token of the new key"
expect 401 "$second" "a token of the old key"
wait "$follower" || { echo "FAILED: the stream of the old key goes on" >&2; exit 1; }
[ "$(tail -n 1 "$tmp/followed")" = ended ]
echo "the stream of the old key has ended"
expect 401 "${third%?????}AAAAA" "a token that nobody has signed"
