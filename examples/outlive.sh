#!/usr/bin/env bash
# A build goes on in the terminal of a person while its server is killed, replaced by another build of the program whose file was
# removed meanwhile, killed again, and taken over by a third server. The terminal shows every byte that the build has written
# once, and what the person types while there is no server reaches the build.
. "$(dirname "$0")/server.sh" build-only
port=$(free_ports 1)
serve() { # serve PROGRAM [FLAG...]: starts a server and sets $server
  : >"$tmp/serve.out" # what the server before has said
  "$1" serve --listen "127.0.0.1:$port" --data "$tmp/data" --log-level warn "${@:2}" >"$tmp/serve.out" &
  server=$!
  children+=("$server")
  REPRISE_URL=$(until_listening "$tmp/serve.out")
  REPRISE_TOKEN=$(cat "$tmp/data/token")
  export REPRISE_URL REPRISE_TOKEN
}
killed() {
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
  echo "killed the server after $(shown) bytes"
}
shown() { wc -c <"$tmp/shown"; }
more() { # until the terminal shows more of the build, or the build was faster
  local before
  before=$(shown)
  for _ in $(seq 300); do
    [ "$(shown)" -gt $((before + 2000)) ] && break
    sleep 0.1
  done
}

# The terminal: runs a program in a terminal of its own, appends what it shows to a file, and types what comes from a pipe.
mkfifo "$tmp/keys"
: >"$tmp/shown"
cat >"$tmp/terminal.py" <<'PYTHON'
import fcntl, os, pty, select, struct, sys, termios

keys, shown = os.open(sys.argv[1], os.O_RDWR), open(sys.argv[2], "ab", 0)
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])
while True:
    for ready in select.select([keys, terminal], [], [])[0]:
        try:
            data = os.read(ready, 1 << 16)
        except OSError:  # the program has ended
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if ready == keys:
            os.write(terminal, data)
        else:
            shown.write(data)
PYTHON

go build -buildvcs=false -ldflags='-s -w' -o "$tmp/reprise-old" ./cmd/reprise
cmp -s "$tmp/reprise-old" "$reprise" && exit 1 # they are different builds
serve "$tmp/reprise-old"
rm "$tmp/reprise-old"
# The build keeps what it writes in a file, too.
build='stty -echo
go build -x -a -p 1 ./sse 2>&1 | tee "$WRITTEN"
read first; read second
echo "the build is over, and was told: $first, $second" | tee -a "$WRITTEN"
exit 7'
python3 "$tmp/terminal.py" "$tmp/keys" "$tmp/shown" \
  "$reprise" run -t --id build --retain-events 1000000 --retain-bytes 1GiB --cwd "$PWD" \
  --env GOCACHE="$tmp/cache" --env GOFLAGS=-buildvcs=false --env WRITTEN="$tmp/written" -- sh -c "$build" &
person=$!
children+=("$person")

more
killed
echo "this was typed while there was no server" >"$tmp/keys"
sleep 1 # and the build goes on
serve "$reprise"
more
killed
sleep 1
serve "$reprise"
more
before=$server
serve "$reprise" --take-over
wait "$before"
echo "another server has taken over after $(shown) bytes"
more
echo "and this after all that" >"$tmp/keys"
code=0
wait "$person" || code=$?

failed=0
check() { # check WHAT COMMAND...
  if "${@:2}"; then echo "ok    $1"; else echo "FAIL  $1"; failed=1; fi
}
curl -sSf -H "Authorization: Bearer $REPRISE_TOKEN" "$REPRISE_URL/v1/executions/build/stdout" >"$tmp/kept"
# Without a server for two seconds, the terminal says so on a line of its own. Lines of a terminal end with CR LF.
python3 - "$tmp/shown" "$tmp/written" "$tmp/output" "$tmp/lines" <<'PYTHON'
import re, sys

shown, written, output, lines = sys.argv[1:]
with open(shown, "rb") as f, open(output, "wb") as g:
    g.write(re.sub(rb"\r\n\[reprise: [^\r]*\]\r\n", b"", f.read()))
with open(written, "rb") as f, open(lines, "wb") as g:
    g.write(f.read().replace(b"\n", b"\r\n"))
PYTHON
check "exit code $code" test "$code" = 7
check "there is something to compare: $(wc -c <"$tmp/written") bytes" test "$(wc -c <"$tmp/written")" -gt 50000
check "the terminal shows what the build has written" cmp "$tmp/output" "$tmp/lines"
check "the server has kept what the build has written" cmp "$tmp/kept" "$tmp/lines"
check "the build was told what was typed" \
  grep -q "told: this was typed while there was no server, and this after all that" "$tmp/written"
"$reprise" show build
kill "$server"
wait "$server" || failed=1
exit $failed
