"""Our event store by itself: the kit for any store, and what is ours alone."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from conftest import Server

from reprise import AsyncReprise, NetworkError
from reprise.mcp import EventStore, tenant
from reprise.mcp._messages import load
from reprise.mcp.storetest import EventStoreTests, answer, note, plain, replay


class TestEventStore(EventStoreTests):
    durable = True
    server: Server

    @pytest.fixture(autouse=True)
    def serve(self, server: Server) -> None:
        self.server = server

    @asynccontextmanager
    async def store(self) -> AsyncIterator[EventStore]:
        async with AsyncReprise(self.server.url, self.server.token) as client:
            yield EventStore(client, prefix="mcp-kit")


Try = Callable[[Callable[[AsyncReprise, str], Awaitable[None]]], None]


@pytest.fixture
def run(server: Server) -> Try:
    """Runs a function with a client and a prefix of its own."""

    def one(test: Callable[[AsyncReprise, str], Awaitable[None]]) -> None:
        async def main() -> None:
            async with AsyncReprise(server.url, server.token) as client:
                await test(client, "mcp-" + secrets.token_hex(8))

        asyncio.run(main())

    return one


def test_a_message_that_is_not_kept_has_an_id_from_which_a_client_resumes(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix, keep=lambda message: "secret" not in str(message))
        ids = [await store.store_event("1", note(data)) for data in ("a", "secret 1", "secret 2", "b")]
        assert len(set(ids)) == 4
        for left_out in ids[1:3]:
            assert await replay(store, left_out) == ("1", [(ids[3], plain(note("b")))])
        assert await replay(store, ids[0]) == ("1", [(ids[3], plain(note("b")))])
        assert await replay(store, ids[1].replace("+", "x+")) == (None, [])

    run(test)


def test_an_answer_is_kept_whatever_keep_says(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix, keep=lambda message: False).for_session("s")
        ids = [await store.store_event("1", message) for message in (None, note(1), answer(1, "done"))]
        assert await replay(store, ids[0]) == ("1", [(ids[2], plain(answer(1, "done")))])

    run(test)


def test_tenants_are_apart(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix)
        with tenant("a"):
            first = await store.store_event("1", note("a"))
            second = await store.store_event("1", note("a"))
        with tenant("b"):
            await store.store_event("1", note("b"))
            assert await replay(store, first) == (None, [])
        assert await replay(store, first) == (None, [])
        assert await replay(store.for_tenant("a"), first) == ("1", [(second, plain(note("a")))])
        assert await replay(store.for_tenant("b"), first) == (None, [])

    run(test)


def test_an_error_without_a_call_does_not_end_the_stream_of_the_server(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix).for_session("s")
        error = load(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "parse error"}}))
        first = await store.store_event("_GET_stream", error)
        second = await store.store_event("_GET_stream", note(1))
        assert await replay(store, first) == ("_GET_stream", [(second, plain(note(1)))])

    run(test)


def test_requests_of_the_store_are_not_in_the_log_of_the_program(run: Try, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        with caplog.at_level(logging.INFO, "httpx"):
            await EventStore(client, prefix=prefix).store_event("1", note(1))
            assert caplog.messages == []
            await client.streams.list(limit=1)
            assert len(caplog.messages) == 1

    run(test)


def test_a_resume_of_a_closed_server_is_an_error_and_no_unknown_id(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        id: Any = await EventStore(client, prefix=prefix).store_event("1", note(1))
        async with AsyncReprise("http://127.0.0.1:9", "x", give_up=0) as gone:
            with pytest.raises(NetworkError):
                await replay(EventStore(gone, prefix=prefix), id)

    run(test)
