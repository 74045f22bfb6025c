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
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import StreamableHTTPServerTransport

from reprise import AsyncReprise, NetworkError
from reprise.mcp import EventStore, tenant
from reprise.mcp._bound import App, Message, Owner, Receive, Scope, Send, owned
from reprise.mcp._exchange import principal_of
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


class User:
    """Who has authenticated, as the SDK's middleware says it."""

    def __init__(self, client_id: str) -> None:
        self.access_token = AccessToken(token="x", client_id=client_id, scopes=[])


async def forgotten(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that knows no session."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def resume(app: App, session: str, id: str, user: User | None) -> tuple[int, bytes]:
    """The status and the body of a resume."""
    headers = [(b"mcp-session-id", session.encode()), (b"last-event-id", id.encode())]
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "method": "GET", "headers": headers, "user": user}, receive, send)
    return sent[0]["status"], b"".join(message["body"] for message in sent[1:])


def test_a_session_is_read_by_the_user_who_began_it(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix)
        one, other = User("one"), User("other")
        with owned(Owner("s", principal=principal_of({"user": one}))):
            id = await store.store_event("1", note("private"))
            await store.store_event("1", note("private"))
        app = store.app(forgotten)
        for stranger in (other, None):
            assert await resume(app, "s", id, stranger) == (404, b"")
        status, body = await resume(app, "s", id, one)
        assert status == 200 and b"private" in body and b"server_lost" in body

    run(test)


def test_a_session_of_this_process_is_not_served_when_the_sdk_refuses(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix)
        transport = StreamableHTTPServerTransport("alive", event_store=store)
        id = await store.for_session("alive").store_event("1", note(1))
        assert await resume(store.app(forgotten), "alive", id, None) == (404, b"")
        await transport.terminate()  # as after half an hour of silence
        assert (await resume(store.app(forgotten), "alive", id, None))[0] == 200

    run(test)


def test_a_position_that_is_no_longer_kept_is_refused(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        store = EventStore(client, prefix=prefix, retention={"max_events": 2})
        session = store.for_session("s")
        ids = [await session.store_event("1", note(number)) for number in range(9)]
        status, body = await resume(store.app(forgotten), "s", ids[0], None)
        assert status == 410 and json.loads(body)["error"]["data"]["code"] == "cursor_expired"
        assert await replay(session, ids[0]) == (None, [])
        assert await replay(session, ids[-2]) == ("1", [(ids[-1], plain(note(8)))])

    run(test)


def test_a_resume_of_a_closed_server_is_an_error_and_no_unknown_id(run: Try) -> None:
    async def test(client: AsyncReprise, prefix: str) -> None:
        id: Any = await EventStore(client, prefix=prefix).store_event("1", note(1))
        async with AsyncReprise("http://127.0.0.1:9", "x", give_up=0) as gone:
            with pytest.raises(NetworkError):
                await replay(EventStore(gone, prefix=prefix), id)

    run(test)
