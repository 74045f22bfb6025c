"""A follow holds one chunk of an answer, however long the history is and however slow the loop."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest
from both import KINDS
from conftest import Server

from reprise import AsyncReprise, Event, Reprise

COUNT = 200_000
TEXT = "a line of output as a build prints it, with some eighty characters in each, twice" * 2
#: The loop pauses this often, for the seconds in which a client without back-pressure would read on.
PAUSES, PAUSE = 20, 0.05


@pytest.fixture(scope="module")
def long(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the stream `long`."""
    folder = tmp_path_factory.mktemp("memory") / "data"
    server = Server(binary, folder, "--store", "memory:", "--retain-events", str(2 * COUNT), "--retain-bytes", "1GiB")
    with Reprise(server.url, server.token) as client:
        client.streams.create("long")
        producer = client.producer("long")
        for first in range(1, COUNT, 1000):
            producer.publish_many([("line", {"n": n, "text": TEXT}) for n in range(first, first + 1000)])
        producer.end()
    yield server
    server.stop()


class Counter:
    """Counts the bytes that a client takes from its answers."""

    def __init__(self) -> None:
        self.bytes = 0

    def chunk(self, chunk: bytes) -> bytes:
        self.bytes += len(chunk)
        return chunk


class SyncCounted(httpx.HTTPTransport):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.stream = SyncStream(response, self._counter)
        return response


class SyncStream(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response, counter: Counter) -> None:
        assert isinstance(response.stream, httpx.SyncByteStream)
        self._stream, self._counter = response.stream, counter

    def __iter__(self) -> Iterator[bytes]:
        return map(self._counter.chunk, self._stream)

    def close(self) -> None:
        self._stream.close()


class AsyncCounted(httpx.AsyncHTTPTransport):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        response.stream = AsyncStream(response, self._counter)
        return response


class AsyncStream(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, counter: Counter) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._stream, self._counter = response.stream, counter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield self._counter.chunk(chunk)

    async def aclose(self) -> None:
        await self._stream.aclose()


class Loop:
    """What a slow loop does with each event, up to the event `last`."""

    def __init__(self, look: Callable[[int], None], last: int) -> None:
        self._look, self.last, self._seq = look, last, 0

    def pauses(self, event: Event) -> bool:
        self._seq += 1
        assert event.seq == self._seq
        return self._seq % (self.last // PAUSES) == 0

    def look(self) -> None:
        self._look(self._seq)


def follow(kind: str, server: Server, loop: Loop, counter: Counter | None = None) -> None:
    """Follows the long stream slowly."""
    if kind == "sync":
        sync_http = httpx.Client(transport=SyncCounted(counter)) if counter else None
        with Reprise(server.url, server.token, http=sync_http) as client:
            for event in client.streams.follow("long"):
                if loop.pauses(event):
                    time.sleep(PAUSE)
                    loop.look()
                if event.seq == loop.last:
                    break
        if sync_http:
            sync_http.close()
    else:
        asyncio.run(follow_async(server, loop, counter))


async def follow_async(server: Server, loop: Loop, counter: Counter | None) -> None:
    http = httpx.AsyncClient(transport=AsyncCounted(counter)) if counter else None
    async with AsyncReprise(server.url, server.token, http=http) as client:
        async with client.streams.follow("long") as events:
            async for event in events:
                if loop.pauses(event):
                    await asyncio.sleep(PAUSE)
                    loop.look()
                if event.seq == loop.last:
                    break
    if http:
        await http.aclose()


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_loop_has_read_at_most_256_kib_more_than_it_was_given(kind: str, long: Server) -> None:
    counter, seen = Counter(), list[tuple[int, int]]()
    follow(kind, long, Loop(lambda seq: seen.append((seq, counter.bytes)), COUNT), counter)
    size = counter.bytes / COUNT
    assert size > len(TEXT)
    assert len(seen) == PAUSES
    assert max(received - seq * size for seq, received in seen) < 256 << 10


@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_the_history(kind: str, long: Server) -> None:
    seen: list[int] = []

    def look(_: int) -> None:
        gc.collect()
        seen.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        follow(kind, long, Loop(look, COUNT // 5))  # tracemalloc makes it ten times as slow
    finally:
        tracemalloc.stop()
    assert len(seen) == PAUSES
    assert max(seen[2:]) - seen[1] < 1 << 20
