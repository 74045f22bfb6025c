"""What the server says of executions, streams and sessions.

Members that this version does not know are in `raw`, the JSON object as it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from .events import Event, decode_object, parse_time

T = TypeVar("T")
AnyStr = TypeVar("AnyStr", str, bytes)

Object = dict[str, Any]
_TIMES = frozenset(("created", "started", "ended", "expires", "updated"))


@dataclass(frozen=True)
class Model:
    """What all answers have in common."""

    raw: Object = field(repr=False, compare=False)

    @classmethod
    def _read(cls: type[T], object: Object) -> T:
        values: Object = {"raw": object}
        for one in fields(cls):  # type: ignore[arg-type]
            value = object.get(one.name)
            if one.name in _TIMES and value is not None:
                value = parse_time(value)
            if value is not None:
                values[one.name] = value
        return cls(**values)


class Window(TypedDict):
    """The cursors of the events that are kept: just before the first, and just after the last."""

    earliest: str
    tail: str


@dataclass(frozen=True)
class Execution(Model):
    """One run of a command. Times are None until they come; so are `exit_code` and `signal`."""

    id: str = ""
    session: str = ""
    key: str = ""
    #: "queued", "running" or "ended".
    status: str = ""
    #: "" until the end.
    outcome: str = ""
    exit_code: int | None = None
    signal: str | None = None
    error: str = ""
    limit: str = ""
    output_truncated: bool = False
    argv: list[str] = field(default_factory=list)
    command: str = ""
    language: str = ""
    cwd: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    duration_ms: int | None = None
    window: Window = field(default_factory=lambda: Window(earliest="", tail=""))
    usage: dict[str, int] | None = None
    #: The output of each channel, kept or not.
    bytes: dict[str, int] = field(default_factory=dict)
    isolation: dict[str, Any] | None = None


@dataclass(frozen=True)
class Stream(Model):
    """A stream that is no execution."""

    name: str = ""
    #: "open" or "ended".
    status: str = ""
    #: "" until the end.
    outcome: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    retention: dict[str, Any] = field(default_factory=dict)
    created: datetime | None = None
    ended: datetime | None = None
    expires: datetime | None = None
    window: Window = field(default_factory=lambda: Window(earliest="", tail=""))
    #: How many events are kept, and what they take.
    events: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Session(Model):
    """What the executions of one session come to."""

    id: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    count: int = 0
    running: int = 0
    queued: int = 0
    last_seq: int = 0
    #: Newest first; there where one session was asked for.
    executions: list[Execution] = field(default_factory=list)

    @classmethod
    def _read(cls, object: Object) -> Session:
        executions = [Execution._read(e) for e in object.get("executions") or []]
        return super()._read({**object, "executions": executions})


@dataclass(frozen=True)
class Listing(Generic[T]):
    """One page of a list, newest first. `next_cursor` is "" on the last page."""

    items: list[T]
    next_cursor: str


@dataclass(frozen=True)
class Page:
    """Some events of a stream. After `next_cursor` comes the next page; the last one is `ended` and has no more."""

    events: list[Event]
    next_cursor: str
    has_more: bool
    ended: bool
    window: Window

    @classmethod
    def _read(cls, object: Object) -> Page:
        events = [decode_object(e["type"], e["cursor"], e) for e in object["events"]]
        return cls(events, object["next_cursor"], object["has_more"], object["ended"], object["window"])


@dataclass(frozen=True)
class Published(Model):
    """Which events a publish has become. `first` and `last` are 0 for a duplicate of which that is no longer known."""

    first: int = 0
    last: int = 0
    #: Just after `last`.
    cursor: str = ""
    #: A try before, whose answer was lost, had published them.
    duplicate: bool = False


@dataclass(frozen=True)
class Ticket(Model):
    """Reads one stream until `expires`, and nothing else, as the query parameter "ticket". It is a secret."""

    ticket: str = field(default="", repr=False)
    expires: datetime | None = None
    #: The path of the stream's events with the ticket in it.
    events: str = field(default="", repr=False)


@dataclass(frozen=True)
class Result(Generic[AnyStr]):
    """How a command has ended, and all its output, as subprocess.CompletedProcess has it."""

    id: str
    args: Any
    #: The exit code, or minus the number of the signal that killed the command. Where the command has no such code, or was
    #: ended and took that for a success: 124 if it timed out, 127 if it could not be started, 130 if it was cancelled, and 125
    #: if it was lost or exceeded a limit. So it is 0 for an outcome "exited" alone.
    returncode: int
    stdout: AnyStr
    stderr: AnyStr
    #: "exited", "signaled", "timed_out", "cancelled", "limit_exceeded", "failed_to_start" or "lost".
    outcome: str
    #: Why a run did not start, was lost, or was ended by the server.
    error: str
    duration_ms: int | None
