"""Calls against a real server, by both clients."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from both import KINDS
from conftest import Server, until
from proxy import Proxy
from scripted import Scripted, answer, problem

from reprise import AsyncReprise, CommandError, GapError, NetworkError, ProblemError, ProtocolError, Reprise

pytestmark = pytest.mark.parametrize("kind", KINDS)


class Caller:
    """Calls a client of either kind as if it were the sync one."""

    def __init__(self, kind: str, url: str, token: str | None, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        cls: Any = Reprise if kind == "sync" else AsyncReprise
        self.client = cls(url, token, min_wait=0.01, max_wait=0.05, **settings)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self(getattr(self.client, "close", None) or self.client.aclose)
        self._loop.close()

    def __call__(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        result = method(*args, **options)
        return self._loop.run_until_complete(result) if inspect.isawaitable(result) else result


def test_run_is_like_subprocess_run(server: Server, kind: str) -> None:
    with Caller(kind, server.url, server.token) as call:
        run = call.client.run
        assert call(run, ["cat"], input=b"\xff").stdout == call(run, ["cat"], stdin=b"\xff").stdout == b"\xff"
        with pytest.raises(TypeError, match="another name"):
            call(run, ["cat"], input="a", stdin="b")
        with pytest.raises(ProblemError, match="invalid: argvv: there is no such member"):
            call(run, ["cat"], argvv=[])
        result = call(run, ["sh", "-c", "cat; echo err >&2; printf '\\377'; exit 3"], stdin="héé")
        assert (result.returncode, result.stdout, result.stderr) == (3, "héé".encode() + b"\xff", b"err\n")
        assert result.outcome == "exited"
        events: list[str] = []
        result = call(run, "echo $X", text=True, check=True, env={"X": "ü"}, on_event=lambda e: events.append(e.type))
        assert (result.stdout, events) == ("ü\n", ["started", "stdout", "end"])
        assert call(run, language="python", code="print(1)", text=True).stdout == "1\n"
        assert call(run, "kill -SEGV $$").returncode == -11
        assert call(run, "sleep 9", timeout=0.1).returncode in (-15, -9)
        assert call(run, "trap 'exit 0' TERM; sleep 9 & wait", timeout=2).returncode == 124
        assert call(run, ["/no/such/program"]).returncode == 127


def test_check_raises_a_called_process_error(server: Server, kind: str) -> None:
    with Caller(kind, server.url, server.token) as call:
        with pytest.raises(subprocess.CalledProcessError) as raised:
            call(call.client.run, "echo out; echo err >&2; exit 4", check=True, text=True)
        error = raised.value
        assert isinstance(error, CommandError)
        assert (error.returncode, error.stdout, error.stderr, error.code) == (4, "out\n", "err\n", "exited")
        with pytest.raises(CommandError, match="failed_to_start"):
            call(call.client.run, ["/no/such/program"], check=True)


def test_output_that_is_gone_is_an_error(server: Server, kind: str) -> None:
    with Caller(kind, server.url, server.token) as call:
        # At least one event of each channel, beside the first and the last.
        command = "for i in 1 2 3 4 5 6 7 8; do echo $i; echo $i >&2; sleep 0.02; done"
        id = call(call.client.start, command, retention={"max_events": 3}).id
        until(lambda: call(call.client.show, id).status == "ended", 120, "it does not end")
        with pytest.raises(GapError):
            call(call.client.run, command, id=id, retention={"max_events": 3})


def test_start_is_done_once_however_often_it_is_sent(server: Server, kind: str, tmp_path: Any) -> None:
    ticks = tmp_path / "ticks"
    places = iter([40, 100, 300, *[None] * 9])
    with Proxy(server.port, lambda: next(places)) as proxy, Caller(kind, proxy.url, server.token) as call:
        execution = call(call.client.start, f"echo tick >> {ticks}")
        assert proxy.cuts == 3
        until(lambda: call(call.client.show, execution.id).status == "ended", 120, "it does not end")
    places = iter([40, 400, 900, *[None] * 9])
    with Proxy(server.port, lambda: next(places)) as proxy, Caller(kind, proxy.url, server.token) as call:
        call(call.client.run, f"echo tick >> {ticks}", check=True)
        assert proxy.cuts == 3
    assert ticks.read_text() == "tick\ntick\n"


def test_stdin_arrives_once(server: Server, kind: str) -> None:
    text = b"".join(b"line %d\n" % i for i in range(200_000))
    places = iter([50, 60, 70, *[None] * 99])
    with Proxy(server.port, lambda: next(places)) as proxy, Caller(kind, proxy.url, server.token) as call:
        with Caller(kind, server.url, server.token) as direct:
            id = direct(direct.client.start, ["sha256sum"], stdin_open=True).id
        writer = call.client.stdin(id)
        call(writer.write, text)
        assert writer.offset == len(text)
        call(getattr(writer, "close", None) or writer.aclose)
        assert proxy.cuts == 3
        result = call(call.client.run, ["sha256sum"], id=id, stdin_open=True, text=True)
        assert (
            result.stdout.split()[0]
            == subprocess.run(["sha256sum"], input=text, stdout=subprocess.PIPE).stdout.decode().split()[0]
        )
        with pytest.raises(ProblemError) as raised:
            call(call.client.stdin(id, 0).write, b"more" * 999999)
        assert raised.value.code == "stream_ended"
        again = call.client.stdin(id, writer.offset)
        call(getattr(again, "close", None) or again.aclose)  # has ended already


def test_other_bytes_after_a_write_in_doubt_are_refused(kind: str) -> None:
    kept = [answer(200, json.dumps({"offset": offset, "open": True}), "application/json") for offset in (4, 6)]
    others = [problem(500, "internal", False), answer(200, '{"offset":60}', "application/json")]
    with Scripted(b"", *kept, *others) as one, Caller(kind, one.url, "", give_up=0) as call:
        stdin = call.client.stdin("x")
        with pytest.raises(NetworkError):
            call(stdin.write, b"one")
        for other in (b"two", b"on"):
            with pytest.raises(ValueError, match="the failed write"):
                call(stdin.write, other)
        call(stdin.write, b"one,")
        call(stdin.write, b"20")
        assert (stdin.offset, len(one.heads)) == (6, 3)
        for error in (ProblemError, ProtocolError):  # a server that fails may have taken it; another writer was faster
            with pytest.raises(error):
                call(stdin.write, b"x")
            with pytest.raises(ValueError, match="the failed write"):
                call(stdin.write, b"y")
        assert (stdin.offset, len(one.heads)) == (6, 5)


def test_a_refusal_after_a_lost_answer_leaves_a_publish_in_doubt(kind: str) -> None:
    kept = answer(200, json.dumps({"first": 1, "last": 1, "cursor": "c"}), "application/json")
    with Scripted(b"", problem(401, "unauthenticated", False), kept) as one, Caller(kind, one.url, "") as call:
        producer = call.client.producer("x")
        with pytest.raises(ProblemError):
            call(producer.publish, "n", 1)
        call(producer.publish, "n", 2)
        assert [one.header(i, "Producer-Epoch") for i in range(3)] == ["0", "0", "1"]


def test_an_answer_without_its_members_is_an_error_of_the_client(kind: str) -> None:
    with Scripted(answer(200, "{}", "application/json")) as one, Caller(kind, one.url, "") as call:
        for method, arguments in (
            (call.client.streams.list, ()),
            (call.client.tasks.list, ()),
            (call.client.stdin("x").write, ("a",)),
        ):
            with pytest.raises(ProtocolError, match="has no"):
                call(method, *arguments)


def test_raw_is_a_plain_object(kind: str) -> None:
    made = answer(201, '{"id": "x", "extra": 1}', "application/json")
    with Scripted(made) as one, Caller(kind, one.url, "") as call:
        raw = call(call.client.start, "true", id="x").raw
        assert raw["extra"] == 1
        with pytest.raises(KeyError):
            raw["missing"]


def test_signal_and_cancel(server: Server, kind: str) -> None:
    with Caller(kind, server.url, server.token) as call:
        for method, args, outcome in ((call.client.signal, ("TERM",), "signaled"), (call.client.cancel, (), "cancelled")):
            id = call(call.client.start, ["sleep", "60"]).id
            until(lambda id=id: call(call.client.page, id).events, 120, "it does not run")
            call(method, id, *args)
            assert call(call.client.run, ["sleep", "60"], id=id).outcome == outcome
        call(call.client.cancel, id)
        call(call.client.remove, id)
        call(call.client.remove, id)
        with pytest.raises(ProblemError) as raised:
            call(call.client.show, id)
        assert (raised.value.code, raised.value.retryable, raised.value.op) == ("not_found", False, f"show execution {id}")


def test_a_signal_is_not_sent_twice(server: Server, kind: str) -> None:
    with Scripted(b"") as one, Caller(kind, one.url, "") as call:
        with pytest.raises(NetworkError):
            call(call.client.signal, "x", "INT")
        assert len(one.heads) == 1
    with Scripted(problem(503, "store_unavailable", True)) as one, Caller(kind, one.url, "") as call:
        with pytest.raises(ProblemError):  # it may have been sent before the store failed
            call(call.client.signal, "x", "INT")
        assert len(one.heads) == 1
    with Scripted(problem(429, "rate_limited", True), answer(204)) as one, Caller(kind, one.url, "") as call:
        call(call.client.signal, "x", "INT")
        assert len(one.heads) == 2


def test_what_an_earlier_attempt_has_removed_is_removed(kind: str) -> None:
    gone = problem(404, "not_found", False)
    for part in ("webhooks", "schedules"):
        with Scripted(b"", gone) as one, Caller(kind, one.url, "") as call:
            call(getattr(call.client, part).remove, "x")
            assert len(one.heads) == 2
        with Scripted(gone) as one, Caller(kind, one.url, "") as call, pytest.raises(ProblemError):
            call(getattr(call.client, part).remove, "x")


def test_an_idempotency_key_beside_an_id_leaves_run_as_it_is(server: Server, kind: str) -> None:
    key = secrets.token_hex(4)
    with Caller(kind, server.url, server.token) as call:
        for options in ({"id": f"held-{key}", "idempotency_key": key}, {"idempotency_key": f"{key}-2"}):
            assert call(call.client.run, "echo held", text=True, hold=10, **options).stdout == "held\n"


def test_lists_and_sessions(server: Server, kind: str) -> None:
    session = f"s{secrets.token_hex(4)}"
    with Caller(kind, server.url, server.token) as call:
        ids = [
            call(call.client.run, "true", session=session, labels={"n": str(n), "a": "b=c"}, id=f"{session}-{n}").id
            for n in range(3)
        ]
        first = call(call.client.list, session=session, limit=2)
        second = call(call.client.list, session=session, limit=2, cursor=first.next_cursor)
        assert [e.id for e in first.items + second.items] == ids[::-1]
        assert second.next_cursor == ""
        assert [e.id for e in call(call.client.list, labels={"n": "1", "a": "b=c"}, session=session).items] == [ids[1]]
        assert call(call.client.list, session=session, status="running").items == []
        assert call(call.client.sessions.show, session).count == 3
        assert session in [s.id for s in call(call.client.sessions.list).items]
        page = call(call.client.page, ids[0], limit=1)
        assert (page.events[0].type, page.has_more) == ("started", True)
        assert call(call.client.page, ids[0], after=page.next_cursor, types=["end"], wait=1).events[0].type == "end"
        call(call.client.sessions.remove, session)
        assert call(call.client.list, session=session).items == []


def test_tasks_and_replicas(server: Server, kind: str) -> None:
    call_of_tool = {"name": "execute_code", "arguments": {"command": "sleep 600", "wait_seconds": 50}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }
    made = httpx.post(
        f"{server.url}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**call_of_tool, "_meta": meta}},
        headers={
            "Authorization": f"Bearer {server.token}",
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "execute_code",
        },
        timeout=60,
        trust_env=False,
    )
    assert "taskId" in made.text
    with Caller(kind, server.url, server.token) as call:
        tasks = call.client.tasks
        task = call(tasks.list, limit=1).items[0]
        assert (task.tool, task.status, task.ttl_ms, task.expires) == ("execute_code", "working", None, None)
        assert call(call.client.show, task.execution).status == "running"
        call(tasks.cancel, task.id)
        until(lambda: call(tasks.show, task.id).status == "cancelled", 30, "the task is not cancelled")
        ended = call(tasks.show, task.id)
        assert ended.cancel_requested and ended.expires > ended.created
        with pytest.raises(ProblemError, match="not_found"):
            call(tasks.cancel, "A" * 26)
        replicas = call(call.client.replicas.list)
        assert replicas.next_cursor == "" and len(replicas.items) == 1
        replica = replicas.items[0]
        assert (replica.self, replica.answers, replica.last_heartbeat) == (True, True, None)
        assert replica.executions is not None and replica.started is not None
        assert call(call.client.replicas.list, cursor=replica.id).items == []


def test_streams_and_tickets(server: Server, kind: str) -> None:
    name = f"builds/linux-{secrets.token_hex(4)}"
    with Caller(kind, server.url, server.token) as call:
        streams = call.client.streams
        made = call(streams.create, name, retention={"max_events": 9, "max_age": 90}, labels={"a": "b"})
        assert (made.name, made.labels, made.retention) == (name, {"a": "b"}, {"max_events": 9, "max_age": "1m30s"})
        with pytest.raises(ProblemError, match="conflict"):
            call(streams.create, name, labels={"a": "c"})
        producer = call.client.producer(name)
        assert call(producer.publish, "note", {"x": [1, None, "ü"]}).last == 1
        assert call(producer.publish, "raw", b"\xff\n").last == 2
        assert call(producer.publish_many, [("a", 1), ("b", 12345678901234567890)]).first == 3
        with pytest.raises(ProblemError, match="invalid"):
            call(producer.publish, "end", 1)
        assert call(producer.publish, "note").last == 5  # what was refused has used no number
        assert call(producer.end, "failed", {"why": "x"}).last == 6
        events = call(streams.page, name).events
        assert [e.data for e in events] == [{"x": [1, None, "ü"]}, None, 1, 12345678901234567890, None, {"why": "x"}]
        assert (events[1].bytes, events[1].is_json, events[0].is_json) == (b"\xff\n", False, True)
        assert call(streams.show, name).outcome == "failed"
        with pytest.raises(ProblemError, match="stream_ended"):
            call(producer.publish, "note")
        ticket = call(call.client.tickets.create, stream=name, ttl="5m")
        assert httpx.get(server.url + ticket.events, trust_env=False).status_code == 200
        assert ticket.ticket not in repr(ticket)
        assert name in [s.name for s in call(streams.list).items]
        changed = call(streams.configure, name, retention={"max_events": 2, "max_age": 3600}, labels={"c": "d", "a": None})
        assert (changed.labels, changed.retention, changed.events) == ({"c": "d"}, {"max_events": 2, "max_age": "1h0m0s"}, 2)
        assert call(streams.trim, name, after=events[4].cursor).events == 1
        assert (call(streams.trim, name).events, call(streams.page, name).events) == (0, [])
        call(streams.remove, name)
        assert name not in [s.name for s in call(streams.list).items]


def test_publishing_is_done_once_however_often_it_is_sent(server: Server, kind: str) -> None:
    name = f"once-{secrets.token_hex(4)}"
    places = iter([30, 90, 200, 250, *[None, 300] * 20, *[None] * 99])
    with Proxy(server.port, lambda: next(places)) as proxy, Caller(kind, proxy.url, server.token) as call:
        with Caller(kind, server.url, server.token) as direct:
            direct(direct.client.streams.create, name)
        producer = call.client.producer(name)
        for n in range(60):
            call(producer.publish, "note", n)
        call(producer.end)
        assert proxy.cuts > 3
        assert [e.data for e in call(call.client.streams.page, name).events[:-1]] == list(range(60))


def test_publish_under_a_key_is_made_once(server: Server, kind: str) -> None:
    name = f"keyed-{secrets.token_hex(4)}"
    places = iter([30, 90, 200, 250, *[None] * 99])
    events = [("note", 1), ("note", {"x": "ü"})]
    with Proxy(server.port, lambda: next(places)) as proxy, Caller(kind, proxy.url, server.token) as call:
        with Caller(kind, server.url, server.token) as direct:
            direct(direct.client.streams.create, name)
        first = call(call.client.streams.publish_once, name, "order 1", events)
        assert proxy.cuts > 1
    with Caller(kind, server.url, server.token) as call:
        streams = call.client.streams
        again = call(streams.publish_once, name, "order 1", events)
        assert (first.first, first.last, again.first, again.last, again.duplicate) == (1, 2, 1, 2, True)
        with pytest.raises(ProblemError, match="conflict"):
            call(streams.publish_once, name, "order 1", [("note", 3)])
        assert call(streams.publish_once, name, "order 2", [("note", 3)]).first == 3


def test_follow_from_the_tail(server: Server, kind: str) -> None:
    name = f"tail-{secrets.token_hex(4)}"
    with Caller(kind, server.url, server.token) as call:
        call(call.client.streams.create, name)
        producer = call.client.producer(name)
        call(producer.publish, "note", 1)
        connected = threading.Event()

        def more() -> None:
            assert connected.wait(120)
            with Reprise(server.url, server.token) as other:
                late = other.producer(name)
                late.publish("note", 2)
                late.end()

        thread = threading.Thread(target=more)
        thread.start()
        loop = call.client.streams.follow(name, after="tail", on_connected=connected.set)

        async def rest() -> list[Any]:
            return [event.data async for event in loop]

        got = [event.data for event in loop] if kind == "sync" else call(rest)
        thread.join()
        assert got == [2, None]


def test_a_slow_answer_is_given_up(kind: str) -> None:
    with Scripted(lambda client: one.silent_after(b"")(client)) as one:
        with Caller(kind, one.url, "", timeout=0.2, give_up=0.3) as call:
            begun = time.monotonic()
            with pytest.raises(NetworkError) as raised:
                call(call.client.show, "x")
            assert raised.value.retryable and time.monotonic() - begun < 60


def test_settings_that_cannot_be_used(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    cls: Any = Reprise if kind == "sync" else AsyncReprise
    for url in ("ftp://x", "http://", "http://u:p@x", "http://x?q", "http://x:99999"):
        with pytest.raises(ValueError, match="URL"):
            cls(url)
    with pytest.raises(ValueError, match="token"):
        cls("http://x", "a b")
    for name in ("REPRISE_URL", "REPRISE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "reprise").mkdir()
    (tmp_path / "reprise" / "token").write_text("local\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cls()._transport.config.token == "local"
    assert cls("http://example.org")._transport.config.token == "", "the token of this machine goes to no other"
    with Caller(kind, "http://127.0.0.1:1", "") as call:
        for name in ("", ".", ".."):
            with pytest.raises(ValueError, match="names nothing"):
                call(call.client.show, name)


def test_key_is_started_again_until_it_succeeds(server: Server, kind: str, tmp_path: Any) -> None:
    with Caller(kind, server.url, server.token) as call:
        key, runs = secrets.token_hex(8), tmp_path / "runs"
        command = f"echo run >>{runs}; echo out; [ $(wc -l <{runs}) = 2 ]"
        first = call(call.client.run, command, key=key, text=True)
        second = call(call.client.run, command, key=key, text=True)
        third = call(call.client.run, command, key=key, text=True)
        assert (first.returncode, second.returncode, third.returncode) == (1, 0, 0)
        assert first.id != second.id == third.id and third.stdout == "out\n"
        assert runs.read_text() == "run\nrun\n"
        execution = call(call.client.start, command, key=key)
        assert (execution.id, execution.key) == (second.id, key)
        with pytest.raises(ProblemError) as refused:
            call(call.client.start, "true", key=key)
        assert refused.value.code == "conflict"


def test_idempotency_key_stands_for_the_id(server: Server, kind: str, tmp_path: Any) -> None:
    with Caller(kind, server.url, server.token) as call:
        key, runs = secrets.token_hex(8), tmp_path / "runs"
        command = f"echo run >>{runs}; exit 3"
        first = call(call.client.run, command, idempotency_key=key)
        second = call(call.client.run, command, idempotency_key=key)
        assert first.id == second.id and (first.returncode, second.returncode) == (3, 3)
        assert call(call.client.start, command, idempotency_key=key).id == first.id
        assert runs.read_text() == "run\n", "it runs once"
        named = f"named-{key}"
        call(call.client.start, "true", id=named, idempotency_key=key)  # beside an id the key is a part of the request
        with pytest.raises(ProblemError) as refused:
            call(call.client.start, "true", id=named, idempotency_key="other")
        assert refused.value.code == "conflict"
