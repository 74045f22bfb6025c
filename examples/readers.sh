#!/usr/bin/env bash
# Reads with what others wrote: the EventSource of Chromium, httpx-sse, sseclient, fetch-event-source, eventsource,
# eventsource-parser, and lines as Python splits them. Each must be given each event once and nothing else, beside
# heartbeats and filters. The packages are installed once, into ${XDG_CACHE_HOME:-~/.cache}/reprise; needs Python with
# venv, and Node with npm. Without Chromium its reader is left out, unless CI is set.
export REPRISE_HEARTBEAT=1s
READERS_PORT=$(python3 -c '
import random, socket
while True:
    try:
        with socket.socket() as s:
            s.bind(("127.0.0.1", random.randrange(10000, 32000)))
            print(s.getsockname()[1])
            break
    except OSError:
        pass')
export READERS_PORT REPRISE_ALLOW_ORIGIN=http://127.0.0.1:$READERS_PORT # of the page
python=(httpx==0.28.1 zstandard==0.25.0 httpx-sse==0.4.3 sseclient==0.0.27 aiohttp-sse-client==0.2.1) # with zstandard, httpx asks for zstd too
node=(@microsoft/fetch-event-source@2.0.1 eventsource@4.0.0 eventsource-parser@3.0.6 launchdarkly-eventsource@2.2.0)
. "$(dirname "$0")/server.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/reprise/readers/$(printf '%s\n' "${python[@]}" "${node[@]}" | cksum | cut -d' ' -f1)
if [ ! -e "$cache/done" ]; then
  echo "== installing the readers"
  mkdir -p "$cache"
  python3 -m venv "$cache/venv"
  timeout 300 "$cache/venv/bin/pip" install --quiet --disable-pip-version-check "${python[@]}"
  timeout 300 npm install --silent --no-audit --no-fund --prefix "$cache" "${node[@]}"
  touch "$cache/done"
fi
READERS_MODULES=$cache timeout 400 "$cache/venv/bin/python" examples/readers/readers.py
