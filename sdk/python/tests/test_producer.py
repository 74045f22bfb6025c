"""Calls of a producer that wait go together in one request, and each is told what is its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from conftest import Server

from reprise import AsyncProducer, AsyncReprise, NetworkError, ProblemError, Reprise
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


class Held(httpx.AsyncHTTPTransport):
    """Holds the second publish until it is let go, and loses it."""

    def __init__(self) -> None:
        super().__init__()
        self.posts: list[bytes] = []
        self.holds, self.let_go = asyncio.Event(), asyncio.Event()
        self.given_up = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events") and request.method == "POST":
            self.posts.append(request.content)
            if len(self.posts) == 2:
                self.holds.set()
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    self.given_up += 1
                    raise
                raise httpx.ReadError("lost")
        return await super().handle_async_request(request)

    async def begin(self, client: AsyncReprise, name: str) -> tuple[AsyncProducer[int], list[asyncio.Task[Published]]]:
        """Calls that publish 1, 2 and 3 in one request, which is held, in the turn of the first of them."""
        await client.streams.create(name)
        producer: AsyncProducer[int] = client.producer(name)
        first, *calls = (asyncio.create_task(producer.publish("note", n)) for n in range(4))
        assert (await first).first == 1
        await self.holds.wait()
        return producer, calls


def test_a_call_that_is_cancelled_leaves_its_request_to_the_others(server: Server) -> None:
    async def main() -> None:
        held = Held()
        async with httpx.AsyncClient(transport=held) as http:
            client = AsyncReprise(server.url, server.token, http=http, min_wait=0.01)
            producer, calls = await held.begin(client, "leave")
            late = asyncio.create_task(producer.publish("note", 4))
            calls[0].cancel()
            assert (await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED))[0] == {calls[0]}
            assert calls[0].cancelled()
            held.let_go.set()
            assert [(await call).first for call in (*calls[1:], late)] == [3, 4, 5]
            assert held.posts[2] == held.posts[1]  # sent again as it was
            assert [event.data for event in (await client.streams.page("leave")).events] == list(range(5))

    asyncio.run(main())


def test_a_request_is_given_up_when_all_of_its_calls_are_cancelled(server: Server) -> None:
    async def main() -> None:
        held = Held()
        async with httpx.AsyncClient(transport=held) as http:
            client = AsyncReprise(server.url, server.token, http=http)
            producer, calls = await held.begin(client, "given-up")
            for call in reversed(calls):
                call.cancel()
            await asyncio.wait(calls)
            assert all(call.cancelled() for call in calls)
            assert (await asyncio.wait_for(producer.publish("note", 4), 30)).first == 2
            assert held.given_up == 1

    asyncio.run(main())


def test_calls_that_wait_end_when_the_client_is_closed(server: Server) -> None:
    async def main() -> None:
        held = Held()
        http = httpx.AsyncClient(transport=held)
        client = AsyncReprise(server.url, server.token, http=http, min_wait=0.01)
        producer, calls = await held.begin(client, "closed")
        waiting = [asyncio.create_task(producer.publish("note", n)) for n in (4, 5)]
        await asyncio.sleep(0)
        await http.aclose()
        held.let_go.set()
        results = await asyncio.wait_for(asyncio.gather(*calls, *waiting, return_exceptions=True), 30)
        assert all(isinstance(one, (RuntimeError, NetworkError)) for one in results), results

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
