"""What a run says about held output that it has handled: to a scripted server, and to a real one through cuts."""

from __future__ import annotations

import re
import socket
import threading
from typing import Any

import pytest
from both import KINDS
from conftest import Server, until
from proxy import Proxy
from scripted import Scripted, block, problem, stream
from test_calls import Caller
from test_files import files_server  # noqa: F401

pytestmark = pytest.mark.parametrize("kind", KINDS)

HEAD = "Execution-Hold: name\r\nExecution-Receipts: events=8, bytes=100000\r\n"


def line(seq: int) -> str:
    return block(seq, type="stdout", text=f"{seq}\n")


def finish(seq: int) -> str:
    return block(seq, type="end", outcome="exited", exit_code=0)


class Receiver(Scripted):
    """Answers starts and reads with events, one after the other, and receipts with 204 after refusing some of them."""

    def __init__(self, refused: int, *events: bytes) -> None:
        self._events, self._refused = iter(events), refused
        self.more = threading.Event()  # lets the open stream go on
        super().__init__(self._choose)

    def _choose(self, connection: socket.socket) -> None:
        head = self.heads[-1]
        if "/receipts" not in head:
            connection.sendall(next(self._events))
            self.more.wait(60)
            return
        refuse = len(self.receipts) <= self._refused
        connection.sendall(problem(404, "not_found", False) if refuse else b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n")

    @property
    def receipts(self) -> list[str]:
        """The seq of each receipt, in the order in which they came."""
        found = [re.match(r"POST \S+/receipts\?seq=([0-9]+) ", head) for head in self.heads]
        return [one[1] for one in found if one]


def test_receipts_are_for_handled_events(kind: str) -> None:
    server = Receiver(2, stream(line(1), line(2), line(3), headers=HEAD), stream(finish(4)))
    seen: list[int] = []

    def go_on() -> None:
        try:
            until(lambda: server.receipts[-1:] == ["3"] and len(server.receipts) > 2, 60, "no receipt for the last event")
        finally:
            server.more.set()

    later = threading.Thread(target=go_on)

    def handle(event: Any) -> None:
        seen.append(event.seq)
        if event.seq != 3:
            return
        if kind == "sync":  # two are handled, a quarter of eight; an async loop sends nothing while this function waits
            until(lambda: len(server.receipts) == 3, 60, "no receipt for a quarter")
            assert server.receipts == ["2"] * 3  # two were refused
        later.start()

    with server, Caller(kind, server.url, "secret") as call:
        call(call.client.run, ["true"], hold="5m", on_event=handle)
        later.join()
    assert seen == [1, 2, 3, 4]
    asked = [n for n, head in enumerate(server.heads) if "/receipts" not in head]
    assert [server.header(n, "execution-receipts") for n in asked] == ["yes", "yes"]
    sent = [n for n, head in enumerate(server.heads) if "/receipts" in head]
    assert {server.header(n, "execution-hold") for n in sent} == {"name"}
    assert "3" in server.receipts


def test_no_receipts_unless_the_server_asks(kind: str) -> None:
    lines = [line(seq) for seq in range(1, 9)]
    for head, options, announced in (("Execution-Hold: name\r\n", {"hold": "1s"}, "yes"), ("", {}, None)):
        server = Receiver(0, stream(*lines, finish(9), headers=head))
        server.more.set()
        before = threading.active_count()
        with server, Caller(kind, server.url, "secret") as call:
            call(call.client.run, ["true"], **options)
        assert (len(server.heads), server.header(0, "execution-receipts")) == (1, announced)
        assert threading.active_count() < before


def test_what_is_in_the_buffers_of_cut_connections_is_not_lost(files_server: Server, kind: str) -> None:  # noqa: F811
    # At most 32 KiB may be without a receipt: if a quarter of that did not make one due, this would take minutes.
    before = threading.active_count()
    proxy = Proxy(files_server.port, lambda: 3_000_000, reset=True)
    looks: list[int] = []

    def wait(event: Any) -> None:
        if event.type == "stdout" and not looks:
            with Caller("sync", files_server.url, files_server.token) as other:
                while len(looks) < 2 or looks[-1] != looks[-2]:
                    (job,) = other(other.client.list).items
                    looks.append(job.bytes["stdout"])
                    threading.Event().wait(0.3)

    with proxy, Caller(kind, proxy.url, files_server.token) as call:
        result = call(call.client.run, "seq 2000000", retention={"max_bytes": 256 << 10}, hold=120, on_event=wait)
    assert len(result.stdout) == 14_888_896 and result.stdout.endswith(b"\n1999999\n2000000\n")
    assert proxy.cuts > 3
    assert proxy.connections < 300  # receipts, nearly two thousand of them, share connections
    assert threading.active_count() <= before
