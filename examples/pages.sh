#!/usr/bin/env bash
# Runs the shell blocks of pages as they stand there, those of each page in one shell, from the first to the last:
#
#     examples/pages.sh README.md docs/streams.md
#
# What differs: the program is built before, the port is a free one, and the state directory is empty. The shell's directory is
# a new one with links to what the checkout has. A block "```sh server" starts a server, which runs until the page is over.
# A block "```text" is what the block before it prints: "..." stands for anything within a line, and a line "..." for any lines.
# A block of another language that begins with a comment that is a file name alone becomes that file. If a block "```text" comes
# next, it is run and must print that. Blocks "```sh elsewhere" are run by other tests.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -n "${REPRISE_BIN:-}" ]; then cp "$REPRISE_BIN" "$tmp/reprise"; else go build -o "$tmp/reprise" ./cmd/reprise; fi

# script PAGE: the page as a shell script.
script() {
  python3 - "$1" <<'PYTHON'
import re, shlex, sys

text = open(sys.argv[1], encoding="utf-8").read()
blocks = re.findall(r"^```(\w+)( \w+)?\n(.*?)^```$", text, re.S | re.M)
for number, (language, kind, block) in enumerate(blocks):
    named = re.match(r"(?://|#|<!--) (\w+\.\w+)( -->)?\n", block)
    after = blocks[number + 1] if number + 1 < len(blocks) else ("", "", "")
    if named:
        print(f"cat >{named[1]} <<'END OF FILE'\n{block}END OF FILE")
        block = f"run {named[1]}" if after[0] == "text" else ":"
    if named or language == "sh" and not kind:
        block = re.sub(r"^go build -o bin/ ./cmd/... && ", "", block, flags=re.M)  # it is built
        print(f"echo '--- block {number + 1}'\n{{\n{block}\n}} >out; cat out")
        if after[0] == "text":
            lines = [".*" if line == "..." else re.escape(line).replace(r"\.\.\.", "[^\n]*") for line in after[2].splitlines()]
            print(f"matches out {shlex.quote(chr(10).join(lines) + chr(10) + '*')}")
    elif language == "sh" and kind == " server":
        print(f"start {shlex.quote(block)}")
    elif language == "text" or kind == " elsewhere":  # which another test runs
        pass
    else:
        sys.exit(f"{sys.argv[1]}: block {number + 1} ({language}) is neither run nor named")
PYTHON
}

PYTHON=$(scripts/sdk-python env)
[ -e sdk/typescript/dist ] || (cd sdk/typescript && npm ci --silent --no-audit --no-fund && npm run --silent build)
failed=0
for page in "$@"; do
  work=$tmp/${page//\//-}
  mkdir -p "$work/bin" "$work/home" "$work/node_modules"
  ln -s "$checkout/sdk/typescript" "$work/node_modules/reprise"
  ln -s "$checkout"/{sdk,docs,examples,cmd,internal} "$work/"
  ln -s "$tmp/reprise" "$work/bin/reprise"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  {
    cat <<'SHELL'
set -euo pipefail
servers=()
finish() {
  status=$?
  for shell in "${servers[@]}"; do pkill -P "$shell" || kill "$shell" 2>/dev/null || true; done # its child is the server
  wait
  exit $status
}
trap finish EXIT
# start COMMANDS: a server, until it listens.
start() {
  echo "+ $1"
  : >listening
  eval "set +e; exec 2>server.log; ${1%$'\n'} >listening" &
  servers+=($!)
  for _ in $(seq 600); do
    if grep -q '^listening on' listening; then return; fi
    sleep 0.1
  done
  cat server.log >&2
  return 1
}
# run FILE: a program in the language of its name.
run() {
  case $1 in
    *.py) "$PYTHON" "$1" ;;
    *.mjs) node "$1" ;;
  esac
}
# matches FILE PATTERN: all of the file is as the page shows it.
matches() {
  python3 -c 'import re, sys; sys.exit(not re.fullmatch(sys.argv[2], open(sys.argv[1]).read(), re.S))' "$@" && return
  echo "FAIL: the page shows something else" >&2
  return 1
}
SHELL
    script "$page" | sed -e "s|go run -v ./cmd/reprise|reprise|; s|go run ./cmd/reprise|reprise|" \
      -e "s|127.0.0.1:7070|127.0.0.1:$port|g" -e "s|~/.local/state|$work/home/.local/state|g"
  } >"$work/script"
  echo "== $page"
  (
    cd "$work"
    unset "${!REPRISE_@}" XDG_STATE_HOME
    export PYTHON PYTHONPATH=$checkout/sdk/python/src
    export HOME=$work/home PATH=$work/bin:$PATH REPRISE_LISTEN=127.0.0.1:$port REPRISE_URL=http://127.0.0.1:$port
    export REPRISE_STOP_EXECUTIONS=true REPRISE_LOG_LEVEL=warn
    bash "$work/script"
  ) || { echo "FAIL: $page" >&2; failed=1; }
done
exit $failed
