"""Requests to an MCP server and their responses, as its event store sees them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ..errors import ProblemError, RepriseError
from ._bound import App, Message, Owner, Receive, Scope, Send, is_live, owner
from ._messages import GET_STREAM, own

if TYPE_CHECKING:
    from . import EventStore

_ID_LINE = re.compile(rb"^id: ?([!-~]*)~", re.MULTILINE)
_DISCONNECT = {"type": "http.disconnect"}
_HAND_OVER = 5.0  # seconds in which a GET stream that is taken over has to end
_GONE = ("cursor_expired", "epoch_changed", "stream_expired")


class Exchange:
    """A request and its response.

    A response that carries a stream is taken over by a later one: it ends, and only the later one gets the rest of the stream.
    """

    def __init__(self, store: EventStore, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.store = store
        self.owner = replace(owner(), session=headers.get("mcp-session-id", ""), principal=principal_of(scope))
        self.method: str = scope["method"]
        #: The event id after which a GET resumes.
        self.resumes = headers.get("last-event-id", "") if self.method == "GET" and self.owner.session else ""
        self.begun, self.over, self._taken = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.refused = self._ended = False
        self._held: list[Message] = []  # an answer that may not be the last word
        self._carries: tuple[Owner, str] | None = None
        self._received = self._again = False
        self._receive, self._send = receive, send

    async def serve(self, app: App, scope: Scope) -> None:
        """Answers the request with an application."""
        token = _exchange.set(self)
        try:
            await app(scope, self.receive, self.send)
            if self._held and self._held[0]["status"] == 409 and await self._take(GET_STREAM):
                self._held.clear()
                self._again = True
                await app(scope, self.receive, self.send)
            if self._taken.is_set() and self.begun.is_set() and not self._ended:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            if self._held and not (self.resumes and await self.store._serve_dead(self.owner, self.resumes, self._send)):
                for message in self._held:
                    await self._send(message)
        finally:
            _exchange.reset(token)
            self.over.set()
            if self._carries and self.store._carriers.get(self._carries) is self:
                del self.store._carriers[self._carries]

    async def receive(self) -> Message:
        """What the application receives: the end of the connection also if the response is taken over."""
        if self._again:
            self._again = False
            return {"type": "http.request", "body": b"", "more_body": False}
        if not self._received:
            message = await self._receive()
            self._received = not message.get("more_body", False)
            return message
        waits = [asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._taken.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return _DISCONNECT if self._taken.is_set() else waits[0].result()  # type: ignore[return-value]
        finally:
            for wait in waits:
                wait.cancel()

    async def send(self, message: Message) -> None:
        """What the application sends."""
        if self._taken.is_set() or self.refused:
            return
        if message["type"] == "http.response.start" and not await self._begins(message):
            return
        if self._held:
            self._held.append(message)
            return
        if message["type"] == "http.response.body":
            if self.method == "POST" and self._carries is None and (found := _ID_LINE.search(message.get("body", b""))):
                self._carry(own(unquote(found[1].decode())))
            self._ended = not message.get("more_body", False)
        await self._send(message)
        self.begun.set()

    async def write(self, body: bytes) -> None:
        """Sends a part of the body."""
        await self.send({"type": "http.response.body", "body": body, "more_body": True})

    async def _begins(self, message: Message) -> bool:
        """Reports whether the application's answer is that of the request, or may be."""
        status = message["status"]
        for name, value in message["headers"]:
            if name.lower() == b"mcp-session-id":
                self.owner = replace(self.owner, session=value.decode("latin-1"))
        if self.method == "DELETE" and status < 300 and self.owner.session:
            await self.store._forget(self.owner)
        if self.method != "GET":
            return True
        if (status == 404 and self.resumes and not is_live(self.owner.session)) or (status == 409 and not self.resumes):
            self._held.append(message)
            return False
        if status == 200 and self.resumes:
            if refusal := await self.store._refusal(self.owner, self.resumes):
                self.refused = True
                self.begun.set()
                await refuse(self._send, *refusal)
                return False
            self._carry(own(unquote(self.resumes.rpartition("~")[0])))
        elif status == 200:
            self._carry(GET_STREAM)
        return True

    def _carry(self, stream: str) -> None:
        """Takes a stream over from the response that carries it."""
        self._carries = (self.owner, stream)
        if (before := self.store._carriers.get(self._carries)) is not None:
            before._taken.set()
        self.store._carriers[self._carries] = self

    async def _take(self, stream: str) -> bool:
        """Ends the response that carries a stream, and reports whether there was one and it has ended."""
        before = self.store._carriers.get((self.owner, stream))
        if before is None:
            return False
        before._taken.set()
        try:
            await asyncio.wait_for(before.over.wait(), _HAND_OVER)
        except asyncio.TimeoutError:
            return False
        return True


_exchange: ContextVar[Exchange | None] = ContextVar("reprise_mcp_exchange", default=None)


def exchange() -> Exchange | None:
    """The request that is served now."""
    found = _exchange.get()
    return None if found is None or found.over.is_set() else found


def refusal_of(error: RepriseError) -> tuple[int, str, Mapping[str, Any]]:
    """The status, the text and the data with which a position is refused."""
    if not isinstance(error, ProblemError) or error.status >= 500 or error.retryable:
        return 503, "the event store is not available", {"code": "store_unavailable"}
    status = 410 if error.code in _GONE else 400
    return status, error.detail, {"code": error.code, "earliest": error.earliest, "tail": error.tail}


async def refuse(send: Send, status: int, text: str, data: Mapping[str, Any]) -> None:
    """Answers with a JSON-RPC error."""
    error = {"code": -32600 if status < 500 else -32603, "message": text, "data": data}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def principal_of(scope: Scope) -> str:
    """Who has authenticated at the SDK: an issuer, a client and a subject; "" for nobody."""
    token = getattr(scope.get("user"), "access_token", None)
    if token is None:
        return ""
    issuer = (getattr(token, "claims", None) or {}).get("iss")
    return json.dumps([issuer, token.client_id, getattr(token, "subject", None)])
