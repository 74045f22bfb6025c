#!/usr/bin/env bash
# The SDKs of OpenSandbox, unchanged, run commands and code on a Reprise server: through a proxy that cuts their stream, and
# through a SIGKILL of the server in mid-command. Each gets every line once, and the exit code.
#
#   examples/faces/execd.sh [python] [javascript]
#
# The SDKs are installed with pip and npm into ${XDG_CACHE_HOME:-~/.cache}/reprise. See docs/faces/execd.md.
. "$(dirname "$0")/../server.sh" build-only
cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/execd
wanted=${*:-python javascript}
port=$(free_ports 1)

python=$cache/python-1.1.1
if [[ " $wanted " = *" python "* && ! -e $python/done ]]; then
  python3 -m venv --clear "$python"
  timeout 300 "$python/bin/pip" install --quiet --disable-pip-version-check opensandbox==1.1.1 opensandbox-code-interpreter==1.1.1
  touch "$python/done"
fi
javascript=$cache/javascript-0.1.11
if [[ " $wanted " = *" javascript "* && ! -e $javascript/done ]]; then
  timeout 200 npm install --silent --no-audit --no-fund --prefix "$javascript" @alibaba-group/opensandbox@0.1.11
  touch "$javascript/done"
fi

face=execd
credentials() { shown=("OPEN_SANDBOX_API_KEY=$token"); }
. examples/faces/sdks.sh
