"""Calls of a producer that wait go together in one request, and each is told what is its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from conftest import Server

from reprise import AsyncReprise, ProblemError, Reprise
from reprise.models import Published

COUNT = 50


def check(server: Server, name: str, got: list[Published]) -> None:
    with Reprise(server.url, server.token) as client:
        events = {event.data: (event.seq, event.cursor) for event in client.streams.page(name, limit=1000).events}
    assert sorted(seq for seq, _ in events.values()) == list(range(1, COUNT + 1))
    assert [(one.first, one.cursor) for one in got] == [events[n] for n in range(COUNT)]
    assert all(one.first == one.last for one in got)


def test_tasks_that_wait_publish_together(server: Server) -> None:
    async def main() -> None:
        posts: list[bytes] = []

        async def note(request: httpx.Request) -> None:
            if request.url.path.endswith("/events"):
                posts.append(request.content)

        async with httpx.AsyncClient(event_hooks={"request": [note]}) as http:
            client = AsyncReprise(server.url, server.token, http=http)
            await client.streams.create("together")
            producer = client.producer("together")
            got = await asyncio.gather(*(producer.publish("note", n) for n in range(COUNT)))
            check(server, "together", got)
            assert [one.first for one in got] == list(range(1, COUNT + 1))  # in the order of the calls
            assert len(posts) == 2

            mixed: Any = await asyncio.gather(
                producer.publish("note", "a"),
                producer.publish("note", b"bytes go alone"),
                producer.publish("note", "b"),
                producer.publish("gap", "no such type"),
                producer.publish("note", "c"),
                return_exceptions=True,
            )
            assert [one.first if isinstance(one, Published) else one.code for one in mixed] == [51, 52, 53, "invalid", 54]
            assert isinstance(mixed[3], ProblemError)

            waits = [asyncio.create_task(producer.publish("note", text)) for text in ("d", "left", "e")]
            await asyncio.sleep(0)
            waits[1].cancel()
            ended = await asyncio.gather(*waits, return_exceptions=True)
            assert isinstance(ended[1], asyncio.CancelledError)
            texts = [event.data for event in (await client.streams.page("together", limit=1000)).events[-2:]]
            assert texts == ["d", "e"]

    asyncio.run(main())


def test_threads_that_wait_publish_each_event_once(server: Server) -> None:
    with Reprise(server.url, server.token) as client:
        client.streams.create("threads")
        producer = client.producer("threads")
        got: dict[int, Published] = {}

        def publish(n: int) -> None:
            got[n] = producer.publish("note", n)

        threads = [threading.Thread(target=publish, args=(n,)) for n in range(COUNT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        check(server, "threads", [got[n] for n in range(COUNT)])


def test_a_lost_answer_of_several_calls_is_no_second_publish(server: Server) -> None:
    async def main() -> None:
        lost = 0

        class Losing(httpx.AsyncHTTPTransport):
            async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
                nonlocal lost
                response = await super().handle_async_request(request)
                if request.url.path.endswith("/events") and lost < 3:
                    lost += 1
                    await response.aclose()
                    raise httpx.ReadError("lost")
                return response

        async with httpx.AsyncClient(transport=Losing()) as http:
            client = AsyncReprise(server.url, server.token, http=http, min_wait=0.01)
            await client.streams.create("lost")
            producer = client.producer("lost")
            got = await asyncio.gather(*(producer.publish("note", n) for n in range(COUNT)))
            assert lost == 3 and any(one.duplicate for one in got)
            assert [one.first for one in got] == list(range(1, COUNT + 1))
            data = [event.data for event in (await client.streams.page("lost", limit=1000)).events]
            assert data == list(range(COUNT))

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 1001])
def test_a_call_of_none_or_very_many_events_goes_alone(server: Server, count: int) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            name = f"alone-{count}"
            await client.streams.create(name)
            producer = client.producer(name)
            many = producer.publish_many([("note", n) for n in range(count)])
            results: Any = await asyncio.gather(producer.publish("note", -1), many, return_exceptions=True)
            assert results[0].first == 1
            if count:
                assert (results[1].first, results[1].last) == (2, count + 1)
            else:
                assert results[1].code == "invalid"

    asyncio.run(main())
