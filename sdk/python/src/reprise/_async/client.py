"""The client."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote
from weakref import WeakValueDictionary

import httpx

from .. import _requests, _wire
from .._config import make_config
from .._flow import Drop, FollowOptions
from .._io import async_finish
from .._output import Output
from ..cursors import AnyCursorStore
from ..errors import ProblemError, ProtocolError, RepriseError
from ..events import Event
from ..models import Execution, Listing, Page, Quotas, Result, Screen
from .channel import Etag
from .channel import channel as _channel
from .duties import AsyncSchedules, AsyncWebhooks
from .files import AsyncFiles
from .follow import AsyncFollow
from .http import AsyncTransport
from .interpreters import AsyncInterpreters
from .keys import AsyncKeys
from .operation import AsyncOperation
from .producer import AsyncProducer
from .stdin import AsyncStdin
from .streams import AsyncSessions, AsyncStreams, AsyncTickets, flow_of
from .tasks import AsyncReplicas, AsyncTasks

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import StartOptions

_path = _wire.named_path


class AsyncReprise:
    """A client of one server. It is safe for concurrent use, and a context manager:

        async with AsyncReprise() as client:
            result = await client.run(["make", "test"], check=True)

    url: the URL of the server, for example "https://reprise.example.org/base". Default: the environment variable
        REPRISE_URL, or the default address of a server on this machine.
    token: sent with each request, and only to this server. Default: the environment variable REPRISE_TOKEN, or, for a
        server on a loopback address, the token file that it has written. "" means no token. A token from the file is sent
        only over connections on which the server has proven that it knows the token (UnprovenError), unless http is given
        or the URL is https.
    http: an httpx.AsyncClient of the program, which stays open when this client is closed.
    min_wait, max_wait: limit the seconds before a request is retried: a random part of min_wait, doubled with each
        failure up to max_wait, plus the time that the server asks for.
    give_up: for how many seconds a failing call is retried; `follow` has its own setting. Default: 30, and 60 for answers
        that do not come from the server, such as a proxy's 404, once the server has answered. 0: no retry.
    timeout: limits, in seconds, the wait for bytes, except in calls that wait for an event by design.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        http: httpx.AsyncClient | None = None,
        min_wait: float = 0.5,
        max_wait: float = 30.0,
        give_up: float | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._transport = AsyncTransport(make_config(url, token, min_wait, max_wait, give_up, timeout), http)
        self.streams: AsyncStreams = AsyncStreams(self._transport)
        self.sessions: AsyncSessions = AsyncSessions(self._transport)
        self.tasks: AsyncTasks = AsyncTasks(self._transport)
        self.replicas: AsyncReplicas = AsyncReplicas(self._transport)
        self.tickets: AsyncTickets = AsyncTickets(self._transport)
        self.files: AsyncFiles = AsyncFiles(self._transport)
        self.keys: AsyncKeys = AsyncKeys(self._transport)
        self.webhooks: AsyncWebhooks = AsyncWebhooks(self._transport)
        self.schedules: AsyncSchedules = AsyncSchedules(self._transport)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of operations
        self.interpreters: AsyncInterpreters = AsyncInterpreters(self._transport, self)

    @property
    def url(self) -> str:
        """The URL of the server, without a slash at its end."""
        return self._transport.config.url

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> AsyncReprise:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def follow(
        self,
        id: str,
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
        """Yields the events of an execution in order, each once, until its end, over connections that break.

        after: the position to begin at: a cursor; "earliest", the first kept event; "tail", new events only; or "", the
            first event of all, in which case events that are no longer kept are a gap.
        types: the event types to yield, in addition to the end event and gaps. Default: all.
        cursors: stores the position. A stored position overrides `after`.
        on_gap: "event" yields a Gap and continues; "raise" ends the loop with a GapError and keeps the saved cursor.
        save_every: the minimum number of seconds between two saves of the position. A program that was killed gets the
            events since the last save again. 0 saves after each event.
        idle_timeout: the seconds of silence after which a connection counts as lost: three heartbeats of the server.
        give_up: for how many seconds a lost connection is retried before the error is raised. Default: no limit once the
            server has answered this client, and 10 before; 0: no retry; math.inf: no limit. Answers that do not come from the
            server are retried for at most 60 s, and only if it has answered before.
        on_drop: is called with each failure before the wait that follows.
        on_connected: is called when a connection has delivered its first event or heartbeat.
        """
        options = FollowOptions(after, types, on_gap, idle_timeout, give_up, save_every, on_drop, on_connected)
        flow = flow_of(self._transport, f"follow execution {id}", _path("executions", id), None, options)
        return AsyncFollow(self._transport, flow, cursors)

    async def start(self, command: Sequence[str] | str | None = None, **options: Unpack[StartOptions]) -> Execution:
        """Starts an execution and returns. command is a program with its arguments, or a text for `sh -c`.

        The start is retried after a lost connection, and the command still runs once, because every start carries an id. The
        same request with the same id finds the first execution; another request with it is refused with the code "conflict".
        With a key, the start finds the current execution of the key, or starts another one if that has failed. A retried
        start does the same.
        """
        if options.get("hold"):
            raise ValueError("output is held back for run() alone")
        request, _ = _requests.start(command, options)
        return Execution._read(await self._transport.call(request))

    @overload
    async def run(
        self,
        command: Sequence[str] | str | None = None,
        *,
        text: Literal[True],
        input: str | bytes | None = None,
        check: bool = False,
        detach: bool = False,
        on_event: Callable[[Event], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Result[str]: ...

    @overload
    async def run(
        self,
        command: Sequence[str] | str | None = None,
        *,
        text: Literal[False] = False,
        input: str | bytes | None = None,
        check: bool = False,
        detach: bool = False,
        on_event: Callable[[Event], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Result[bytes]: ...

    async def run(
        self,
        command: Sequence[str] | str | None = None,
        *,
        text: bool = False,
        input: str | bytes | None = None,
        check: bool = False,
        detach: bool = False,
        on_event: Callable[[Event], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Result[Any]:
        """Runs a command to its end and returns all its output, like subprocess.run, over connections that break.

        text: whether the output is str, with U+FFFD for bytes that are not UTF-8, or bytes.
        input: what the command reads, as in subprocess.run: another name of the option `stdin`.
        timeout: one of the options: after this time the server ends the command, whose outcome is then "timed_out".
        check: whether any result other than exit code 0 raises a CommandError, which is a subprocess.CalledProcessError too.
        detach: lets the command go on if this call is abandoned.
        on_event: is called with each event as it arrives.

        Output that the server no longer keeps raises a GapError. If this call is abandoned (a cancelled task, Ctrl-C, an
        error), the command is cancelled, unless the program has set `detach`, or an `id`, a `key` or an `idempotency_key` by
        which it can find the command again.
        """
        if input is not None:
            if "stdin" in options:
                raise TypeError("input is another name of stdin: give one of them")
            options["stdin"] = input
        request: _wire.Request | None
        if _requests.has_key(options):
            options.pop("hold", None)  # the answer to the start holds no output
            request, id = None, (await self.start(command, **options)).id
        else:
            request, id = _requests.start(command, options)
            request.headers["Accept"] = _wire.EVENT_STREAM
        flow = flow_of(self._transport, f"run execution {id}", _path("executions", id), request, FollowOptions(on_gap="raise"))
        output = Output(id, command if command is not None else options.get("code"))
        try:
            async with AsyncFollow(self._transport, flow, None) as events:
                async for event in events:
                    output.add(event)
                    if on_event is not None:
                        on_event(event)
        except BaseException as error:
            named = options.get("id") or _requests.has_key(options)
            if not named and not detach and not isinstance(error, ProblemError):
                await self._abandon(id)
            raise
        return output.result(text, check)

    async def _abandon(self, id: str) -> None:
        with suppress(RepriseError):
            await async_finish(self._transport.call_once(_cancellation(id)))

    def output(
        self, id: str, channel: Literal["stdout", "stderr"] = "stdout", *, offset: int = 0, follow: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of a channel exactly as the command wrote them, over connections that break.

        offset: the first byte.
        follow: whether to continue until the execution has ended. Otherwise the bytes are those that exist at the time of the
            request.
        """
        return _channel(self._transport, id, channel, offset, follow)

    async def artifact(self, id: str, path: str) -> bytes:
        """Returns a file that was kept with an execution, with a verified checksum, over connections that break. `artifacts` of
        the result of `show` lists the kept files. `iter_artifact` is for files that are too large for the memory."""
        data = bytearray()
        async with aclosing(self.iter_artifact(id, path)) as chunks:
            async for chunk in chunks:
                data += chunk
        return bytes(data)

    async def iter_artifact(self, id: str, path: str) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of a file that was kept with an execution, over connections that break. If their checksum is not the
        server's, a ProtocolError is raised after the last byte: use the bytes only when the loop has ended without an error."""
        digest, etag = hashlib.sha256(), Etag()
        async with aclosing(_channel(self._transport, id, f"artifacts/{quote(path, safe='')}", 0, False, etag)) as chunks:
            async for chunk in chunks:
                digest.update(chunk)
                yield chunk
        if etag.value != f'"{digest.hexdigest()}"':
            raise ProtocolError(f"artifact {path} of execution {id}: the bytes have another checksum than the server's")

    async def quotas(self, *, tenant: str = "", principal: str = "") -> Quotas:
        """Returns the usage and the limit of each quota of the caller and its tenant; with the scope "admin", also of another
        tenant, or of one principal."""
        query = [(name, value) for name, value in (("tenant", tenant), ("principal", principal)) if value]
        return Quotas._read(await self._transport.call(_wire.Request("show quotas", "GET", "/v1/quota", query)))

    def stdin(self, id: str, offset: int = 0, *, writer: str = "") -> AsyncStdin:
        """Returns a writer to the stdin of an execution that begins at an offset: 0, or the number of bytes that the command
        has already been given. Leaving its `with` block ends the command's stdin.

        writer: the name of one of several writers, whose bytes are counted separately, so that several can type into one
            terminal.
        """
        return AsyncStdin(self._transport, id, offset, writer)

    async def resize(self, id: str, cols: int, rows: int) -> None:
        """Sets the size of the terminal of an execution that was started with `tty`."""
        path = _path("executions", id, "/resize")
        request = _wire.json_request(f"resize execution {id}", "POST", path, {"cols": cols, "rows": rows})
        request.empty = True
        await self._transport.call(request)

    async def screen(self, id: str, *, cols: int | None = None, rows: int | None = None) -> Screen:
        """Returns the screen of an execution's terminal, at its own size or another one. A program that shows `paint` and
        follows after `cursor` shows the same as one that has followed from the start."""
        query = [(name, str(size)) for name, size in (("cols", cols), ("rows", rows)) if size is not None]
        request = _wire.Request(f"show the screen of execution {id}", "GET", _path("executions", id, "/screen"), query)
        return Screen._read(await self._transport.call(request))

    async def signal(self, id: str, name: str) -> None:
        """Sends a signal, for example "INT", to the command. It is not sent again once it may have arrived."""
        request = _wire.json_request(f"signal execution {id}", "POST", _path("executions", id, "/signal"), {"signal": name})
        request.once = request.empty = True
        await self._transport.call(request)

    async def cancel(self, id: str) -> None:
        """Ends an execution: TERM, the grace period, then KILL to the whole tree. It does not wait for the end."""
        await self._transport.call(_cancellation(id))

    async def show(self, id: str) -> Execution:
        """Returns the state of an execution."""
        request = _wire.Request(f"show execution {id}", "GET", _path("executions", id))
        return Execution._read(await self._transport.call(request))

    async def list(
        self,
        *,
        session: str = "",
        status: str = "",
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        cursor: str = "",
    ) -> Listing[Execution]:
        """Returns one page of executions. limit is 1 to 1,000, by default 100; cursor is next_cursor of the previous page."""
        request = _requests.listing("executions", limit, cursor)
        query = [*request.query, ("session", session), ("status", status)]
        query += [("label", f"{key}={value}") for key, value in sorted((labels or {}).items())]
        request.query = [(name, value) for name, value in query if value]
        answer = await self._transport.call(request)
        return Listing([Execution._read(e) for e in answer["executions"]], answer["next_cursor"])

    async def page(
        self, id: str, *, after: str = "", limit: int | None = None, wait: _wire.Duration = 0, types: Sequence[str] = ()
    ) -> Page:
        """Returns one page of events. limit is 1 to 1,000, by default 100; with wait, the server holds the request until there
        is an event, for at most 60 s."""
        request = _requests.page(f"read execution {id}", _path("executions", id), after, limit, wait, types)
        return Page._read(await self._transport.call(request))

    async def configure(
        self, id: str, *, retention: Mapping[str, Any] | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Execution:
        """Changes the retention and the labels of an execution, which may have ended; see AsyncStreams.configure. The
        request that has started it still finds it."""
        return Execution._read(await self._transport.call(_requests.configure("executions", id, retention, labels)))

    async def remove(self, id: str) -> None:
        """Removes an execution; a running one is cancelled first."""
        await self._transport.call(_wire.Request(f"remove execution {id}", "DELETE", _path("executions", id), empty=True))

    def producer(self, stream: str, *, id: str | None = None, epoch: int = 0) -> AsyncProducer[Any]:
        """Returns a producer for a stream, which must exist when it publishes."""
        return AsyncProducer(self._transport, stream, id, epoch)

    def operation(self, key: str, *, keep: _wire.Duration = "168h") -> AsyncOperation:
        """Returns a job that is done in steps and continued after the last finished one. keep is how long its record is kept
        after it is done; the key is then free again. Keys belong to the tenant."""
        return AsyncOperation(self._transport, self._turns, key, keep)


def _cancellation(id: str) -> _wire.Request:
    return _wire.Request(f"cancel execution {id}", "POST", _path("executions", id, "/cancel"), empty=True)
