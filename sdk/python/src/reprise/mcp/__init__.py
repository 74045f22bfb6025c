"""A durable event store for MCP servers in Python: those of the official SDK (`mcp` 1.x and 2.x) and of FastMCP.

    store = EventStore(AsyncReprise())
    app = server.streamable_http_app(event_store=store)   # FastMCP: mcp.http_app(event_store=store)

Each stream of a session is a stream of a Reprise server, so events outlive the process, and their number is limited. A client
that reconnects with a `Last-Event-ID` gets the missed messages and then new ones, without a window in which a message is lost.
An id that was never given, or belongs to another session, is refused with 400, and a position that is no longer kept with 410.

The SDKs keep their sessions in memory, and answer 404 after a restart and on other replicas, whatever the store contains.
The store answers such a GET itself: the client gets every kept message, and then the answer to its call from the process
that still works on it, or, if there is none, the error -32603 with `{"code": "server_lost"}`. New requests of such a session
still get 404, and the client has to begin a new session. `reprise gateway` avoids that.

The import of this module changes two classes of the SDK, because it gives one store to all sessions and answers 200 before the
store is asked: `StreamableHTTPServerTransport` binds its store to its session, and `StreamableHTTPSessionManager` serves
`EventStore.app` of itself if its store is an EventStore.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mcp.server.streamable_http import EventCallback, EventMessage
from mcp.server.streamable_http import EventStore as _Base

from .._async.client import AsyncReprise
from .._async.producer import AsyncProducer
from .._io import async_finish
from ..errors import ProblemError, RepriseError
from ..models import Stream
from ._bound import App, Owner, Receive, Scope, Send, SessionStore, install, owner, tenant
from ._exchange import Exchange, exchange, refusal_of, refuse
from ._messages import Reader, answers, block, dump, load, lost, own, segment

__all__ = ["EventStore", "local_client", "tenant"]

logger: logging.Logger = logging.getLogger(__name__)

_PART = 256 << 10  # characters of a message in one event
_PRODUCERS = 10_000  # streams whose producer is remembered
_UNBOUND = "-"  # the id of an event from which no client can resume
_EVENT_ID = re.compile(r"([!-~]*)~([!-*,-}]+)(?:\+[0-9]+)?").fullmatch
_CLOSED = ".closed"  # marks a session that its client has ended; no id of a stream


@dataclass
class _Writer:
    """The producer of a stream."""

    producer: AsyncProducer[Any]
    cursor: str  # after the last kept message
    left_out: int = 0  # messages since then


@dataclass(frozen=True)
class _Position:
    """What an event id says."""

    key: str  # of the stream in event ids
    stream: str  # the SDK's name
    name: str  # the server's name
    cursor: str


class EventStore(_Base):
    """An event store over a client of a Reprise server. The program closes the client.

    prefix: the first segment of the names of all streams.
    retention: how much of each stream is kept; max_age counts from the answer. max_idle, 168 hours by default, is when the
        server ends a stream whose process has died and which nobody resumes.
    lost_after: the seconds of silence after which a call of another process counts as lost. 0 is for a single server; with
        replicas it must be above the longest silence of a tool. At most 60.
    keep: which messages are kept, besides answers. A message for which it returns False is sent to a client that is there, with
        an id from which the client can resume.
    """

    def __init__(
        self,
        client: AsyncReprise,
        *,
        prefix: str = "mcp",
        retention: Mapping[str, Any] | None = None,
        lost_after: float = 0.0,
        keep: Callable[[Any], bool] | None = None,
    ) -> None:
        self._client, self._prefix, self._lost_after, self._keep = client, prefix, lost_after, keep
        limits = retention or {"max_events": 10_000, "max_bytes": 64 << 20, "max_age": "1h"}
        self._retention = {"max_idle": "168h", **limits}
        self._writers: OrderedDict[str, _Writer] = OrderedDict()
        self._broken: set[str] = set()  # streams that lack a message
        self._carriers: dict[tuple[Owner, str], Exchange] = {}  # the responses that carry streams
        _quiet.urls.add(f"{client.url}/v1/streams/")

    # What the SDKs call.

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Keeps a message, and returns its id once it is kept. None is the position before the first message.

        A message that cannot be kept is logged, and a client that resumes before it is told of a gap, because an error would
        end the session of every client of the SDK.
        """
        return await self._store(owner(), stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Sends the kept messages after an id, and returns the id of their stream; None for an id that is unknown, or whose
        messages are no longer kept.

        Within a request that `app` serves it goes on with new messages until the stream ends, and then returns None, so that
        the SDK sends nothing more on this connection: between the SDK's replay and its new messages, one could be lost.
        """
        of = owner()
        if (found := self._find(of, last_event_id)) is None:
            return None
        served = exchange()
        if served is not None and served.store is self and served.resumes:
            await self._follow(found, served)
            return None
        reader, cursor = Reader(found.key), found.cursor
        try:
            while True:
                page = await self._client.streams.page(found.name, after=cursor)
                for event in page.events:
                    if (text := reader.message(event)) is not None:
                        await send_callback(EventMessage(load(text), f"{found.key}~{event.cursor}"))
                if not page.has_more:
                    return found.stream
                cursor = page.next_cursor
        except ProblemError as error:
            if refusal_of(error)[0] >= 500:
                raise
            return None

    def for_session(self, session: str) -> _Base:
        """The store of one session, for programs that have sessions of their own."""
        return SessionStore(self, Owner(session, tenant=owner().tenant))

    def for_tenant(self, id: str) -> EventStore:
        """The store of a tenant, for a server of this tenant alone. A server of several tenants serves each request in
        `tenant(id)`."""
        store = copy.copy(self)
        store._prefix = f"{self._prefix}/{segment(id)}"
        store._carriers = {}
        return store

    def app(self, app: App) -> App:
        """An ASGI application around one that serves MCP with this store. It refuses unknown positions, ends a response whose
        stream another one has taken over, and serves the streams of dead processes. The SDK's managers of sessions do this by
        themselves; it is for programs that use only the SDK's transports."""

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or exchange() is not None:
                return await app(scope, receive, send)
            await Exchange(self, scope, receive, send).serve(app, scope)

        return served

    # Streams.

    def _name(self, of: Owner, stream: str) -> str:
        return of.prefix(self._prefix) + segment(stream)

    async def _store(self, of: Owner, stream: str, message: Any) -> str:
        name, key = self._name(of, stream), quote(stream, safe="")
        try:
            if message is None or name not in self._writers:
                made = await self._create(name)
                self._writer(name, made.window["tail"])
                if message is None:
                    return f"{key}~{made.window['tail']}"
            text = dump(message)
            ends = bool(of.session) and answers(text, own(stream))
            if not ends and self._keep is not None and not self._keep(message):
                writer = self._writer(name)
                writer.left_out += 1
                return f"{key}~{writer.cursor}+{writer.left_out}"
            return f"{key}~{await async_finish(self._publish(name, text, ends))}"
        except RepriseError as error:
            self._broken.add(name)
            logger.error("a message of MCP stream %s was not kept: %s", name, error)
            return _UNBOUND

    async def _create(self, name: str) -> Stream:
        try:
            return await self._client.streams.create(name, retention=self._retention)
        except ProblemError as error:
            if "max_idle" not in self._retention or error.code not in ("conflict", "invalid"):
                raise
            older = {key: value for key, value in self._retention.items() if key != "max_idle"}
        # The stream is of an earlier version of this class, or the server does not know max_idle.
        return await self._client.streams.create(name, retention=older)

    def _writer(self, name: str, cursor: str = "") -> _Writer:
        """The writer of a stream, which is new with a cursor unless there is one."""
        writer = self._writers.pop(name, None) or _Writer(self._client.producer(name), cursor)
        self._writers[name] = writer
        while len(self._writers) > _PRODUCERS:
            self._writers.popitem(last=False)
        return writer

    async def _publish(self, name: str, text: str, ends: bool) -> str:
        """Publishes a message, and returns the cursor after it. ends: it is the last of its stream."""
        writer = self._writer(name)
        if name in self._broken:
            await writer.producer.publish("hole")
            self._broken.discard(name)
        *parts, last = [text[i : i + _PART] for i in range(0, len(text), _PART)]
        for part in parts:
            await writer.producer.publish("part", part.encode())
        if ends:
            self._writers.pop(name, None)  # its session may have been removed meanwhile
            return (await writer.producer.end("completed", last)).cursor
        writer.cursor, writer.left_out = (await writer.producer.publish("message", last.encode())).cursor, 0
        return writer.cursor

    async def _follow(self, position: _Position, served: Exchange) -> None:
        """Sends the messages after a position, and then further ones, until the stream ends. They bypass the SDK, because
        FastMCP holds back the messages of a replay until it is over."""
        await served.begun.wait()
        if served.refused:
            return
        reader = Reader(position.key)
        async with self._client.streams.follow(position.name, after=position.cursor) as events:
            async for event in events:
                if (text := reader.message(event)) is not None:
                    await served.write(block(f"{position.key}~{event.cursor}", text))

    def _find(self, of: Owner, event_id: str) -> _Position | None:
        """The position of an event id; None if it cannot be one."""
        if (found := _EVENT_ID(event_id)) is None:
            return None
        stream = unquote(found[1])
        return _Position(found[1], stream, self._name(of, stream), found[2])

    # Requests.

    async def _refusal(self, of: Owner, event_id: str) -> tuple[int, str, Mapping[str, Any]] | None:
        """Why a client cannot resume after an event id; None if it can."""
        if (found := self._find(of, event_id)) is None:
            return 400, "the id is not one of this session", {"code": "cursor_malformed"}
        try:
            await self._client.streams.page(found.name, after=found.cursor, limit=1)
        except RepriseError as error:
            return refusal_of(error)
        return None

    async def _serve_dead(self, of: Owner, event_id: str, send: Send) -> bool:
        """Answers a GET of a session that no process knows; returns false if the store does not know it either."""
        if (found := self._find(of, event_id)) is None:
            return False
        try:
            if await self._closed(of):
                return False
            page = await self._client.streams.page(found.name, after=found.cursor)
        except RepriseError as error:
            refusal = refusal_of(error)
            if refusal[0] == 400:
                return False
            await refuse(send, *refusal)
            return True
        stream = own(found.stream)
        if stream.startswith("_") and not page.events:
            return False  # the server's own messages: no more of them will come
        head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"),
                (b"mcp-session-id", of.session.encode())]  # fmt: skip
        await send({"type": "http.response.start", "status": 200, "headers": head})
        reader, cursor = Reader(found.key), found.cursor
        while True:
            for event in page.events:
                if (text := reader.message(event)) is not None:
                    body = block(f"{found.key}~{event.cursor}", text)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            if (page.ended and not page.has_more) or (stream.startswith("_") and not page.has_more):
                break
            cursor = page.next_cursor
            if not page.has_more:
                page = await self._client.streams.page(found.name, after=cursor, wait=self._lost_after)
                if not page.events and not page.ended:
                    await self._lose(found.name, stream)
            page = await self._client.streams.page(found.name, after=cursor)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    async def _lose(self, name: str, stream: str) -> None:
        """Answers a call whose process has died."""
        with suppress(ProblemError):  # another has ended it meanwhile
            await self._client.producer(name).end("failed", lost(stream))

    async def _forget(self, of: Owner) -> None:
        """Removes the streams of a session that have not ended, and marks it as ended, so that nobody reads the others, which
        expire by themselves."""
        prefix = of.prefix(self._prefix)
        for name in [name for name in self._writers if name.startswith(prefix)]:
            self._writers.pop(name, None)
            with suppress(RepriseError):
                await self._client.streams.remove(name)
        self._broken = {name for name in self._broken if not name.startswith(prefix)}
        try:
            await self._create(prefix + _CLOSED)
            await self._client.producer(prefix + _CLOSED).end()
        except RepriseError as error:
            logger.error("the end of MCP session %s was not kept: %s", prefix, error)

    async def _closed(self, of: Owner) -> bool:
        """Whether the client has ended a session."""
        try:
            await self._client.streams.show(of.prefix(self._prefix) + _CLOSED)
        except ProblemError as error:
            if refusal_of(error)[0] >= 500:
                raise
            return False
        return True

    async def remove_session(self, session: str) -> int:
        """Removes all streams of a session, and returns how many there were."""
        prefix, count, cursor = Owner(session, tenant=owner().tenant).prefix(self._prefix), 0, ""
        while True:
            listing = await self._client.streams.list(limit=1000, cursor=cursor)
            for stream in listing.items:
                if stream.name.startswith(prefix):
                    await self._client.streams.remove(stream.name)
                    count += 1
            if not (cursor := listing.next_cursor):
                return count


