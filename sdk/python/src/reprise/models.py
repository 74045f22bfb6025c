"""Executions, streams, sessions, files and keys as the server describes them.

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
_TIMES = frozenset(
    (
        "created",
        "started",
        "ended",
        "expires",
        "expired_at",
        "updated",
        "modified",
        "rotated",
        "revoked",
        "used",
        "joined",
        "last_heartbeat",
        "next",
    )
)


@dataclass(frozen=True)
class Model:
    """The base class of all answers."""

    raw: Object = field(repr=False, compare=False)

    @classmethod
    def _read(cls: type[T], object: Object) -> T:
        values: Object = {"raw": dict(object)}
        for one in fields(cls):  # type: ignore[arg-type]
            value = object.get(one.name)
            if one.name in _TIMES and value is not None:
                value = parse_time(value)
            if value is not None:
                values[one.name] = value
        return cls(**values)


class Window(TypedDict):
    """The cursors of the kept events: just before the first, and just after the last."""

    earliest: str
    tail: str


@dataclass(frozen=True)
class Execution(Model):
    """One run of a command. Times, `exit_code` and `signal` are None until they are known."""

    id: str = ""
    session: str = ""
    key: str = ""
    #: "queued", "running" or "ended".
    status: str = ""
    #: It has ended, and the server remembers only how and when. The window is empty.
    expired: bool = False
    #: When the output expired; None if it was removed before, to make room.
    expired_at: datetime | None = None
    #: "storage" while output waits until there is room for it, since `waiting_since`.
    waiting: str = ""
    waiting_since: datetime | None = None
    #: "" until the end.
    outcome: str = ""
    exit_code: int | None = None
    signal: str | None = None
    error: str = ""
    limit: str = ""
    output_truncated: bool = False
    #: What owned the processes of the run was killed, and some of them may still run.
    processes_left: bool = False
    #: How many processes still ran when the command had ended by itself, and were killed.
    killed_processes: int = 0
    #: The command lines of the first of them, shortened.
    killed_commands: list[str] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)
    command: str = ""
    language: str = ""
    #: The interpreter that the code runs in.
    interpreter: str = ""
    #: Files that were kept, each with "path", "size" and "sha256".
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    #: What was left out of the artifacts.
    artifact_notes: list[str] = field(default_factory=list)
    cwd: str = ""
    #: The names of the variables of the request.
    env_names: list[str] = field(default_factory=list)
    #: The size of its terminal.
    tty: dict[str, int] | None = None
    timeout: str = ""
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
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Interpreter(Model):
    """A process that runs one piece of code after the other and keeps its definitions."""

    id: str = ""
    #: "bash", "javascript" or "python".
    language: str = ""
    session: str = ""
    #: "queued", "running" or "ended".
    status: str = ""
    #: "" until the end.
    outcome: str = ""
    error: str = ""
    cwd: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    created: datetime | None = None
    ended: datetime | None = None
    #: The execution whose code it runs now.
    running: str = ""
    #: How often it was given code, and when the last code ended.
    runs: int = 0
    used: datetime | None = None
    idle_timeout: str = ""
    timeout: str = ""
    isolation: dict[str, Any] | None = None
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown(Model):
    """A value that code has displayed: the data of an event "result" or "display"."""

    #: By MIME type; binary types in base64.
    mime: dict[str, str] = field(default_factory=dict)
    #: The sizes of what was too large.
    omitted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CodeException(Model):
    """The failure of code: the data of an event "exception"."""

    name: str = ""
    value: str = ""
    traceback: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CodeResult:
    """The result of code in an interpreter."""

    #: That of the execution.
    id: str
    stdout: str
    stderr: str
    #: The value of the last expression, None where it has none.
    result: Shown | None
    #: What the code has shown, in order.
    displays: list[Shown]
    #: Why it has failed, None if it has not.
    exception: CodeException | None
    #: As that of `Result`: 0, 1 after an exception, 130 after an interruption, in bash the status of the last command.
    returncode: int
    outcome: str


@dataclass(frozen=True)
class Stream(Model):
    """A stream that is not an execution."""

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
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Session(Model):
    """A summary of the executions of one session."""

    id: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    count: int = 0
    running: int = 0
    queued: int = 0
    last_seq: int = 0
    #: Newest first; there where one session was asked for.
    executions: list[Execution] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)

    @classmethod
    def _read(cls, object: Object) -> Session:
        executions = [Execution._read(e) for e in object.get("executions") or []]
        return super()._read({**object, "executions": executions})


@dataclass(frozen=True)
class Task(Model):
    """A task of a client of the Model Context Protocol: a call of a tool whose result the client polls."""

    id: str = ""
    #: The endpoint whose tool was called: "mcp", or at a gateway the name of the upstream.
    endpoint: str = ""
    tool: str = ""
    #: "working", "input_required", "completed", "failed" or "cancelled".
    status: str = ""
    #: What the tool says about its state.
    message: str = ""
    principal: str = ""
    #: The id of the execution that the task waits for.
    execution: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    #: When the task may be removed, None before the end.
    expires: datetime | None = None
    #: The milliseconds from `created` to `expires`.
    ttl_ms: int | None = None
    #: Somebody has asked to cancel the task.
    cancel_requested: bool = False
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Replica(Model):
    """One of the servers that share a store. What only the server itself knows is None or "" if it does not answer."""

    id: str = ""
    #: It is the server that answered the request.
    self: bool = False
    answers: bool = False
    url: str = ""
    version: str = ""
    started: datetime | None = None
    #: When it got its id, None for a server that has its store alone.
    joined: datetime | None = None
    last_heartbeat: datetime | None = None
    #: "running" and "queued", of those that it runs.
    executions: dict[str, int] | None = None
    #: The number of streams that it has in memory.
    streams: int | None = None


@dataclass(frozen=True)
class Screen(Model):
    """The screen of a terminal."""

    #: The position just after the last event that was drawn.
    cursor: str = ""
    cols: int = 0
    rows: int = 0
    #: What can be read on it, a line for each row.
    text: str = ""
    #: What makes a terminal of this size show the same, with colours, cursor and modes.
    paint: str = field(default="", repr=False)


@dataclass(frozen=True)
class FileInfo(Model):
    """A file or directory of the server."""

    #: Bytes that are not UTF-8 are replaced; `path_base64` has them all then.
    path: str = ""
    path_base64: str = ""
    #: "file", "directory", "symlink", "fifo", "socket" or "device".
    type: str = ""
    #: 0 for what is no file.
    size: int = 0
    #: Octal permissions.
    mode: str = ""
    modified: datetime | None = None
    #: Another one whenever the file is another one, or was changed.
    etag: str = ""
    #: What a link says.
    target: str = ""
    sha256: str = ""
    #: The first line that has the text that was searched for.
    line: int = 0
    text: str = ""


@dataclass(frozen=True)
class FileChange(FileInfo):
    """A change of a file; `FileChange.of(event)` decodes the event of a watch. A removed file is described as it was."""

    #: The path that it had before it was moved.
    source: str = ""

    @classmethod
    def of(cls, event: Event) -> FileChange:
        """Reads an event of the type "created", "modified", "removed" or "moved"."""
        return cls._read({**event.data, "source": event.data.get("from")})


@dataclass(frozen=True)
class Watch(Model):
    """A watched directory."""

    id: str = ""
    path: str = ""
    recursive: bool = False
    #: After it comes what happens from now on.
    cursor: str = ""
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Key(Model):
    """An API key."""

    id: str = ""
    name: str = ""
    tenant: str = ""
    scopes: list[str] = field(default_factory=list)
    #: Its quotas, by their names.
    limits: dict[str, int] = field(default_factory=dict)
    created: datetime | None = None
    rotated: datetime | None = None
    expires: datetime | None = None
    revoked: datetime | None = None
    #: Its text, where it was just made. It is a secret.
    key: str = field(default="", repr=False)
    links: dict[str, str] = field(default_factory=dict)


class Quota(TypedDict):
    """The usage and the limit of one quota, for example "running" or "bytes". The limit is None if there is none. `of` names
    its owner, "principal" or "tenant", or is "server" for a limit that all share."""

    quota: str
    of: str
    used: int
    limit: int | None


@dataclass(frozen=True)
class Quotas(Model):
    """The quotas of a principal, if it is about one, and then those of its tenant."""

    tenant: str = ""
    principal: str = ""
    quotas: list[Quota] = field(default_factory=list)


@dataclass(frozen=True)
class Webhook(Model):
    """Messages to a URL."""

    id: str = ""
    url: str = ""
    #: "executions" or "streams".
    source: str = ""
    stream: str = ""
    prefix: str = ""
    types: list[str] = field(default_factory=list)
    #: The owner. When its credential becomes invalid, the webhook is disabled.
    principal: str = ""
    created: datetime | None = None
    #: When the secrets were made, and until when a replaced one signs.
    secrets: list[Object] = field(default_factory=list)
    #: Since when and why it sends nothing; None if it is enabled.
    disabled: Object | None = None
    #: How many messages were queued, sent and dropped, since when all attempts have failed, and why.
    progress: Object = field(default_factory=dict)
    #: What signs the messages, where it was just made.
    secret: str = field(default="", repr=False)
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WebhookAnswer(Model):
    """The answer of a receiver to a test message. status is 0 if there was none."""

    status: int = 0
    error: str = ""


@dataclass(frozen=True)
class Schedule(Model):
    """A command that starts at given times."""

    id: str = ""
    cron: str = ""
    zone: str = ""
    overlap: str = ""
    missed: str = ""
    #: The request, without code, stdin and the values of variables.
    execution: Object = field(default_factory=dict)
    #: The owner. When its credential becomes invalid, the schedule is disabled at its next time.
    principal: str = ""
    created: datetime | None = None
    next: datetime | None = None
    #: Since when and why it starts nothing; None if it is enabled.
    disabled: Object | None = None
    #: What became of the last times: `at`, `outcome`, and the `execution` or the `error`.
    slots: list[Object] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Listing(Generic[T]):
    """One page of a list, newest first; of files, in the order of their names. `next_cursor` is "" on the last page."""

    items: list[T]
    next_cursor: str


@dataclass(frozen=True)
class Page:
    """A page of events of a stream. The next page begins after `next_cursor`; the last page is `ended`."""

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
    """The result of a publish. `first` and `last` are 0 for a duplicate whose seqs are no longer known."""

    first: int = 0
    last: int = 0
    #: Just after `last`.
    cursor: str = ""
    #: A try before, whose answer was lost, had published them.
    duplicate: bool = False


@dataclass(frozen=True)
class Ticket(Model):
    """A permission to read one stream until `expires`, and nothing else, as the query parameter "ticket". It is a secret."""

    ticket: str = field(default="", repr=False)
    expires: datetime | None = None
    #: The path of the stream's events with the ticket in it.
    events: str = field(default="", repr=False)


@dataclass(frozen=True)
class Result(Generic[AnyStr]):
    """The result of a command with all its output, like subprocess.CompletedProcess."""

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
