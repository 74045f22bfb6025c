"""Streams that are not executions, sessions, and tickets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from .. import _requests, _wire
from .._flow import Drop, Flow, FollowOptions
from .._retry import Failures
from ..cursors import AnyCursorStore
from ..models import Listing, Page, Published, Session, Stream, Ticket
from .follow import AsyncFollow
from .http import AsyncTransport


def flow_of(transport: AsyncTransport, op: str, path: str, start: _wire.Request | None, options: FollowOptions) -> Flow:
    """The state of a new loop."""
    failures = Failures(transport.config.min_wait, transport.config.max_wait)
    return Flow(op, path, start, options, failures, transport.met)


class AsyncStreams:
    """`client.streams`."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(
        self, name: str, *, retention: Mapping[str, Any] | None = None, labels: Mapping[str, str] | None = None
    ) -> Stream:
        """Creates a stream, or returns the existing one with the same configuration; with another one the error has the code
        "conflict". retention: max_events, max_bytes, max_age, max_idle, max_age_each."""
        return Stream._read(await self._transport.call(_requests.create_stream(name, retention, labels)))

    async def configure(
        self, name: str, *, retention: Mapping[str, Any] | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Stream:
        """Changes the retention and the labels of a stream, which may have ended; what is missing stays as it is. A larger
        bound takes effect at the next append, a smaller one removes the oldest events at once. A label that is None is
        removed."""
        return Stream._read(await self._transport.call(_requests.configure("streams", name, retention, labels)))

    async def publish_once(self, name: str, key: str, events: Iterable[tuple[str, Any]]) -> Published:
        """Appends events, pairs of a type and a JSON value, all of them or none, unless a publish under the same key was
        already made: then it returns that one, as a duplicate. So a program that was started again can repeat its publish,
        without numbers of its own as a producer needs them. key is 1 to 255 bytes and counts for the stream. The server
        remembers it for 24 hours; with other events under it the error has the code "conflict"."""
        return Published._read(await self._transport.call(_requests.publish_once(name, key, events)))

    async def show(self, name: str) -> Stream:
        """Returns the state of a stream."""
        request = _wire.Request(f"show stream {name}", "GET", _wire.named_path("streams", name))
        return Stream._read(await self._transport.call(request))

    async def list(self, *, limit: int | None = None, cursor: str = "") -> Listing[Stream]:
        """Returns one page of streams. limit is 1 to 1,000, by default 100; cursor is next_cursor of the previous page."""
        answer = await self._transport.call(_requests.listing("streams", limit, cursor))
        return Listing([Stream._read(s) for s in answer["streams"]], answer["next_cursor"])

    async def trim(self, name: str, *, after: str = "") -> Stream:
        """Removes the events up to a cursor, by default all of them. The stream goes on: its next event gets the next seq, and
        readers that are behind get a gap."""
        path = _wire.named_path("streams", name, "/trim")
        request = _wire.json_request(f"trim stream {name}", "POST", path, {"after": after} if after else {})
        return Stream._read(await self._transport.call(request))

    async def remove(self, name: str) -> None:
        """Removes a stream without a trace."""
        await self._transport.call(
            _wire.Request(f"remove stream {name}", "DELETE", _wire.named_path("streams", name), empty=True)
        )

    async def page(
        self, name: str, *, after: str = "", limit: int | None = None, wait: _wire.Duration = 0, types: Sequence[str] = ()
    ) -> Page:
        """Returns one page of events; see Reprise.page."""
        path = _wire.named_path("streams", name)
        return Page._read(await self._transport.call(_requests.page(f"read stream {name}", path, after, limit, wait, types)))

    def follow(
        self,
        name: str,
        *,
        after: str = "",
        types: Sequence[str] = (),
        cursors: AnyCursorStore | None = None,
        on_gap: Literal["event", "raise"] = "event",
        save_every: float = 0.1,
        idle_timeout: float = 45.0,
        give_up: float | None = None,
        on_drop: Callable[[Drop], None] | None = None,
        on_connected: Callable[[], None] | None = None,
    ) -> AsyncFollow:
        """Yields the events of a stream in order, each once, until its end; see Reprise.follow."""
        options = FollowOptions(after, types, on_gap, idle_timeout, give_up, save_every, on_drop, on_connected)
        path = _wire.named_path("streams", name)
        return AsyncFollow(self._transport, flow_of(self._transport, f"follow stream {name}", path, None, options), cursors)


class AsyncSessions:
    """`client.sessions`: groups of executions."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def show(self, id: str) -> Session:
        """Returns a session with its executions."""
        request = _wire.Request(f"show session {id}", "GET", _wire.named_path("sessions", id))
        return Session._read(await self._transport.call(request))

    async def list(self, *, limit: int | None = None, cursor: str = "") -> Listing[Session]:
        """Returns one page of sessions."""
        answer = await self._transport.call(_requests.listing("sessions", limit, cursor))
        return Listing([Session._read(s) for s in answer["sessions"]], answer["next_cursor"])

    async def remove(self, id: str) -> None:
        """Cancels and removes all executions of a session."""
        await self._transport.call(
            _wire.Request(f"remove session {id}", "DELETE", _wire.named_path("sessions", id), empty=True)
        )


class AsyncTickets:
    """`client.tickets`, for pages that cannot send a token."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, *, execution: str = "", stream: str = "", ttl: _wire.Duration = "") -> Ticket:
        """Issues a ticket that permits reading one execution or one stream, and nothing else."""
        members = {"execution": execution, "stream": stream, "ttl": _wire.duration_text(ttl) if ttl else ""}
        body = {name: value for name, value in members.items() if value}
        return Ticket._read(await self._transport.call(_wire.json_request("issue a ticket", "POST", "/v1/tickets", body)))

    async def renew(self, ticket: str) -> Ticket:
        """Exchanges a valid ticket for another one of the same lifetime, up to 24 hours after the first was issued."""
        query = [("ticket", ticket)]
        request = _wire.Request("renew a ticket", "POST", "/v1/tickets/renew", query=query)
        return Ticket._read(await self._transport.call(request))
