"""A durable event store for MCP servers in Python: those of the official SDK (`mcp` 1.x and 2.x) and of FastMCP.

    store = EventStore(AsyncReprise())
    app = store.app(server.streamable_http_app(event_store=store))   # FastMCP: mcp.http_app(event_store=store)

Each stream of a session is a stream of a Reprise server, so events outlive the process, and their number is limited. A client
that reconnects with a `Last-Event-ID` gets the missed messages and then new ones, without a window in which a message is lost.

The SDKs keep their sessions in memory, and answer 404 after a restart and on other replicas, whatever the store contains.
`app` answers such a GET from the store: the client gets every kept message, and then the answer to its call from the process
that still works on it, or, if there is none, the error -32603 with `{"code": "server_lost"}`. New requests of such a session
still get 404, and the client has to begin a new session. `reprise gateway` avoids that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mcp.server.streamable_http import EventCallback, EventMessage
from mcp.server.streamable_http import EventStore as _Base

from ._async.client import AsyncReprise
from ._async.producer import AsyncProducer
from ._io import async_finish
from .errors import ProblemError, RepriseError
from .events import End, Event, Gap
from .models import Stream

__all__ = ["EventStore", "local_client"]

logger: logging.Logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_PART = 256 << 10  # characters of a message in one event
_PRODUCERS = 10_000  # streams whose producer is remembered
_UNBOUND = "-"  # the id of an event from which no client can resume
_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_EVENT_ID = re.compile(r"([!-~]*)~([!-}]+)").fullmatch


@dataclass
class _Binding:
    """The session of a request and of all its tasks; "" until the SDK has named it."""

    session: str
    #: Sends the bytes of an answer whose head was sent; None where `app` does not serve it.
    write: Callable[[bytes], Awaitable[None]] | None = None


_binding: ContextVar[_Binding] = ContextVar("reprise_mcp_session")


def _dump(message: Any) -> str:
    """The JSON text of a message: of 2.x, or the wrapper of 1.x."""
    if hasattr(message, "root"):
        return str(message.model_dump_json(by_alias=True, exclude_none=True))
    return str(message.model_dump_json(by_alias=True, exclude_unset=True))


def _load(text: str | bytes) -> Any:
    try:
        from mcp_types import jsonrpc_message_adapter
    except ImportError:  # 1.x
        from mcp.types import JSONRPCMessage

        return JSONRPCMessage.model_validate_json(text)  # type: ignore[attr-defined]
    return jsonrpc_message_adapter.validate_json(text)


def _is_response(text: str) -> bool:
    message = json.loads(text)
    return "method" not in message and ("result" in message or "error" in message)


class EventStore(_Base):
    """An event store over a client of a Reprise server. The program closes the client.

    prefix: the first segment of the names of all streams.
    retention: how much of each stream is kept; max_age counts from the answer. max_idle, 168 hours by default, is when the
        server ends a stream whose process has died and which nobody resumes.
    lost_after: the seconds of silence after which a call of another process counts as lost. 0 is for a single server; with
        replicas it must be above the longest silence of a tool. At most 60.
    """

    def __init__(
        self,
        client: AsyncReprise,
        *,
        prefix: str = "mcp",
        retention: Mapping[str, Any] | None = None,
        lost_after: float = 0.0,
    ) -> None:
        self._client, self._prefix, self._lost_after = client, prefix, lost_after
        limits = retention or {"max_events": 10_000, "max_bytes": 64 << 20, "max_age": "1h"}
        self._retention = {"max_idle": "168h", **limits}
        self._producers: OrderedDict[str, AsyncProducer[Any]] = OrderedDict()
        self._broken: set[str] = set()  # streams that lack a message

    # What the SDKs call.

    async def store_event(self, stream_id: str, message: Any) -> str:
        """Keeps a message, and returns its id once it is kept. None is the position before the first message.

        It raises RuntimeError outside of `app` and `for_session`: the SDKs use one store for all sessions, so the session of a
        stream would be unknown. A message that cannot be kept is logged, and a client that resumes before it is told of a gap,
        because an error would end the session of every client of the SDK.
        """
        return await self._store(_session(), stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Sends the messages after an id, and then further ones, until the stream ends. It returns None, so that the SDK sends
        nothing more on this connection."""
        _session()
        await self._replay(_binding.get(), last_event_id, send_callback)
        return None

    def for_session(self, session: str) -> _Base:
        """The store of one session, for programs that create the SDK's transports themselves."""
        return _SessionStore(self, session)

    def app(self, app: App) -> App:
        """An ASGI application around that of the SDK. It binds each stream to its session and serves the streams of dead
        processes. Authentication may be inside app: all its answers except 404 are passed on."""

        async def bound(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            binding = _Binding(headers.get("mcp-session-id", ""))
            token = _binding.set(binding)
            try:
                await self._serve(app, scope, receive, send, headers, binding)
            finally:
                _binding.reset(token)

        return bound

    # Streams.

    def _name(self, session: str, stream: str) -> str:
        return f"{self._prefix}/{_segment(session)}/{_segment(stream)}"

    async def _store(self, session: str, stream: str, message: Any) -> str:
        if not session:
            return _UNBOUND  # the answer to initialize: the client has no session yet
        name, key = self._name(session, stream), quote(stream, safe="")
        try:
            if message is None or name not in self._producers:
                made = await self._create(name)
                if message is None:
                    return f"{key}~{made.window['tail']}"
            return f"{key}~{await async_finish(self._publish(name, _dump(message)))}"
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

    async def _publish(self, name: str, text: str) -> str:
        """Publishes a message, and returns the cursor after it. A response is the end of its stream."""
        producer = self._producers.pop(name, None) or self._client.producer(name)
        self._producers[name] = producer
        while len(self._producers) > _PRODUCERS:
            self._producers.popitem(last=False)
        if name in self._broken:
            await producer.publish("hole")
            self._broken.discard(name)
        *parts, last = [text[i : i + _PART] for i in range(0, len(text), _PART)]
        for part in parts:
            await producer.publish("part", part.encode())
        if _is_response(text):
            self._producers.pop(name, None)  # its session may have been removed meanwhile
            return (await producer.end("completed", last)).cursor
        return (await producer.publish("message", last.encode())).cursor

    async def _replay(self, binding: _Binding, event_id: str, send: EventCallback) -> None:
        """Sends the messages after an event id, and then further ones, until the stream ends.

        Inside `app` the messages bypass the SDK, because FastMCP holds back the messages of a replay until it is over.
        """
        key, name, cursor = self._find(binding.session, event_id)
        reader = _Reader(key)
        async with self._client.streams.follow(name, after=cursor) as events:
            async for event in events:
                if (text := reader.message(event)) is None:
                    continue
                if binding.write is not None:
                    await binding.write(_block(f"{key}~{event.cursor}", text))
                else:
                    await send(EventMessage(_load(text), f"{key}~{event.cursor}"))

    def _find(self, session: str, event_id: str) -> tuple[str, str, str]:
        """The key of a stream in event ids, its name, and a cursor. Raises ValueError for an invalid event id."""
        found = _EVENT_ID(event_id)
        if not session or found is None:
            raise ValueError(f"{event_id[:100]!r} is no event id of a session")
        return found[1], self._name(session, unquote(found[1])), found[2]

    # Requests.

    async def _serve(
        self, app: App, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str], binding: _Binding
    ) -> None:
        resumes = scope["method"] == "GET" and binding.session and headers.get("last-event-id")
        held: list[Message] = []  # an answer 404, which may not be the last word
        begun = asyncio.Event()

        async def write(body: bytes) -> None:
            await begun.wait()
            await send({"type": "http.response.body", "body": body, "more_body": True})

        binding.write = write if resumes else None

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in message["headers"]:
                    if name.lower() == b"mcp-session-id":
                        binding.session = value.decode("latin-1")
                if resumes and message["status"] == 404:
                    held.append(message)
                    return
                if scope["method"] == "DELETE" and message["status"] < 300:
                    await self._forget(binding.session)
            if held:
                held.append(message)
            else:
                await send(message)
                begun.set()

        await app(scope, receive, note)
        if held and not await self._serve_dead(binding.session, headers["last-event-id"], send):
            for message in held:
                await send(message)

    async def _serve_dead(self, session: str, event_id: str, send: Send) -> bool:
        """Answers a GET of a session that no process knows; returns false if the store does not know it either."""
        try:
            key, name, cursor = self._find(session, event_id)
            page = await self._client.streams.page(name, after=cursor)
        except ValueError:
            return False
        except ProblemError as error:
            if error.code not in ("cursor_expired", "epoch_changed", "cursor_ahead"):
                return False
            await _refuse(send, error)
            return True
        stream = unquote(key).rsplit(":", 1)[-1]  # FastMCP puts a scope before it
        if stream.startswith("_") and not page.events:
            return False  # the server's own messages: no more of them will come
        head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"),
                (b"mcp-session-id", session.encode())]  # fmt: skip
        await send({"type": "http.response.start", "status": 200, "headers": head})
        reader = _Reader(key)
        while True:
            for event in page.events:
                if (text := reader.message(event)) is not None:
                    block = _block(f"{key}~{event.cursor}", text)
                    await send({"type": "http.response.body", "body": block, "more_body": True})
            if (page.ended and not page.has_more) or (stream.startswith("_") and not page.has_more):
                break
            cursor = page.next_cursor
            if not page.has_more:
                page = await self._client.streams.page(name, after=cursor, wait=self._lost_after)
                if not page.events and not page.ended:
                    await self._lose(name, stream)
            page = await self._client.streams.page(name, after=cursor)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True

    async def _lose(self, name: str, stream: str) -> None:
        """Answers a call whose process has died."""
        with suppress(ProblemError):  # another has ended it meanwhile
            await self._client.producer(name).end("failed", _lost(stream))

    async def _forget(self, session: str) -> None:
        """Removes the streams of a session that have not ended. Ended streams expire by themselves."""
        prefix = self._name(session, "").rpartition("/")[0] + "/"
        for name in [name for name in self._producers if name.startswith(prefix)]:
            self._producers.pop(name, None)
            with suppress(RepriseError):
                await self._client.streams.remove(name)
        self._broken = {name for name in self._broken if not name.startswith(prefix)}

    async def remove_session(self, session: str) -> int:
        """Removes all streams of a session, and returns how many there were."""
        prefix, count, cursor = f"{self._prefix}/{_segment(session)}/", 0, ""
        while True:
            listing = await self._client.streams.list(limit=1000, cursor=cursor)
            for stream in listing.items:
                if stream.name.startswith(prefix):
                    await self._client.streams.remove(stream.name)
                    count += 1
            if not (cursor := listing.next_cursor):
                return count


