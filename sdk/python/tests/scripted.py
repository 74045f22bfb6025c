"""A server that says what a test wants, byte by byte."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable

Answer = bytes | Callable[[socket.socket], None]

EPOCH, OTHER, TAG = "7ZK3M9Q2VTX4WB8A", "3QH8D1N6RBY5KTE2", "0F3KQ6T2M9YVC"


def cursor(seq: int, epoch: str = EPOCH) -> str:
    return f"{seq}.{epoch}.{TAG}"


def block(seq: int, epoch: str = EPOCH, type: str = "note", **members: object) -> str:
    """One event."""
    data = {"seq": seq, "time": "2026-11-20T09:30:00.000Z", **(members or {"data": seq})}
    return f"event: {type}\ndata: {json.dumps(data)}\nid: {cursor(seq, epoch)}\n\n"


def gap(at: str, **members: object) -> str:
    return f"event: gap\ndata: {json.dumps(members)}\nid: {at}\n\n"


def end(seq: int, epoch: str = EPOCH) -> str:
    return block(seq, epoch, "end", outcome="completed")


def stream(*parts: str, headers: str = "") -> bytes:
    """A response that ends after its parts, whether the stream has or not."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}\r\nretry: 1\n{''.join(parts)}".encode()


def answer(status: int, body: str = "", type: str = "application/problem+json", headers: str = "") -> bytes:
    headers += "Connection: close\r\n"  # otherwise the client may use it again before it sees that it is closed
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {type}\r\nContent-Length: {len(body.encode())}\r\n{headers}\r\n{body}".encode()
    )


def problem(status: int, code: str, retryable: bool, headers: str = "", **members: object) -> bytes:
    body = {"type": "x", "title": "x", "status": status, "code": code, "retryable": retryable, **members}
    return answer(status, json.dumps(body), headers=headers)


def in_time(bound: float, body: Callable[[int], None]) -> None:
    """Runs a body whose server has to answer in time. When the machine had no time for this process, for longer than `bound`
    seconds, the server was late itself: then the body gets another one, and three times as much of it."""
    unit = 1
    while True:
        over, longest = threading.Event(), [0.0]

        def watch(over: threading.Event = over, longest: list[float] = longest) -> None:
            last = time.monotonic()
            while not over.wait(0.01):
                now = time.monotonic()
                longest[0], last = max(longest[0], now - last), now

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            body(unit)
            return
        except AssertionError:
            if longest[0] <= bound * unit:
                raise
        finally:
            over.set()
            thread.join()
        unit *= 3


class Scripted:
    """Gives each connection the next answer; the last one again and again. `heads` are the requests that came."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers
        self.heads: list[str] = []
        self.times: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.stopped = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def header(self, request: int, name: str) -> str | None:
        """A header of a request."""
        for line in self.heads[request].split("\r\n")[1:]:
            key, _, value = line.partition(": ")
            if key.lower() == name.lower():
                return value
        return None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                chunk = client.recv(65536)
                if not chunk:
                    return
                head += chunk
            give = self._answers[min(len(self.heads), len(self._answers) - 1)]
            self.heads.append(head.decode())
            self.times.append(time.monotonic())
            with contextlib.suppress(OSError):  # a client that has left
                if callable(give):
                    give(client)
                    return
                client.sendall(give)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):  # a close with unread bytes would reset
                    pass

    def silent_after(self, text: bytes) -> Callable[[socket.socket], None]:
        """An answer that says something and then nothing."""

        def give(client: socket.socket) -> None:
            client.sendall(text)
            self.stopped.wait(20)

        return give
