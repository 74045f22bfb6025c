"""Real MCP servers over our event store: connections that are cut and servers that are killed in mid-call."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from conftest import Server, free_port, until

from reprise import AsyncReprise, Reprise
from reprise._async.producer import AsyncProducer
from reprise._sse import Decoder
from reprise.mcp import EventStore
from reprise.mcp._bound import Owner
from reprise.mcp._messages import load

PROGRAM = pathlib.Path(__file__).with_name("mcp_server.py")
ARGUMENTS = '{"steps":STEPS,"delay_ms":MS,"size":3}'  # of the tool, in the terms of check-mcp


def interpreter(kind: str) -> str:
    """The Python of a server. The SDK 1.x, which FastMCP 3 uses, has an environment of its own; see scripts/sdk-python."""
    return os.environ["REPRISE_MCP1_PYTHON"] if kind in ("sdk1", "fastmcp3") else sys.executable


class Upstream:
    """A process of an MCP server."""

    def __init__(self, kind: str, server: Server, port: int, lost_after: float, wrapped: bool = False) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        command = [interpreter(kind), str(PROGRAM), kind, str(port), server.url, server.token, str(lost_after)]
        command += ["wrapped"] if wrapped else []
        self.process = subprocess.Popen(command)
        until(self._answers, 120, "the MCP server does not start")

    def _answers(self) -> bool:
        assert self.process.poll() is None, "the MCP server has ended"
        try:
            httpx.get(self.url.removesuffix("mcp"), trust_env=False)
        except httpx.TransportError:
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Client:
    """Speaks plain HTTP, and remembers the last event id."""

    def __init__(self, url: str, version: str) -> None:
        self.url, self.last_id, self.version = url, "", version
        self.http = httpx.Client(trust_env=False, timeout=120)
        self.headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
        info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        with self.post({"id": 0, "method": "initialize", "params": info}) as answer:
            self.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
            assert any("result" in message for message in self.messages(answer))
        with self.post({"method": "notifications/initialized"}) as answer:
            assert answer.status_code == 202
        self.last_id = ""

    def post(self, message: dict[str, Any]) -> Any:
        return self.http.stream("POST", self.url, json={"jsonrpc": "2.0", **message}, headers=self.headers)

    def call(self, id: int = 1, *, steps: int, delay_ms: int = 50, size: int = 3) -> Any:
        arguments = {"steps": steps, "delay_ms": delay_ms, "size": size}
        params = {"name": "count", "arguments": arguments, "_meta": {"progressToken": 7}}
        return self.post({"id": id, "method": "tools/call", "params": params})

    def resume(self, url: str = "") -> Any:
        return self.http.stream("GET", url or self.url, headers={**self.headers, "Last-Event-ID": self.last_id})

    def messages(self, answer: httpx.Response) -> Iterator[dict[str, Any]]:
        decoder = Decoder()
        for chunk in answer.iter_raw():
            for id, _, data in decoder.feed(chunk):
                self.last_id = id or self.last_id
                if data:
                    yield json.loads(data)


def progress(messages: list[dict[str, Any]]) -> list[float]:
    return [m["params"]["progress"] for m in messages if m.get("method") == "notifications/progress"]


Start = Callable[..., Upstream]
Connect = Callable[[str, str], Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Makes clients, which are closed with the test."""
    with contextlib.ExitStack() as stack:

        def one(url: str, version: str) -> Client:
            client = Client(url, version)
            stack.callback(client.http.close)
            return client

        yield one


# The gate takes the SDK 2.x by itself, and the SDK 1.x below FastMCP 3; the nightly tier the other two as well.
KINDS = ["sdk", "fastmcp3", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("sdk1", "fastmcp"))]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def upstream(kind: str, server: Server) -> Iterator[Upstream]:
    """An MCP server that nobody kills."""
    one = Upstream(kind, server, free_port(), 0)
    yield one
    one.kill()


@pytest.fixture
def start(kind: str, server: Server) -> Iterator[Start]:
    """Starts MCP servers, which end with the test."""
    started: list[Upstream] = []

    def one(port: int | None = None, lost_after: float = 0, wrapped: bool = False) -> Upstream:
        started.append(Upstream(kind, server, port or free_port(), lost_after, wrapped))
        return started[-1]

    yield one
    for upstream in started:
        upstream.kill()


