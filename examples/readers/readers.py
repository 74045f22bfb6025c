"""Reads streams of a server, whose URL and token are in the environment, with readers that others wrote, while events
are published. Each reader must be given each event once and nothing else. Started by examples/readers.sh.
"""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import httpx
import httpx_sse
import sseclient

URL, TOKEN = os.environ["REPRISE_URL"], os.environ["REPRISE_TOKEN"]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT = 120  # seconds for all of it
SEPARATORS = "\u0085\u2028\u2029"
PLAIN, FILTERED = "types=note,noise,end", "types=note,end"


def events_url(query):
    return f"{URL}/v1/streams/readers/events?{query}"


def read_httpx_sse(query, got):
    with httpx.Client(headers=HEADERS, timeout=TIMEOUT) as client:
        with httpx_sse.connect_sse(client, "GET", events_url(query)) as source:
            for e in source.iter_sse():
                got.append((e.event, e.id, e.data))


def read_sseclient(query, got):
    for e in sseclient.SSEClient(events_url(query), headers=dict(HEADERS), timeout=TIMEOUT):
        got.append((e.event, e.id, e.data))
        if e.event == "end":
            return


def read_node(name):
    def read(query, got):
        command = ["node", HERE / "readers.mjs", name, events_url(query)]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=True).stdout
        got.extend(tuple(json.loads(line)) for line in out.split("\n") if line)

    return read


def read_lines(split):
    """NDJSON, in lines as Python splits them. Lines that are empty are heartbeats."""

    def read(query, got):
        headers = {**HEADERS, "Accept": "application/x-ndjson"}
        with httpx.Client(headers=headers, timeout=TIMEOUT) as client:
            with client.stream("GET", events_url(query)) as response:
                for line in split(response):
                    if line:
                        e = json.loads(line)
                        got.append((e.get("type", ""), e["cursor"], line))

    return read


# A page of another origin, which reads with a ticket and tells what it was given.
PAGE = """<!DOCTYPE html>
<title>reads</title>
<script>
const source = new EventSource(URL);
let told = Promise.resolve();
for (const type of ["message", "note", "noise", "cursor", "end", "gap"]) {
  source.addEventListener(type, (e) => {
    if (type === "end") source.close();
    const body = JSON.stringify([READING, e.type, e.lastEventId, e.data]);
    told = told.then(() => fetch("/told", { method: "POST", body }));
  });
}
</script>
"""


class Pages(http.server.BaseHTTPRequestHandler):
    """Serves a page for each reading, and takes what the pages tell."""

    readings = []  # of each its URL, its list and what is set at its end

    def do_GET(self):
        number = self.path.strip("/")
        if not number.isdigit() or int(number) >= len(self.readings):
            self.send_error(404)
            return
        page = PAGE.replace("URL", json.dumps(self.readings[int(number)][0])).replace("READING", number)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page.encode())

    def do_POST(self):
        number, kind, cursor, data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, got, done = self.readings[number]
        got.append((kind, cursor, data))
        self.send_response(204)
        self.end_headers()
        if kind == "end":
            done.set()

    def log_message(self, *_):
        pass


def read_chromium(query, got):
    ticket = httpx.post(f"{URL}/v1/tickets", json={"stream": "readers"}, headers=HEADERS).raise_for_status().json()
    done = threading.Event()
    Pages.readings.append((f"{events_url(query)}&ticket={ticket['ticket']}", got, done))
    number = len(Pages.readings) - 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={profile}", "--remote-debugging-port=0", f"http://127.0.0.1:{os.environ['READERS_PORT']}/{number}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            done.wait(TIMEOUT)
        finally:
            browser.terminate()
            browser.wait()


def splitlines(response):
    return response.read().decode().splitlines()


READERS = {
    "httpx-sse": read_httpx_sse,
    "sseclient": read_sseclient,
    "fetch-event-source": read_node("fetch-event-source"),
    "eventsource": read_node("eventsource"),
    "eventsource-parser": read_node("eventsource-parser"),
    "httpx iter_lines": read_lines(lambda response: response.iter_lines()),
    "str.splitlines": read_lines(splitlines),
}
# These dispatch an event for the bare id of a filtered reader only where it is asked for.
BY_STANDARD = ("eventsource", "eventsource-parser", "EventSource of Chromium")
if shutil.which("chromium"):
    READERS["EventSource of Chromium"] = read_chromium