class _Quiet(logging.Filter):
    """Drops the lines of httpx about the requests of stores, of which each message of an MCP server would bring one."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        url = str(record.args[1]) if isinstance(record.args, tuple) and len(record.args) > 1 else ""
        return not any(url.startswith(prefix) for prefix in self.urls)


_quiet = _Quiet()
logging.getLogger("httpx").addFilter(_quiet)
install(lambda store, app: store.app(app) if isinstance(store, EventStore) else None)


@asynccontextmanager
async def local_client(*serve: str, binary: str = "reprise", data: str) -> AsyncIterator[AsyncReprise]:
    """A client of its own server, a child process that keeps its files in the directory data. serve: further flags of `reprise
    serve`, for example "--store", "memory:"."""
    command = (binary, "serve", "--listen", "127.0.0.1:0", "--data", data, *serve)
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert child.stdout is not None
        url = ""
        async for line in child.stdout:
            if line.startswith(b"listening on "):
                url = line.split()[-1].decode()
                break
        if not url:
            raise OSError(f"{binary} has not started: exit code {await child.wait()}")
        token = (await asyncio.to_thread(Path(data, "token").read_text, "utf-8")).strip()
        async with AsyncReprise(url, token) as client:
            yield client
    finally:
        if child.returncode is None:
            child.terminate()
            await child.wait()