# The cases of check-mcp that depend on the store; docs/internals/mcp.md has the results of all.
CASES = "unknown|foreign|no session|terminated|takeover|GET|resume at|drop again|purged"


def test_check_mcp(upstream: Upstream, server: Server) -> None:
    command = [server.binary, "check-mcp", "--protocol", "2025-11-25", "--only", CASES, "--arguments", ARGUMENTS, upstream.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") > 10, done.stdout


def test_a_store_of_others_around_ours(start: Start, server: Server, connect: Connect) -> None:
    """The SDK replays what the wrapper has, whose session is known to our store all the same. It resumes after the end of the
    call, because between the SDK's replay and its new messages one can be lost."""
    upstream = start(wrapped=True)
    one, other = connect(upstream.url, "2025-11-25"), connect(upstream.url, "2025-11-25")
    with one.call(steps=3) as answer:
        first = next(iter(one.messages(answer)))
    other.last_id = one.last_id
    with Reprise(server.url, server.token) as reprise:

        def ended() -> bool:
            streams = [s for s in reprise.streams.list(limit=1000).items if one.headers["Mcp-Session-Id"] in s.name]
            return len(streams) == 2 and all(s.status == "ended" for s in streams)

        until(ended, 60, "the call does not end")
    with one.resume() as answer:
        seen = [first]
        for message in one.messages(answer):  # the SDK does not end it
            seen.append(message)
            if "result" in message:
                break
    assert progress(seen) == [1, 2, 3]
    with other.resume() as answer:
        assert next(other.messages(answer), None) is None


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_killed_in_mid_call(start: Start, version: str, connect: Connect) -> None:
    port = free_port()
    upstream = start(port)
    client = connect(upstream.url, version)
    seen = []
    with client.call(steps=200) as answer:
        for message in client.messages(answer):
            seen.append(message)
            if len(seen) == 5:
                upstream.kill()
                break
    start(port)
    with client.resume() as answer:
        assert answer.status_code == 200
        seen += client.messages(answer)
    assert progress(seen) == list(range(1, len(seen)))
    assert seen[-1]["id"] == 1
    assert seen[-1]["error"]["data"] == {"code": "server_lost"}
    with client.resume() as answer:  # at the very end
        assert list(client.messages(answer)) == []
    client.last_id = client.last_id.replace("1~", "2~", 1)
    with client.resume() as answer:
        assert answer.status_code == 404
    with client.call(steps=1) as answer:
        assert answer.status_code == 404  # the SDK has forgotten the session; a client begins a new one


def test_the_answer_is_there_after_the_server_has_died(start: Start, connect: Connect) -> None:
    port = free_port()
    upstream = start(port)
    client = connect(upstream.url, "2025-06-18")
    with client.call(steps=3, size=1 << 20) as answer:
        first = next(iter(client.messages(answer)))
    with client.resume() as answer:
        rest = list(client.messages(answer))
    upstream.kill()
    start(port)
    client.last_id = client.last_id.split("~")[0] + "~" + "earliest"
    with client.resume() as answer:
        again = list(client.messages(answer))
    assert progress([first, *rest]) == [1, 2, 3] == progress(again)
    assert again[-1] == rest[-1]
    assert again[-1]["result"]["content"][0]["text"] == "x" * (1 << 20)


def test_cut_in_mid_call_again_and_again(upstream: Upstream, connect: Connect) -> None:
    client = connect(upstream.url, "2025-11-25")
    seen: list[dict[str, Any]] = []
    request = client.call(steps=40, delay_ms=20)
    for _ in range(60):
        with request as answer:
            assert answer.status_code == 200
            for message in client.messages(answer):
                seen.append(message)
                if len(seen) % 3 == 0:
                    break
        if "result" in seen[-1]:
            break
        request = client.resume()
    assert progress(seen) == list(range(1, 41))
    assert seen[-1]["result"]["content"][0]["text"] == "xxx"


def test_sessions_are_apart(upstream: Upstream, connect: Connect) -> None:
    one, other = connect(upstream.url, "2025-11-25"), connect(upstream.url, "2025-11-25")
    for client in (one, other):
        with client.call(steps=1, size=5 if client is one else 6) as answer:
            assert len(list(client.messages(answer))) == 2
    other.last_id, kept = one.last_id.split("~")[0] + "~earliest", one.last_id
    with other.resume() as answer:  # its own stream of that id; FastMCP has none
        assert '"' + "x" * 5 + '"' not in answer.read().decode()
    other.last_id = kept
    with other.resume() as answer:
        assert answer.status_code == 400
        assert answer.read()
        assert answer.json()["error"]["data"]["code"] in ("cursor_foreign", "not_found")
    one.last_id = kept.split("~")[0] + "~earliest"
    with one.http.stream("DELETE", one.url, headers=one.headers) as answer:
        assert answer.status_code == 200
    with one.resume() as answer:  # its client has ended it, so that nobody reads what is still kept
        assert answer.status_code == 404


def test_another_replica_goes_on_with_the_call(upstream: Upstream, start: Start, connect: Connect) -> None:
    second = start(lost_after=10)
    client = connect(upstream.url, "2025-11-25")
    with client.call(steps=30) as answer:
        seen = [next(iter(client.messages(answer)))]
    with client.resume(second.url) as answer:
        seen += client.messages(answer)
    assert progress(seen) == list(range(1, 31))
    assert "result" in seen[-1]


def test_streams_are_bounded_and_end(server: Server, upstream: Upstream, connect: Connect) -> None:
    client = connect(upstream.url, "2025-11-25")
    with client.call(steps=2) as answer:
        list(client.messages(answer))
    session = client.headers["Mcp-Session-Id"]
    with Reprise(server.url, server.token) as reprise:
        streams = [s for s in reprise.streams.list(limit=1000).items if session in s.name]
    assert len(streams) == 2  # the answers to initialize and to the call
    assert all(s.status == "ended" for s in streams)
    assert streams[0].retention["max_events"] == 10_000
    assert streams[0].retention["max_idle"] == "168h0m0s"
    assert streams[0].expires is not None


def test_a_call_that_was_ended_as_idle_is_answered(start: Start, server: Server, connect: Connect) -> None:
    """The process has died, nobody resumed the call, and the server has ended its stream."""
    upstream = start()
    client = connect(upstream.url, "2025-11-25")
    with client.call(steps=1000) as answer:
        seen = [next(iter(client.messages(answer)))]
    upstream.kill()
    session = client.headers["Mcp-Session-Id"]
    with Reprise(server.url, server.token) as reprise:
        [name] = [s.name for s in reprise.streams.list(limit=1000).items if session in s.name and s.status == "open"]
        reprise.producer(name).end("failed", {"code": "idle", "max_idle": "168h0m0s"})  # as a sweep does after a week
    with client.resume(start().url) as answer:
        seen += client.messages(answer)
    assert seen[-1]["error"]["data"] == {"code": "server_lost"}


@pytest.mark.parametrize("kind", ["sdk", "sdk1"])
def test_a_store_of_one_session(kind: str, server: Server) -> None:
    command = [interpreter(kind), str(PROGRAM.with_name("mcp_session.py")), server.url, server.token]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    kept, messages = zip(*(line.split(" ", 1) for line in shown.rstrip("\n").split("\n")), strict=True)
    assert kept == ("True", "True")
    assert [json.loads(message).get("id") for message in messages] == [None, 1]
    assert json.loads(messages[1])["result"]["content"][0]["text"] == "\u2028"


def test_a_session_that_is_removed_while_an_answer_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = AsyncProducer.publish

    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            store = EventStore(client, prefix="mcp-removed")

            async def removed(self: AsyncProducer[Any], *args: Any, **options: Any) -> Any:  # between the parts of an answer
                published = await publish(self, *args, **options)
                await store._forget(Owner("session"))
                return published

            monkeypatch.setattr(AsyncProducer, "publish", removed)
            answer = load(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * (300 << 10)}}))
            assert await store._store(Owner("session"), "1", answer) == "-"
            assert store._broken == {"mcp-removed/session/1"}
            await store._forget(Owner("session"))
            assert not store._broken and not store._writers

    asyncio.run(main())
