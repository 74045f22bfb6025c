# Made by tools/unasync.py of ../_async/client.py: change that file.
"""The client."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote

import httpx

from .. import _requests, _wire
from .._config import make_config
from .._flow import Drop, FollowOptions
from .._io import finish
from .._output import Output
from ..cursors import CursorStore
from ..errors import ProblemError, ProtocolError, RepriseError
from ..events import Event
from ..models import Execution, Listing, Page, Result, Screen
from .channel import Etag
from .channel import channel as _channel
from .files import Files
from .follow import Follow
from .http import Transport
from .interpreters import Interpreters
from .keys import Keys
from .producer import Producer
from .stdin import Stdin
from .streams import Sessions, Streams, Tickets, flow_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import StartOptions

_path = _wire.named_path


class Reprise:
    """A client of one server. It is safe for concurrent use, and a context manager:

        with Reprise() as client:
            result = client.run(["make", "test"], check=True)

    url: the server's, for example "https://reprise.example.org/base". Default: the environment's REPRISE_URL, or the default
        address of a server on this machine.
    token: sent with each request, and to this server alone. Default: the environment's REPRISE_TOKEN, or, for a server on a
        loopback address, the token file that it has written. "" is no token at all. One from the file is sent only over
        connections on which the server has proven to know it (UnprovenError), unless http is given or the URL is https.
    http: an httpx.Client of the program's own, which stays open when this client is closed.
    min_wait, max_wait: bound the seconds before a request is tried again: a random part of min_wait, doubled with each
        failure up to max_wait, on top of what the server asks for.
    give_up: for how many seconds a failing call is tried again; following has its own. Default: 30, and 60 against
        answers that are not the server's, such as a proxy's 404, once the server has answered. 0: no second try.
    timeout: bounds, in seconds, the wait for bytes of a call that does not wait for something by its nature.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        http: httpx.Client | None = None,
        min_wait: float = 0.5,
        max_wait: float = 30.0,
        give_up: float | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._transport = Transport(make_config(url, token, min_wait, max_wait, give_up, timeout), http)
        self.streams = Streams(self._transport)
        self.sessions = Sessions(self._transport)
        self.tickets = Tickets(self._transport)
        self.files = Files(self._transport)
        self.keys = Keys(self._transport)
        self.interpreters = Interpreters(self._transport, self)

    @property
    def url(self) -> str:
        """The server's, without a slash at its end."""
        return self._transport.config.url

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Reprise:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def follow(
        self,
        id: str,
        *,
        after: str = "",
        types: Sequence[str] = (),
        cursors: CursorStore | None = None,
        on_gap: Literal["event", "raise"] = "event",
        save_every: float = 0.1,
        idle_timeout: float = 45.0,
        give_up: float | None = None,
        on_drop: Callable[[Drop], None] | None = None,
        on_connected: Callable[[], None] | None = None,
    ) -> Follow:
        """Yields the events of an execution in order, each once, until its end, over connections that break.

        after: where to begin: a cursor; "earliest", the first event that is kept; "tail", from now on; or "", the first
            event of all, in which case one that is no longer kept is a gap.
        types: the event types to yield; the end event and gaps come as well. Default: all.
        cursors: keeps the position. What it has wins over `after`.
        on_gap: "event" yields a Gap and goes on; "raise" ends the loop with a GapError, and leaves the saved cursor alone.
        save_every: the least number of seconds between two saves of the position: a program that is killed is given again
            what it has handled since the last one. 0 saves after each event.
        idle_timeout: the seconds of silence after which a connection is given up: three heartbeats of the server.
        give_up: for how many seconds a lost connection is tried again before the error is raised. Default: without end; 0:
            no second try. An answer that is not the server's is tried again for 60 s at most, and only once the server was met.
        on_drop: is told of each failure before the wait that follows.
        on_connected: is called when a connection has brought its first event or heartbeat.
        """
        options = FollowOptions(after, types, on_gap, idle_timeout, give_up, save_every, on_drop, on_connected)
        flow = flow_of(self._transport, f"follow execution {id}", _path("executions", id), None, options)
        return Follow(self._transport, flow, cursors)

    def start(self, command: Sequence[str] | str | None = None, **options: Unpack[StartOptions]) -> Execution:
        """Starts an execution and returns. command is a program with its arguments, or a text for `sh -c`.

        It is tried again after a lost connection, and the command still runs once, for every start carries an id. Starting the
        same again under the same id finds the first; another request under it is refused with the code "conflict". With a
        key it finds what stands for the key, or starts it again if that has failed, also before a start that is sent again.
        """
        if options.get("hold"):
            raise ValueError("output is held back for run() alone")
        request, _ = _requests.start(command, options)
        return Execution._read(self._transport.call(request))

    @overload
    def run(
        self,
        command: Sequence[str] | str | None = None,
        *,
        text: Literal[True],
        check: bool = False,
        on_event: Callable[[Event], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Result[str]: ...

    @overload
    def run(
        self,
        command: Sequence[str] | str | None = None,
        *,
        text: Literal[False] = False,
        check: bool = False,
        on_event: Callable[[Event], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Result[bytes]: ...

    def run(
        self,
        command: Sequence[str] | str | None = None,
        *,
        text: bool = False,
        check: bool = False,
        on_event: Callable[[Event], None] | None = None,
        **options: Unpack[StartOptions],
    ) -> Result[Any]:
        """Runs a command to its end and returns all its output, as subprocess.run does, over connections that break.

        text: whether the output is str, with U+FFFD for what is not UTF-8, or bytes.
        check: whether anything but an exit code 0 raises a CommandError, which is a subprocess.CalledProcessError too.
        on_event: is given each event as it comes.

        Output that the server no longer keeps raises a GapError. If this is abandoned (a cancelled task, Ctrl-C, an error) the
        command is cancelled, unless the program has given an `id` or a `key` under which it can be found again.
        """
        request: _wire.Request | None
        if options.get("key"):
            request, id = None, (self.start(command, **options)).id
        else:
            request, id = _requests.start(command, options)
            request.headers["Accept"] = _wire.EVENT_STREAM
        flow = flow_of(self._transport, f"run execution {id}", _path("executions", id), request, FollowOptions(on_gap="raise"))
        output = Output(id, command if command is not None else options.get("code"))
        try:
            with Follow(self._transport, flow, None) as events:
                for event in events:
                    output.add(event)
                    if on_event is not None:
                        on_event(event)
        except BaseException as error:
            if not options.get("id") and not options.get("key") and not isinstance(error, ProblemError):
                self._abandon(id)
            raise
        return output.result(text, check)

    def _abandon(self, id: str) -> None:
        with suppress(RepriseError):
            finish(self._transport.call_once(_cancellation(id)))

    def output(
        self, id: str, channel: Literal["stdout", "stderr"] = "stdout", *, offset: int = 0, follow: bool = False
    ) -> Generator[bytes, None, None]:
        """Yields the bytes of a channel exactly as the command wrote them, through connections that break.

        offset: the first byte.
        follow: whether to go on until the execution has ended. Otherwise the bytes are those that there are when the server
            is asked.
        """
        return _channel(self._transport, id, channel, offset, follow)

    def artifact(self, id: str, path: str) -> bytes:
        """Returns a file that was kept with an execution, with the right checksum, through connections that break. `show` lists
        those that there are, as `artifacts`."""
        data, etag = bytearray(), Etag()
        with closing(_channel(self._transport, id, f"artifacts/{quote(path, safe='')}", 0, False, etag)) as chunks:
            for chunk in chunks:
                data += chunk
        if etag.value != f'"{hashlib.sha256(data).hexdigest()}"':
            raise ProtocolError(f"artifact {path} of execution {id}: the bytes have another checksum than the server's")
        return bytes(data)

    def stdin(self, id: str, offset: int = 0, *, writer: str = "") -> Stdin:
        """Returns a writer to the stdin of an execution that begins at an offset: 0, or the number of bytes that the
        command was given before. Leaving its `with` block ends the command's stdin.

        writer: a name for who writes, whose bytes are counted by themselves, so that several can type into one terminal.
        """
        return Stdin(self._transport, id, offset, writer)

    def resize(self, id: str, cols: int, rows: int) -> None:
        """Sets the size of the terminal of an execution that was started with `tty`."""
        path = _path("executions", id, "/resize")
        request = _wire.json_request(f"resize execution {id}", "POST", path, {"cols": cols, "rows": rows})
        request.empty = True
        self._transport.call(request)

    def screen(self, id: str, *, cols: int | None = None, rows: int | None = None) -> Screen:
        """Returns what the terminal of an execution shows, at its own size or another one. Who shows `paint` and follows
        after `cursor` sees what somebody sees who has watched from the start."""
        query = [(name, str(size)) for name, size in (("cols", cols), ("rows", rows)) if size is not None]
        request = _wire.Request(f"show the screen of execution {id}", "GET", _path("executions", id, "/screen"), query)
        return Screen._read(self._transport.call(request))

    def signal(self, id: str, name: str) -> None:
        """Sends a signal, for example "INT", to the command. It is not sent again once it may have arrived."""
        request = _wire.json_request(f"signal execution {id}", "POST", _path("executions", id, "/signal"), {"signal": name})
        request.once = request.empty = True
        self._transport.call(request)

    def cancel(self, id: str) -> None:
        """Ends an execution: TERM, the grace period, then KILL to the whole tree. It does not wait for the end."""
        self._transport.call(_cancellation(id))

    def show(self, id: str) -> Execution:
        """Returns the state of an execution."""
        request = _wire.Request(f"show execution {id}", "GET", _path("executions", id))
        return Execution._read(self._transport.call(request))

    def list(
        self,
        *,
        session: str = "",
        status: str = "",
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
        cursor: str = "",
    ) -> Listing[Execution]:
        """Returns one page of executions. limit is 1 to 1,000, else 100; cursor is next_cursor of the page before."""
        request = _requests.listing("executions", limit, cursor)
        query = [*request.query, ("session", session), ("status", status)]
        query += [("label", f"{key}={value}") for key, value in sorted((labels or {}).items())]
        request.query = [(name, value) for name, value in query if value]
        answer = self._transport.call(request)
        return Listing([Execution._read(e) for e in answer["executions"]], answer["next_cursor"])

    def page(
        self, id: str, *, after: str = "", limit: int | None = None, wait: _wire.Duration = 0, types: Sequence[str] = ()
    ) -> Page:
        """Returns one page of events. limit is 1 to 1,000, else 100; wait holds the request until there is an event, at
        most 60 s."""
        request = _requests.page(f"read execution {id}", _path("executions", id), after, limit, wait, types)
        return Page._read(self._transport.call(request))

    def remove(self, id: str) -> None:
        """Cancels an execution if it runs, and forgets it."""
        self._transport.call(_wire.Request(f"remove execution {id}", "DELETE", _path("executions", id), empty=True))

    def producer(self, stream: str, *, id: str | None = None, epoch: int = 0) -> Producer:
        """Returns a producer for a stream, which must exist when it publishes."""
        return Producer(self._transport, stream, id, epoch)


def _cancellation(id: str) -> _wire.Request:
    return _wire.Request(f"cancel execution {id}", "POST", _path("executions", id, "/cancel"), empty=True)
