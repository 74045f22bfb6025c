"""Each event once and in order, wherever the connection is cut."""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from both import KINDS, read
from conftest import Server
from proxy import Proxy

from reprise import AsyncReprise, Event, Reprise


def fill(server: Server, count: int) -> str:
    """A stream of count events and an end."""
    name = f"cut-{secrets.token_hex(4)}"
    with Reprise(server.url, server.token) as client:
        client.streams.create(name, retention={"max_events": count + 1})
        producer = client.producer(name)
        for first in range(1, count + 1, 1000):
            producer.publish_many([("note", {"n": n}) for n in range(first, min(first + 1000, count + 1))])
        producer.end()
    return name


def check(events: list[Event], count: int) -> None:
    """That events are those of fill, each once and in order."""
    assert [event.seq for event in events] == list(range(1, count + 2))
    assert [event.data for event in events[:-1]] == [{"n": n} for n in range(1, count + 1)]
    assert events[-1].type == "end"


def response_length(server: Server, name: str) -> int:
    """The length of the answer as it is on the wire, head included."""
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
    answer = httpx.get(f"{server.url}/v1/streams/{name}/events", headers=headers, trust_env=False)
    head = sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)
    return len("HTTP/1.1 200 OK\r\n") + head + 2 + len(answer.content) + 40  # and the lengths of chunks, at least


@pytest.mark.parametrize("kind", KINDS)
def test_cut_at_every_byte(server: Server, kind: str) -> None:
    name = fill(server, 3)
    length = response_length(server, name)

    def cuts_at(place: int) -> Proxy:
        budgets = itertools.chain([place], itertools.repeat(None))
        return Proxy(server.port, lambda: next(budgets), reset=place % 2 == 0)

    def one(place: int) -> int:
        with cuts_at(place) as proxy, Reprise(proxy.url, server.token, min_wait=0.01) as client:
            check(list(client.streams.follow(name)), 3)
            return proxy.cuts

    async def all_places() -> list[int]:
        turn = asyncio.Semaphore(32)

        async def one(place: int) -> int:
            async with turn:
                proxy = cuts_at(place)
                try:
                    async with AsyncReprise(proxy.url, server.token, min_wait=0.01) as client:
                        check([event async for event in client.streams.follow(name)], 3)
                    return proxy.cuts
                finally:
                    await asyncio.to_thread(proxy.close)

        return list(await asyncio.gather(*map(one, range(1, length))))

    if kind == "sync":
        with ThreadPoolExecutor(32) as pool:
            cuts = list(pool.map(one, range(1, length)))
    else:
        cuts = asyncio.run(all_places())
    assert sum(cuts) > length - 40, "the connections were not cut"


@pytest.mark.parametrize("kind", KINDS)
def test_300_random_cuts_of_20000_events(server: Server, kind: str) -> None:
    name = fill(server, 20_000)
    chance = random.Random(7)
    lengths = [chance.randrange(700, 10_000) for _ in range(300)]  # 1.6 MB of the 2.3 that there are
    budgets = itertools.chain(lengths, itertools.repeat(None))
    with Proxy(server.port, lambda: next(budgets)) as proxy:
        check(read(kind, proxy.url, server.token, stream=name), 20_000)
        assert proxy.cuts == 300


@pytest.mark.parametrize("kind", KINDS)
def test_cut_while_the_command_writes(server: Server, kind: str) -> None:
    with Reprise(server.url, server.token) as client:
        execution = client.start("for i in $(seq 300); do echo line $i; sleep 0.005; done; exit 7")
    chance = random.Random(8)
    with Proxy(server.port, lambda: chance.randrange(600, 4000), reset=True) as proxy:
        events = read(kind, proxy.url, server.token, execution=execution.id)
        assert proxy.cuts > 5
    assert "".join(e.text for e in events if e.type == "stdout") == "".join(f"line {i}\n" for i in range(1, 301))
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert events[-1].object["exit_code"] == 7


@pytest.mark.parametrize("kind", KINDS)
def test_server_is_killed_and_started_again(own_server: Server, kind: str) -> None:
    name = "killed"
    with Reprise(own_server.url, own_server.token) as client:
        client.streams.create(name)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read, kind, own_server.url, own_server.token, stream=name)
            producer = client.producer(name)
            for n in range(1, 301):
                if n in (100, 200):
                    own_server.kill()
                    own_server.start()
                producer.publish("note", {"n": n})
            producer.end()
            check(reading.result(60), 300)
