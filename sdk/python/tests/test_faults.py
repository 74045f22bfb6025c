"""What a server or something in front of it may do wrong, and what a loop makes of it."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import time
import zlib
from typing import Any

import pytest
from both import KINDS, read
from scripted import OTHER, Answer, Scripted, answer, block, cursor, end, gap, in_time, problem, stream

from reprise import (
    AsyncReprise,
    End,
    Gap,
    GapError,
    MemoryCursor,
    NetworkError,
    ProblemError,
    ProtocolError,
    Reprise,
    RepriseError,
)
from reprise._flow import FollowOptions
from reprise._retry import Failures
from reprise._wire import retry_after

pytestmark = pytest.mark.parametrize("kind", KINDS)


def seqs(kind: str, *answers: Answer, **options: Any) -> list[int]:
    with Scripted(*answers) as server:
        return [event.seq for event in read(kind, server.url, "secret", stream="s", **options)]


def test_duplicates_are_passed_over(kind: str) -> None:
    assert seqs(kind, stream(block(1), block(2)), stream(block(1), block(2), block(3), end(4))) == [1, 2, 3, 4]


def test_a_hole_is_retried_and_then_an_error(kind: str) -> None:
    assert seqs(kind, stream(block(1), block(3)), stream(block(2), end(3))) == [1, 2, 3]
    with pytest.raises(ProtocolError, match="event 3 comes after 1") as raised:
        seqs(kind, stream(block(1)), stream(block(3)))
    assert raised.value.tries == 3 or raised.value.tries == 4
    assert raised.value.op == "follow stream s"


@pytest.mark.parametrize(
    "bad",
    ["event: note\ndata: {\"seq\":1,\"time\":\"2026-11-20T09:30:00.000Z\"}\n\n",
     f"id: {cursor(5)}\nevent: note\ndata: {{\"seq\":1,\"data\":1}}\n\n",
     f"id: {cursor(1)}\nevent: note\ndata: {{\"seq\":1,\"base64\":\"%\"}}\n\n",
     f"id: {cursor(1)}\nevent: note\ndata: {{\"seq\":1,\n\n"],
)  # fmt: skip
def test_what_is_no_event_is_an_error_after_three_times(kind: str, bad: str) -> None:
    with Scripted(stream(bad)) as server:
        with pytest.raises(ProtocolError):
            read(kind, server.url, "", stream="s")
        assert len(server.heads) == 3
    assert seqs(kind, stream(bad), stream(end(1))) == [1]


def test_events_that_something_in_front_of_the_server_adds_are_not_given(kind: str) -> None:
    added = "".join(
        f"event: {type}\ndata: {data}\n\n"
        for type, data in (("ping", "{}"), ("end", "not JSON"), ("message", '{"seq":"1"}'), ("gap", "null"), ("cursor", "7"))
    )
    answers = [stream(added)] * 8 + [stream(added, block(1), added), stream(added, block(2)), stream(added, end(3))]
    assert seqs(kind, *answers) == [1, 2, 3]
    with pytest.raises(ProtocolError, match="event 3 comes after 1"):
        seqs(kind, stream(block(1), added, end(3)))


def test_the_cursor_is_kept_through_connections_that_bring_nothing(kind: str) -> None:
    with Scripted(stream(block(1)), stream(), stream("id: half"), stream(end(2))) as server:
        read(kind, server.url, "", stream="s")
        assert [server.header(i, "last-event-id") for i in range(4)] == [None, cursor(1), cursor(1), cursor(1)]


def test_204_and_the_end_event_end_it_and_nothing_else(kind: str) -> None:
    over, foreign = answer(204, headers="Stream-Outcome: completed\r\n"), answer(204, type="text/html")
    assert seqs(kind, stream(block(1)), over) == [1]
    assert seqs(kind, stream(block(1)), foreign, foreign, foreign, foreign, stream(block(2)), over) == [1, 2]
    with Scripted(foreign) as server:
        with pytest.raises(ProtocolError, match="status 204"):
            read(kind, server.url, "", stream="s")
        assert len(server.heads) == 3
    with Scripted(stream(block(1), end(2), block(3))) as server:
        assert isinstance(read(kind, server.url, "", stream="s")[-1], End)
        assert len(server.heads) == 1


def test_refusals_that_are_final_end_it_at_once(kind: str) -> None:
    for status, code in ((404, "not_found"), (401, "unauthenticated"), (400, "cursor_foreign"), (500, "internal")):
        with Scripted(problem(status, code, False)) as server:
            with pytest.raises(ProblemError) as raised:
                read(kind, server.url, "", stream="s")
            assert (raised.value.code, raised.value.status, raised.value.retryable) == (code, status, False)
            assert len(server.heads) == 1


def test_retry_after_is_waited_for(kind: str) -> None:
    with Scripted(problem(503, "shutting_down", True, "Retry-After: 1\r\n"), stream(end(1))) as server:
        read(kind, server.url, "", stream="s")
        assert server.times[1] - server.times[0] >= 1
    assert [retry_after({"retry-after": text}) for text in ("5", "5, 5", "soon")] == [5, 5, None]


def test_retry_is_waited_for_unless_the_connection_was_of_use(kind: str) -> None:
    slow = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 700\n"
    with Scripted(slow, slow + block(1).encode(), slow + end(2).encode()) as server:
        drops: list[Any] = []
        read(kind, server.url, "", stream="s", on_drop=drops.append)
        assert server.times[1] - server.times[0] >= 0.7
        assert [drop.wait > 0 for drop in drops] == [True, False]


def test_waits_are_random_parts_of_a_span_that_doubles_up_to_a_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    failures = Failures(10, 35)
    assert [failures.next(asked) for asked in (0, 0, 0, 100)] == [5, 10, 17.5, 117.5]
    failures.succeeded()
    assert [failures.next(100), failures.next(0)] == [0, 5]


def test_a_comment_at_the_beginning_of_a_connection_is_no_success(kind: str) -> None:
    drops: list[Any] = []
    assert seqs(kind, stream(":\n"), stream(":\n"), stream(":\n"), stream(end(1)), on_drop=drops.append) == [1]
    assert [drop.tries for drop in drops] == [1, 2, 3]


def test_after_tail_the_position_is_kept(kind: str) -> None:
    page = answer(200, json.dumps({"events": [], "next_cursor": cursor(5)}), "application/json")
    with Scripted(page, stream(), stream(block(6), end(7))) as server:
        assert [e.seq for e in read(kind, server.url, "", stream="s", after="tail")] == [6, 7]
        assert [server.header(i, "last-event-id") for i in range(3)] == [None, cursor(5), cursor(5)]


def test_a_cursor_is_saved_before_the_wait_for_another_connection(kind: str) -> None:
    cursors, saved = MemoryCursor(), []

    def late(client: socket.socket) -> None:
        saved.append(cursors.load())
        client.sendall(stream(end(3)))

    assert seqs(kind, stream(block(1), block(2)), late, cursors=cursors, save_every=60) == [1, 2, 3]
    assert saved == [cursor(2)]


def test_foreign_answers_are_final_before_the_server_was_met_and_retried_after(kind: str) -> None:
    page = answer(404, "<html>", "text/html")
    for foreign in (page, answer(200, "<html>", "text/html"), answer(302, headers="Location: http://x.invalid/\r\n")):
        with Scripted(foreign) as server:
            with pytest.raises(RepriseError):
                read(kind, server.url, "", stream="s")
            assert len(server.heads) in (1, 3)  # a successful answer may be a defect that passes
        assert seqs(kind, stream(block(1)), foreign, foreign, foreign, foreign, stream(end(2))) == [1, 2]
    assert seqs(kind, answer(502, "", "text/html"), answer(503, "", "text/html"), stream(end(1))) == [1]


def test_foreign_answers_are_retried_for_60_s_and_no_longer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprise._retry.FOREIGN_PATIENCE", 0.3)
    begun = time.monotonic()
    with pytest.raises(ProblemError, match="status 404"):
        seqs(kind, stream(block(1)), answer(404, "", "text/html"))
    assert 0.2 < time.monotonic() - begun < 60


def test_redirects_are_not_followed_and_the_token_goes_nowhere_else(kind: str) -> None:
    with Scripted(stream(end(1))) as other:
        with Scripted(answer(307, headers=f"Location: {other.url}/\r\n")) as server:
            with pytest.raises(ProtocolError, match="307"):
                read(kind, server.url, "secret", stream="s", client_min_wait=0.001)
            assert server.header(0, "authorization") == "Bearer secret"
        assert other.heads == []


def test_silence_ends_a_connection_and_heartbeats_do_not(kind: str) -> None:
    def body(unit: int) -> None:
        def beats(client: socket.socket) -> None:
            client.sendall(stream(block(1)))
            for _ in range(8):
                time.sleep(0.2 * unit)
                client.sendall(b":\n")
            client.sendall(end(2).encode())

        assert seqs(kind, beats, idle_timeout=unit) == [1, 2]
        with Scripted(lambda client: server.silent_after(stream(block(1)))(client), stream(end(2))) as server:
            drops: list[Any] = []
            events = read(kind, server.url, "", stream="s", idle_timeout=unit, on_drop=drops.append)
        assert [e.seq for e in events] == [1, 2]
        assert isinstance(drops[0].error, NetworkError) and drops[0].error.silent
        assert (drops[0].wait, drops[0].seq, drops[0].met) == (0, 1, True)

    in_time(0.3, body)


def test_the_debug_log_has_states_and_causes_and_no_token(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    tail = f"Stream-Tail: {cursor(1)}\r\n"
    with caplog.at_level("DEBUG", logger="reprise"):
        assert seqs(kind, b"", stream(block(1), headers=tail), stream(end(2))) == [1, 2]
    names = "connecting|live|caught up|waiting|ended"
    states = [found[1] for r in caplog.records if (found := re.search(rf"follow stream s: ({names})", r.getMessage()))]
    assert " ".join(states) == "connecting waiting connecting live caught up waiting connecting live ended"
    assert "GET http://127.0.0.1" in caplog.text and "secret" not in caplog.text


def test_the_debug_log_goes_to_stderr_when_the_environment_says_so(kind: str) -> None:
    code = "import reprise; reprise.Reprise('http://127.0.0.1:9', 'secret', give_up=0).show('x')"
    environment = {**os.environ, "REPRISE_LOG": "debug"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "reprise: GET http://127.0.0.1:9/v1/executions/x: no answer" in run.stderr
    assert "NetworkError: show execution x: http://127.0.0.1:9: " in run.stderr


def test_an_answer_that_is_held_back_is_named(kind: str) -> None:
    header = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    with Scripted(lambda client: server.silent_after(header)(client), stream(end(1))) as server:
        drops: list[Any] = []
        assert [e.seq for e in read(kind, server.url, "", stream="s", idle_timeout=0.5, on_drop=drops.append)] == [1]
        assert "a proxy may hold the answer back" in str(drops[0].error)


def test_behind_a_proxy_that_holds_answers_back_the_loop_polls(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    header = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    def body(unit: int) -> None:
        def held(client: socket.socket) -> None:
            server.silent_after(header)(client)

        def beating(client: socket.socket) -> None:  # the heartbeat comes as it is sent
            client.sendall(stream(":\n"))
            time.sleep(0.4 * unit)

        caplog.clear()
        with Scripted(held, held, stream(block(1)), beating, stream(block(2)), stream(end(3))) as server:
            drops: list[Any] = []
            with caplog.at_level("DEBUG", logger="reprise"):
                events = read(kind, server.url, "", stream="s", idle_timeout=0.9 * unit, on_drop=drops.append)
        assert [e.seq for e in events] == [1, 2, 3]
        waits = [match[1] if (match := re.search(r"wait=(\w+)", head)) else "" for head in server.heads]
        assert waits == ["", "", f"{300 * unit}ms", f"{300 * unit}ms", "", ""]
        assert len(drops) == 3  # the ends of polls are none
        assert caplog.text.count("polling at") == 2

    in_time(0.2, body)


@pytest.mark.parametrize("options", [{}, {"id": "x"}, {"detach": True}])
def test_a_run_that_fails_is_cancelled_by_one_request_unless_it_was_named(kind: str, options: dict[str, Any]) -> None:
    def fail(event: object) -> None:
        raise OSError("enough")

    async def run() -> None:
        async with AsyncReprise(server.url, "") as client:
            await client.run("true", on_event=fail, **options)

    with Scripted(stream(block(1)), answer(204)) as server:
        with pytest.raises(OSError, match="enough"):
            if kind == "sync":
                with Reprise(server.url, "") as client:
                    client.run("true", on_event=fail, **options)
            else:
                asyncio.run(run())
        assert ["/cancel " in head for head in server.heads] == [False] + [True] * (not options)


def test_a_start_whose_answer_is_held_back_has_happened(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    header = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    def body(unit: int) -> None:
        def impatient(**options: Any) -> FollowOptions:
            return FollowOptions(idle_timeout=0.3 * unit, **options)

        def held(client: socket.socket) -> None:
            server.silent_after(header)(client)

        async def run() -> str:
            async with AsyncReprise(server.url, "", min_wait=0.01, max_wait=0.05) as client:
                return (await client.run("true")).outcome

        monkeypatch.setattr(f"reprise._{kind}.client.FollowOptions", impatient)
        with Scripted(held, held, stream(block(1, type="end", outcome="exited", exit_code=0))) as server:
            if kind == "sync":
                with Reprise(server.url, "", min_wait=0.01, max_wait=0.05) as client:
                    assert client.run("true").outcome == "exited"
            else:
                assert asyncio.run(run()) == "exited"
            assert [head.split(" ")[0] for head in server.heads] == ["POST", "POST", "GET"]

    in_time(0.1, body)


def test_what_a_proxy_compresses_unasked_is_decoded_or_named(kind: str) -> None:
    plain = stream(block(1), end(2)).split(b"\r\n\r\n", 1)[1]
    raw = zlib.compressobj(wbits=-15)
    for coding, body in (
        ("gzip", gzip.compress(plain)),
        ("x-gzip", b"".join(gzip.compress(plain[i : i + 40]) for i in range(0, len(plain), 40))),
        ("Deflate", zlib.compress(plain)),
        ("deflate", raw.compress(plain) + raw.flush()),
    ):
        head = stream(headers=f"Content-Encoding: {coding}\r\n").removesuffix(b"retry: 1\n")
        assert seqs(kind, head + body) == [1, 2]

        def drip(client: socket.socket, sent: bytes = body, head: bytes = head) -> None:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(head)
            for i in range(len(sent)):
                client.sendall(sent[i : i + 1])

        assert seqs(kind, drip) == [1, 2]
    with pytest.raises(ProtocolError, match="content coding 'br'"):
        seqs(kind, stream(block(1), end(2), headers="Content-Encoding: br\r\n"))
    damaged = stream(block(1), headers="Content-Encoding: gzip\r\n")
    assert seqs(kind, damaged, stream(block(1), end(2))) == [1, 2]


def test_give_up(kind: str) -> None:
    for give_up in (0.3, 3, 30):  # a machine that stands still for the first one has time for a second try in the next
        begun = time.monotonic()
        with pytest.raises(NetworkError) as raised:
            seqs(kind, stream(block(1)), stream(), give_up=give_up)
        assert raised.value.retryable
        assert time.monotonic() - begun < give_up + 60
        if raised.value.tries > 1:
            break
    assert raised.value.tries > 1
    with Scripted(stream()) as server:
        with pytest.raises(NetworkError):
            read(kind, server.url, "", stream="s", give_up=0)
        assert len(server.heads) == 1


def test_a_server_that_is_not_there_is_waited_for(kind: str) -> None:
    with Scripted(stream()) as gone:
        pass
    with pytest.raises(NetworkError) as raised:
        read(kind, gone.url, "", stream="s", give_up=0.2)
    assert raised.value.unsent


def test_gap_event_and_what_comes_after(kind: str) -> None:
    notice = gap(cursor(3), code="cursor_expired", earliest=cursor(3), tail=cursor(9), missed=2)
    with Scripted(stream(notice, block(4), end(5))) as server:
        first, *rest = read(kind, server.url, "", stream="s", after=cursor(1))
        assert isinstance(first, Gap)
        assert (first.code, first.missed, first.cursor) == ("cursor_expired", 2, cursor(3))
        assert [e.seq for e in rest] == [4, 5]
        assert "gap=event" in server.heads[0].split("\r\n")[0]


def test_a_fork_takes_back_events(kind: str) -> None:
    notice = gap(cursor(2, OTHER), code="epoch_changed", earliest=cursor(0, OTHER), tail=cursor(3, OTHER),
                 fork=cursor(2, OTHER), missed=0, taken_back=1)  # fmt: skip
    again = stream(block(3, OTHER), end(4, OTHER))
    with Scripted(stream(block(1), block(2), block(3)), stream(notice), again) as server:
        events = read(kind, server.url, "", stream="s")
        assert [e.seq for e in events] == [1, 2, 3, 0, 3, 4]
        assert isinstance(events[3], Gap) and events[3].taken_back == 1
        assert server.header(2, "last-event-id") == cursor(2, OTHER)


def test_another_epoch_without_a_gap_goes_on_and_never_back(kind: str) -> None:
    assert seqs(kind, stream(block(1), block(2)), stream(block(3, OTHER), end(4, OTHER))) == [1, 2, 3, 4]
    with pytest.raises(ProtocolError, match="of another epoch"):
        seqs(kind, stream(block(1), block(2)), stream(block(2, OTHER), headers=f"Stream-Tail: {cursor(2, OTHER)}\r\n"))


def test_the_stream_goes_on_at_the_fork_of_a_gap_that_names_an_earlier_cursor(kind: str) -> None:
    notice = gap(
        cursor(0, OTHER), code="epoch_changed", earliest=cursor(0, OTHER), fork=cursor(2, OTHER), missed=0, taken_back=2
    )
    with Scripted(stream(notice), stream(end(3, OTHER))) as server:
        events = read(kind, server.url, "", stream="s", after=cursor(4))
        assert [(e.seq, e.cursor) for e in events] == [(0, cursor(2, OTHER)), (3, cursor(3, OTHER))]
        assert server.header(1, "last-event-id") == cursor(2, OTHER)


def test_a_refused_cursor_is_a_gap_error(kind: str) -> None:
    refusal = problem(410, "cursor_expired", False, earliest=cursor(3), tail=cursor(9))
    with Scripted(refusal) as server:
        with pytest.raises(GapError) as raised:
            read(kind, server.url, "", stream="s", after=cursor(1), on_gap="raise")
        assert (raised.value.code, raised.value.gap.missed, raised.value.gap.cursor) == ("cursor_expired", 2, cursor(3))
        assert "gap=" not in server.heads[0]
    changed = problem(410, "epoch_changed", False, earliest=cursor(1, OTHER), tail=cursor(9, OTHER), fork=cursor(4, OTHER))
    with pytest.raises(GapError, match="the server has lost 3 events"):
        seqs(kind, changed, after=cursor(7), on_gap="raise")


def test_a_missing_start_is_a_gap_unless_earliest_was_asked_for(kind: str) -> None:
    late = stream(block(5), end(6))
    with Scripted(late) as server:
        first, *rest = read(kind, server.url, "", stream="s")
        assert isinstance(first, Gap) and first.missed == 4 and first.cursor == cursor(4)
        assert [e.seq for e in rest] == [5, 6]
    assert seqs(kind, late, after="earliest") == [5, 6]
    with pytest.raises(GapError):
        seqs(kind, late, on_gap="raise")
    head = f"Stream-Earliest: {cursor(4)}\r\n"
    assert seqs(kind, stream(end(9), headers=head), types=["x"]) == [0, 9]


def test_a_filtered_reader_moves_past_what_was_left_out(kind: str) -> None:
    moved = f'id: {cursor(8)}\nevent: cursor\ndata: {{"cursor":"{cursor(8)}"}}\n\n'
    with Scripted(stream(block(2), f"id: {cursor(5)}\n\n"), stream(moved), stream(end(9))) as server:
        events = read(kind, server.url, "", stream="s", types=["note"], after=cursor(0))
        assert [e.seq for e in events] == [2, 9]
        assert [server.header(i, "last-event-id") for i in range(3)] == [cursor(0), cursor(5), cursor(8)]
        assert "types=note%2Cend" in server.heads[0]
    ignored = f"id: {cursor(5)}\n\nid: 7\n\n"  # the server sends bare ids to readers of some types alone
    assert seqs(kind, stream(block(1)), stream(ignored), stream(block(2), end(3))) == [1, 2, 3]


def test_slow_bytes_and_every_line_end(kind: str) -> None:
    def drip(client: socket.socket) -> None:
        client.sendall(stream())
        for byte in (block(1) + end(2)).replace("\n", "\r\n").encode():
            client.sendall(bytes([byte]))

    assert seqs(kind, drip) == [1, 2]


def test_hostile_data_arrives_as_it_is(kind: str) -> None:
    text = "a\r\nb\0c\u2028d\ufeffe\u0085" + "x" * (5 << 20)
    with Scripted(stream(block(1, type="stdout", text=text), end(2))) as server:
        events = read(kind, server.url, "", execution="x")
    assert events[0].text == text
    assert events[0].bytes == text.encode()


def test_an_end_that_says_nothing_of_its_code_is_not_made_up(kind: str) -> None:
    if kind == "async":
        return
    with Scripted(stream(block(1, type="end", outcome="lost"))) as server, Reprise(server.url, "") as client:
        result = client.run("true", id="x")
    assert (result.returncode, result.outcome) == (125, "lost")


def test_damaged_data_is_an_error_when_it_is_asked_for(kind: str) -> None:
    head = f'id: {cursor(2)}\nevent: note\ndata: {{"seq":2,"time":"2026-11-20T09:30:00.000Z"'
    damaged = head + ',"data":2,,}\n\n'

    def late(client: socket.socket) -> None:
        client.sendall(stream(block(1)))
        time.sleep(0.2)
        client.sendall((damaged + end(3)).encode())

    with Scripted(late) as server:
        events = read(kind, server.url, "", stream="s")
    assert [e.seq for e in events] == [1, 2, 3]
    assert events[0].data == 1
    for member in ("data", "text", "bytes", "time", "object"):
        with pytest.raises(ProtocolError):
            getattr(events[1], member)


UNDECODABLE = {
    "arrays": "[" * 5000 + "]" * 5000,
    "objects": '{"[":' * 3000 + "1" + "}" * 3000,
    "the deepest that servers took": "[" * 9990 + "]" * 9990,
    "deep behind a value": '{"a":"}]\\"","b":[1,' + "[" * 2000 + "]" * 2000 + "]}",
    "an integer of many digits": '{"n":' + "9" * 5000 + "}",
}


def test_text_of_values_that_python_has_not_is_json(kind: str) -> None:
    values = [
        "1e400",
        "[-1.5E999]",
        '{"a":1e00400}',
        "1" + "0" * 400 + ".0",
        '"\\ud800"',
        '{"\\udfff":"\\ud83d\\ude00"}',
        '"e400"',
    ]
    blocks = [
        f'id: {cursor(n)}\nevent: note\ndata: {{"seq":{n},"time":"2026-11-20T09:30:00.000Z","data":{value}}}\n\n'
        for n, value in enumerate(values, 1)
    ]
    for answers in ([stream(*blocks, end(8))], [stream(part) for part in [*blocks, end(8)]]):
        with Scripted(*answers) as server:
            events = read(kind, server.url, "", stream="s")
        for event, value in zip(events, values, strict=False):
            assert json.loads(event.text) == json.loads(value)
            assert "Infinity" not in event.text
            assert event.text.encode() == event.bytes


@pytest.mark.parametrize("name", UNDECODABLE)
def test_data_that_python_does_not_decode_ends_nothing(kind: str, name: str) -> None:
    value, time = UNDECODABLE[name], "2026-11-20T09:30:00.000Z"

    def sent(seq: int, members: str, type: str = "note") -> str:
        event, id = f"event: {type}\ndata: {{{members}}}\n", f"id: {cursor(seq)}\n"
        text = id + event if seq in (4, 6) else event + id  # older servers put the id first
        return text.replace("SEQ", f'"seq":{seq},"time":"{time}"') + "\n"

    deep = [
        sent(1, f'SEQ,"data":{value}'),  # before the form of the cursors is known
        sent(2, f'SEQ,"data":{value}'),
        block(3),
        sent(4, f'"data":{value},SEQ'),  # as another server may write it
        sent(5, f'SEQ,\ndata: "data":{value}'),
        sent(6, f'SEQ,"data":{value}', "started"),
        sent(7, f'SEQ,"data":{value}', "cursor"),
        sent(8, f'SEQ,"outcome":"completed","data":{value}', "end"),
    ]
    for answers in ([stream(*deep)], [stream(part) for part in deep]):  # together, and each in a connection of its own
        with Scripted(*answers) as server:
            whole = read(kind, server.url, "", stream="s")
            assert len(server.heads) == len(answers)
        assert [e.seq for e in whole] == [1, 2, 3, 4, 5, 6, 7, 8]
    for event in whole:
        assert event.time is not None and event.is_json
        if event.seq == 3:
            assert event.data == 3
            continue
        for member in ("data", "object"):
            with pytest.raises(ProtocolError):
                getattr(event, member)
        assert event.text == value and event.bytes == value.encode()
        assert f"seq={event.seq}" in repr(event)
    assert isinstance(whole[-1], End) and whole[-1].outcome == "completed"
    # The gap before the first kept event has the time of that event.
    with Scripted(stream(*deep[1:])) as server:
        first, *rest = read(kind, server.url, "", stream="s")
    assert isinstance(first, Gap) and first.missed == 1 and first.time == rest[0].time and len(rest) == 7


def test_a_server_that_was_never_reached_is_an_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprise._flow.FIRST_CONTACT", 0.05)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(NetworkError, match=f"{url} was not reached in [0-9]+ attempts .* check the URL") as raised:
            read(kind, url, "", stream="s")
        assert raised.value.op == "follow stream s" and raised.value.__cause__ is not None

    def lost(client: socket.socket) -> None:
        time.sleep(0.02)

    # Once the server was met, the loop goes on for as long as it takes.
    assert seqs(kind, stream(block(1)), lost, lost, lost, lost, lost, lost, stream(end(2))) == [1, 2]
