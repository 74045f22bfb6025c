"""Puts a reader that others wrote behind the service contract of "reprise check-client", as a reader of any source:

    reprise check-client -- python examples/readers/service.py sseclient

Started by scripts/check-clients, with the packages that examples/readers.sh installs. httpx-sse reads one response; the
loop around it is the one of its documentation.
"""

import asyncio
import base64
import datetime
import json
import os
import sys
import threading
import time

import aiohttp
import httpx
import httpx_sse
import sseclient
from aiohttp_sse_client.client import EventSource

NAME = sys.argv[1]
out, sys.stdout = sys.stdout, sys.stderr  # sseclient prints
turn = threading.Lock()


def say(message):
    with turn:
        out.write(json.dumps(message) + "\n")
        out.flush()


def tell(command, kind, cursor, data):
    event = {"type": kind, "cursor": cursor, "data": base64.b64encode(data.encode()).decode()}
    say({"id": command["id"], "event": event})


def read_sseclient(command, stopped):
    headers = {"Authorization": f"Bearer {command['token']}"}
    reader = sseclient.SSEClient(command["source"], last_id=command.get("after") or None, headers=headers)
    for e in reader:
        if stopped.is_set():
            return
        tell(command, e.event, reader.last_id or "", e.data)
        if e.event == "end":  # it knows no 204
            return


def read_httpx_sse(command, stopped):
    last, wait = command.get("after", ""), 0.001
    with httpx.Client(timeout=command["idle_ms"] / 1000) as client:
        while not stopped.is_set():
            headers = {"Authorization": f"Bearer {command['token']}", **({"Last-Event-ID": last} if last else {})}
            try:
                with httpx_sse.connect_sse(client, "GET", command["source"], headers=headers) as source:
                    if source.response.status_code == 204:
                        return
                    for e in source.iter_sse():
                        last = e.id or last
                        wait = (e.retry or 1) / 1000
                        if e.data:
                            tell(command, e.event, last, e.data)
                        if stopped.is_set():
                            return
            except (httpx.HTTPError, httpx_sse.SSEError):
                pass
            time.sleep(wait)


async def read_aiohttp_sse_client(command, stopped):
    headers = {"Authorization": f"Bearer {command['token']}"}
    if command.get("after"):
        headers["Last-Event-ID"] = command["after"]
    timeout = aiohttp.ClientTimeout(total=None, sock_read=command["idle_ms"] / 1000)
    wait = datetime.timedelta(milliseconds=command["min_wait_ms"])
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 24) as session:
        async with EventSource(command["source"], session=session, headers=headers, reconnection_time=wait) as events:
            async for e in events:
                if stopped.is_set():
                    return
                tell(command, e.type or "message", e.last_event_id, e.data)
                if e.type == "end":  # it takes a 204 for an error
                    return


READERS = {
    "sseclient": read_sseclient,
    "httpx-sse": read_httpx_sse,
    "aiohttp-sse-client": lambda *args: asyncio.run(read_aiohttp_sse_client(*args)),
}


def run(command, stopped):
    try:
        READERS[NAME](command, stopped)
    except Exception as error:  # noqa: BLE001 it is told
        say({"id": command["id"], "error": {"code": "", "text": repr(error)}})
    say({"id": command["id"], "done": True})


def main():
    stops = {}
    say({"hello": {"name": NAME, "kind": "sse", "can": []}})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "stop":
            stops[command["id"]].set()
            continue
        stops[command["id"]] = threading.Event()
        threading.Thread(target=run, args=(command, stops[command["id"]]), daemon=True).start()
    os._exit(0)  # neither can be interrupted in the middle of a read


main()
