#!/usr/bin/env bash
# Runs a real build through a network that cuts the connection twenty times, at random
# places, and compares what arrived with what the server has kept and with a direct
# run of the same build, byte for byte.
#
# The build is "go build -x -a" of a package of this repository with an empty cache. With
# -p 1 it does one thing at a time, so that two runs print the same, but for the name of
# a temporary folder with a random number. That number is taken out before the comparison
# with the direct run. What the server has kept is compared as it is.
. "$(dirname "$0")/server.sh"
cuts=20
build=(go build -x -a -p 1 ./sse)
cache=$tmp/cache

echo "direct run: ${build[*]}"
direct_code=0
env -i PATH="$PATH" HOME="$HOME" GOCACHE="$cache" GOFLAGS=-buildvcs=false \
  "${build[@]}" >"$tmp/direct.stdout" 2>"$tmp/direct.stderr" || direct_code=$?
rm -rf "$cache"

: >"$tmp/cut.out"
"$reprise" proxy "$REPRISE_URL" --cut "rst@1500-7000*$cuts" >"$tmp/cut.out" &
children+=($!)
bad_network=$(until_listening "$tmp/cut.out")

echo "the same through a network that breaks"
code=0
REPRISE_URL=$bad_network "$reprise" run --quiet --id build --retain-events 1000000 --retain-bytes 1GiB \
  --cwd "$PWD" --env GOCACHE="$cache" --env GOFLAGS=-buildvcs=false -- "${build[@]}" \
  >"$tmp/got.stdout" 2>"$tmp/got.stderr" || code=$?
made=$(grep -c '^cut ' "$tmp/cut.out")

auth="Authorization: Bearer $REPRISE_TOKEN"
for channel in stdout stderr; do
  curl -sSf -H "$auth" "$REPRISE_URL/v1/executions/build/$channel" >"$tmp/kept.$channel"
done

failed=0
check() { # check WHAT COMMAND...
  if "${@:2}"; then echo "ok    $1"; else echo "FAIL  $1"; failed=1; fi
}
unnumbered() { sed 's|/go-build[0-9]*|/go-build|g' "$1"; }
same_work() { cmp <(unnumbered "$1") <(unnumbered "$2"); }

check "$made cuts of $cuts" test "$made" = "$cuts"
check "exit code $code, directly $direct_code" test "$code" = "$direct_code"
check "the build succeeds" test "$code" = 0
check "there is something to compare: $(wc -c <"$tmp/kept.stderr") bytes" test "$(wc -c <"$tmp/kept.stderr")" -gt 50000
for channel in stdout stderr; do
  check "$channel is what the server has kept" cmp "$tmp/got.$channel" "$tmp/kept.$channel"
  check "$channel is that of the direct run" same_work "$tmp/got.$channel" "$tmp/direct.$channel"
done
if [ $failed = 0 ]; then
  echo "$cuts cuts, nothing missing, nothing twice"
fi
exit $failed
