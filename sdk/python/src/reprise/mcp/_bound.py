"""How a store learns the session of a stream.

The SDKs call the store of a server with the id of a stream alone, and streams of all sessions have the same ids. The session is
known to the SDK's transport, which has one store; `install` gives it a store that is bound to its session.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from mcp.server.streamable_http import EventCallback, StreamableHTTPServerTransport
from mcp.server.streamable_http import EventStore as Base
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ._messages import segment

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Owner:
    """Whose a stream is."""

    session: str = ""  # "": the caller names streams by itself
    principal: str = ""  # who has authenticated
    tenant: str = ""

    def prefix(self, of: str) -> str:
        """What the names of the streams of the session begin with."""
        tenant = f"{segment(self.tenant)}/" if self.tenant else ""
        principal = f"{segment(self.principal)}/" if self.principal else ""
        return f"{of}/{tenant}{segment(self.session) if self.session else '-'}/{principal}"


_NOBODY = Owner()
_owner: ContextVar[Owner] = ContextVar("reprise_mcp_owner", default=_NOBODY)
_live: WeakValueDictionary[str, StreamableHTTPServerTransport] = WeakValueDictionary()


def owner() -> Owner:
    """Whose the stream is that is asked for in this call."""
    return _owner.get()


@contextmanager
def owned(by: Owner) -> Iterator[None]:
    """Makes owner return by."""
    token = _owner.set(by)
    try:
        yield
    finally:
        _owner.reset(token)


@contextmanager
def tenant(id: str) -> Iterator[None]:
    """Serves what is inside for a tenant: its sessions, and streams outside of sessions, are apart from those of others."""
    with owned(replace(owner(), tenant=id)):
        yield


def is_live(session: str) -> bool:
    """Whether this process serves a session."""
    transport = _live.get(session)
    return transport is not None and not transport.is_terminated


class SessionStore(Base):
    """A store whose calls belong to one session."""

    def __init__(self, store: Base, of: Owner) -> None:
        self._store, self._owner = store, of

    async def store_event(self, stream_id: str, message: Any) -> str:
        with owned(self._owner):
            return await self._store.store_event(stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        with owned(self._owner):
            return await self._store.replay_events_after(last_event_id, send_callback)


def install(wrap: Callable[[Base, App], App | None]) -> None:
    """Makes each transport of the SDKs bind its store to its session, and each manager of sessions serve the application that
    wrap makes for its store."""
    transport_init: Callable[..., None] = StreamableHTTPServerTransport.__init__
    manager_init: Callable[..., None] = StreamableHTTPSessionManager.__init__

    @functools.wraps(transport_init)
    def transport(
        self: StreamableHTTPServerTransport,
        mcp_session_id: str | None,
        is_json_response_enabled: bool = False,
        event_store: Base | None = None,
        *args: Any,
        **options: Any,
    ) -> None:
        if event_store is not None:
            of = replace(owner(), session=mcp_session_id or secrets.token_hex())
            event_store = SessionStore(event_store, of)
            _live[of.session] = self
        transport_init(self, mcp_session_id, is_json_response_enabled, event_store, *args, **options)

    @functools.wraps(manager_init)
    def manager(self: Any, app: Any, event_store: Base | None = None, *args: Any, **options: Any) -> None:
        manager_init(self, app, event_store, *args, **options)
        entry = "asgi_app" if hasattr(self, "asgi_app") else "handle_request"
        if event_store is not None and (wrapped := wrap(event_store, getattr(self, entry))) is not None:
            setattr(self, entry, wrapped)

    StreamableHTTPServerTransport.__init__ = transport  # type: ignore[method-assign]
    StreamableHTTPSessionManager.__init__ = manager  # type: ignore[method-assign]