elif os.environ.get("CI"):
    sys.exit("chromium is missing: apt-get install chromium")
else:
    print("left out: the EventSource of Chromium, which is not installed")


def publish(kind, value):
    body = json.dumps({"type": kind, "data": value}, ensure_ascii=False).encode()  # with the separators as they are
    headers = {**HEADERS, "Content-Type": "application/json"}
    httpx.post(f"{URL}/v1/streams/readers/events", content=body, headers=headers).raise_for_status()


def write(values):
    """Publishes, with silences that are longer than a heartbeat, and ends the stream."""
    for i, value in enumerate(values):
        publish("note", value)
        publish("noise", value)
        if i % 2 == 1:
            time.sleep(1.6)
    httpx.post(f"{URL}/v1/streams/readers/end", json={"outcome": "completed"}, headers=HEADERS).raise_for_status()


def check(name, got, want, values, cursors):
    """Returns what is wrong."""
    wrong = []
    moves = [e for e in got if e[0] == "cursor"]
    if any(json.loads(data).get("cursor") != cursor for _, cursor, data in moves) or bool(moves) != cursors:
        wrong.append(f"{len(moves)} cursor events: {moves[:3]}")
    events = [e for e in got if e[0] != "cursor"]
    if [e[0] for e in events] != want:
        wrong.append(f"the events {[e[0] for e in events]}, want {want}")
    notes = [json.loads(data).get("data") for kind, _, data in events if kind == "note"]
    if notes != values:
        wrong.append(f"the notes {notes!r}, want {values!r}")
    if len({e[1] for e in got}) != len(got) or any(not e[1] for e in got):
        wrong.append(f"the cursors {[e[1] for e in got]}")
    return [f"{name}: {w}" for w in wrong]


def main():
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["READERS_PORT"])), Pages)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    httpx.put(f"{URL}/v1/streams/readers", json={}, headers=HEADERS).raise_for_status()
    values = [f"{i}: a{SEPARATORS}b" for i in range(6)]
    every = [kind for _ in values for kind in ("note", "noise")] + ["end"]
    runs = []
    for name, read in READERS.items():
        runs.append((name, read, PLAIN, every, False))
        if name in BY_STANDARD:
            runs.append((name + ", filtered", read, FILTERED, ["note"] * len(values) + ["end"], False))
        runs.append((name + ", filtered with cursors", read, FILTERED + "&cursors=event", ["note"] * len(values) + ["end"], True))
    results = [[] for _ in runs]
    threads = [threading.Thread(target=run[1], args=(run[2], got), daemon=True) for run, got in zip(runs, results)]
    raw = []
    threads.append(threading.Thread(target=read_raw, args=(raw,), daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(2.5)  # the head of each answer, and a heartbeat before the first event
    opened = time.monotonic() + TIMEOUT / 2
    while readers_open() < len(runs) + 1 and time.monotonic() < opened:
        time.sleep(0.1)  # a browser takes its time
    write(values)
    deadline = time.monotonic() + TIMEOUT
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    failed = [w for run, got in zip(runs, results) for w in check(run[0], got, run[3], values, run[4])]
    text = b"".join(raw).decode()
    if not text.startswith("retry: 1000\n") or text.count("\n:\n") < 3 or text.count("\n\n") != len(every):
        failed.append(f"the wire: {text!r}")
    if failed:
        sys.exit("\n".join(["FAIL", *failed]))
    print(f"{len(runs)} readings by {len(READERS)} readers, each event once and none too many")


def readers_open():
    """How many readers the server has."""
    text = httpx.get(f"{URL}/metrics", headers=HEADERS).raise_for_status().text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("reprise_readers "))


def read_raw(chunks):
    headers = {**HEADERS, "Accept": "text/event-stream"}
    with httpx.stream("GET", events_url(PLAIN), headers=headers, timeout=TIMEOUT) as response:
        chunks.extend(response.iter_bytes())


main()
