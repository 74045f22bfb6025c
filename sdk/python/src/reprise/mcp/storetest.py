"""What an event store of an MCP server has to do, as tests for any store. They need pytest or unittest, and no plugin:

    from reprise.mcp.storetest import EventStoreTests

    class TestMyStore(EventStoreTests):
        @asynccontextmanager
        async def store(self):
            yield MyStore()

Whether clients of a server that uses the store can resume is tested by `reprise check-mcp`.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.streamable_http import EventMessage
from mcp.server.streamable_http import EventStore as _Base

from ._messages import dump, load

__all__ = ["EventStoreTests"]

_PATIENCE = 10.0  # seconds for a replay, which must not wait for further messages


def note(data: Any) -> Any:
    """A notification of a server."""
    params = {"level": "info", "data": data}
    return load(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))


def answer(id: int | str, text: str) -> Any:
    """A response of a server."""
    content = [{"type": "text", "text": text}]
    return load(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"content": content}}))


async def replay(store: _Base, id: str) -> tuple[str | None, list[tuple[str | None, Any]]]:
    """The stream and the ids and messages that follow an id."""
    got: list[tuple[str | None, Any]] = []

    async def send(event: EventMessage) -> None:
        got.append((event.event_id, json.loads(dump(event.message))))

    stream = await asyncio.wait_for(store.replay_events_after(id, send), _PATIENCE)
    return stream, got


def plain(message: Any) -> Any:
    """A message as replay returns it."""
    return json.loads(dump(message))


class EventStoreTests:
    """The tests. A subclass whose name begins with Test says how a store is opened."""

    #: Whether a store that is opened again has the events of the one before.
    durable = False

    def store(self) -> AbstractAsyncContextManager[_Base]:
        """Opens a store. Stores of one test need not be apart: each test has streams of its own."""
        raise NotImplementedError("override store in the subclass")

    def test_replay_sends_what_follows_in_order(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                stream = f"s-{uuid.uuid4()}"
                messages = [note(1), note(2), answer(stream, "done"), note(3), answer(1, "done")]
                ids = [await store.store_event(stream, message) for message in messages]
                for at in range(len(ids) - 1):
                    want = [(id, plain(message)) for id, message in zip(ids[at + 1 :], messages[at + 1 :], strict=True)]
                    assert await replay(store, ids[at]) == (stream, want)

        asyncio.run(run())

    def test_ids_are_unique_and_fit_a_header(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                streams = [f"{name}-{uuid.uuid4()}" for name in "abcd"]
                ids = await asyncio.gather(*(store.store_event(streams[i % 4], note(i)) for i in range(100)))
                assert len(set(ids)) == len(ids)
                assert all(id and all("!" <= char <= "~" for char in id) for id in ids)

        asyncio.run(run())

    def test_nothing_follows_the_last(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                stream = f"s-{uuid.uuid4()}"
                await store.store_event(stream, note(1))
                last = await store.store_event(stream, note(2))
                found, got = await replay(store, last)
                assert found in (stream, None) and got == []

        asyncio.run(run())

    def test_a_priming_event_is_a_position_and_no_message(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                stream = f"s-{uuid.uuid4()}"
                first = await store.store_event(stream, None)
                before = await store.store_event(stream, note(1))
                second = await store.store_event(stream, None)
                after = await store.store_event(stream, note(2))
                assert await replay(store, first) == (stream, [(before, plain(note(1))), (after, plain(note(2)))])
                assert await replay(store, second) == (stream, [(after, plain(note(2)))])

        asyncio.run(run())

    def test_only_the_stream_of_the_id_is_replayed(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                one, other = f"one-{uuid.uuid4()}", f"other-{uuid.uuid4()}"
                first = await store.store_event(one, note("one"))
                await store.store_event(other, note("other"))
                own = await store.store_event(one, note("own"))
                assert await replay(store, first) == (one, [(own, plain(note("own")))])

        asyncio.run(run())

    def test_unknown_ids_give_none_and_no_message(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                stream = f"s-{uuid.uuid4()}"
                known = await store.store_event(stream, note(1))
                await store.store_event(stream, note(2))
                changed = [known + "!", "x" + known, known[:-1]]
                for id in ["", "x", "0", "-1", "../../x", "%00", "x" * 3000, str(uuid.uuid4()), *changed]:
                    assert await replay(store, id) == (None, []), id

        asyncio.run(run())

    def test_messages_come_back_unchanged(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                stream = f"s-{uuid.uuid4()}"
                first = await store.store_event(stream, note(0))
                hostile = ["\u2028\u2029\u0085", "\x00\r\n\x1b", "\U0001f600", "data: x\n\nid: y", {"a": [None, 1.5, {}]}, ""]
                messages = [note(data) for data in hostile] + [note("x" * (1 << 20))]
                for message in messages:
                    await store.store_event(stream, message)
                found, got = await replay(store, first)
                assert found == stream and [message for _, message in got] == [plain(message) for message in messages]

        asyncio.run(run())

    def test_messages_that_are_stored_at_once_come_back_once(self) -> None:
        async def run() -> None:
            async with self.store() as store:
                stream = f"s-{uuid.uuid4()}"
                first = await store.store_event(stream, None)
                ids = await asyncio.gather(*(store.store_event(stream, note(number)) for number in range(50)))
                _, got = await replay(store, first)
                assert sorted(message["params"]["data"] for _, message in got) == list(range(50))
                assert {id: message["params"]["data"] for id, message in got} == {id: i for i, id in enumerate(ids)}

        asyncio.run(run())

    def test_a_store_that_is_opened_again_has_the_events(self) -> None:
        async def run() -> None:
            stream = f"s-{uuid.uuid4()}"
            async with self.store() as store:
                first = await store.store_event(stream, note(1))
                second = await store.store_event(stream, note(2))
            async with self.store() as store:
                assert await replay(store, first) == (stream, [(second, plain(note(2)))])

        if self.durable:
            asyncio.run(run())