def _block(id: str, text: str) -> bytes:
    """An event on the wire. Its JSON is a single line also for readers that split lines as Python does."""
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\u0085", "\\u0085")
    return f"event: message\ndata: {text}\nid: {id}\n\n".encode()


def _segment(text: str) -> str:
    """A segment of a stream's name that represents a text."""
    return text if _SAFE(text) else "." + hashlib.sha256(text.encode()).hexdigest()


class _SessionStore(_Base):
    """The store of one session."""

    def __init__(self, store: EventStore, session: str) -> None:
        self._of, self._binding = store, _Binding(session)

    async def store_event(self, stream_id: str, message: Any) -> str:
        return await self._of._store(self._binding.session, stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        await self._of._replay(self._binding, last_event_id, send_callback)
        return None


class _Reader:
    """Assembles messages from events."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._parts: list[str] = []

    def message(self, event: Event) -> str | None:
        """The JSON text of the message that an event completes."""
        if isinstance(event, Gap):
            return self._missing(event.code, event.missed)
        if event.type == "hole":
            return self._missing("message_lost", 1)
        if event.type == "part":
            self._parts.append(event.text)
            return None
        last = event.data if isinstance(event, End) else event.text
        stream = unquote(self._key).rsplit(":", 1)[-1]  # FastMCP puts a scope before it
        if isinstance(event, End) and event.outcome == "failed" and not isinstance(last, str) and not stream.startswith("_"):
            self._parts.clear()
            return _lost(stream)  # ended by the server, because it was idle for too long
        text = "".join((*self._parts, last)) if isinstance(last, str) else None
        self._parts.clear()
        return text

    def _missing(self, code: str, missed: int) -> str:
        self._parts.clear()
        data = {"code": code, "missed": missed}
        params = {"level": "error", "logger": "reprise", "data": data}
        return json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params})


def _lost(stream: str) -> str:
    """The answer to a call whose process has died."""
    request: str | int = int(stream) if stream.isascii() and stream.isdigit() else stream
    error = {"code": -32603, "message": "the server was lost during the call", "data": {"code": "server_lost"}}
    return json.dumps({"jsonrpc": "2.0", "id": request, "error": error})


def _session() -> str:
    try:
        return _binding.get().session
    except LookupError:
        raise RuntimeError("the ASGI application is not wrapped: serve EventStore.app(...) of the SDK's") from None


async def _refuse(send: Send, problem: ProblemError) -> None:
    """Answers with the JSON-RPC error for a refused position."""
    data = {"code": problem.code, "earliest": problem.earliest, "tail": problem.tail}
    error = {"code": -32600, "message": problem.detail, "data": data}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 410, "headers": head})
    await send({"type": "http.response.body", "body": body})


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
