#!/usr/bin/env bash
# The SDKs of E2B, unchanged, run commands and code on a Reprise server: through a proxy that cuts their streams, and
# through a SIGKILL of the server in mid-command. Each gets every line once, and the exit code.
#
#   examples/faces/e2b.sh [python] [javascript]
#
# The SDKs are installed with pip and npm into ${XDG_CACHE_HOME:-~/.cache}/reprise. See docs/faces/e2b.md.
. "$(dirname "$0")/../server.sh" build-only
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/e2b
wanted=${*:-python javascript}
port=$(free_ports 1)

python=$cache/python-2.63.0
if [[ " $wanted " = *" python "* && ! -e $python/done ]]; then
  python3 -m venv --clear "$python"
  timeout 300 "$python/bin/pip" install --quiet --disable-pip-version-check e2b==2.63.0
  touch "$python/done"
fi
javascript=$cache/javascript-2.51.0
if [[ " $wanted " = *" javascript "* && ! -e $javascript/done ]]; then
  timeout 200 npm install --silent --no-audit --no-fund --prefix "$javascript" e2b@2.51.0 @e2b/code-interpreter@2.8.0
  touch "$javascript/done"
fi

face=e2b
credentials() { shown=("E2B_API_KEY=$token" "E2B_API_URL=http://127.0.0.1:$port/e2b" "E2B_SANDBOX_URL=http://127.0.0.1:$port/e2b"); }
. examples/faces/sdks.sh
