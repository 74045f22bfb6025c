"""The answers of the API. Generated from openapi.yaml by "make generate"."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._model import Model, Object, Quota, Window


@dataclass(frozen=True)
class Interpreter(Model):
    """A process that runs one piece of code after the other and keeps its definitions."""

    id: str = ""
    language: str = ""
    session: str = ""
    #: One of "queued", "running", "ended".
    status: str = ""
    #: `exited`, with whatever code; `signaled`, by a signal that nobody here decided on; `timed_out`; `cancelled`;
    #: `limit_exceeded`, with `limit`; `failed_to_start`, with `error`; `lost`: the process cannot be found again. One of
    #: "exited", "signaled", "timed_out", "cancelled", "limit_exceeded", "failed_to_start", "lost".
    outcome: str = ""
    error: str = ""
    #: The value in the request.
    cwd: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    created: datetime | None = None
    ended: datetime | None = None
    #: The execution that it runs now.
    running: str = ""
    #: The number of runs so far. Absent once it has ended.
    runs: int = 0
    #: When its last code ended.
    used: datetime | None = None
    #: A duration in the syntax of Go.
    idle_timeout: str = ""
    #: A duration in the syntax of Go.
    timeout: str = ""
    #: The isolation that is in force, not the requested one.
    isolation: dict[str, Any] | None = None
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Execution(Model):
    """One run of a command."""

    id: str = ""
    session: str = ""
    #: The key of the request. It may belong to a later execution by now.
    key: str = ""
    #: One of "queued", "running", "ended".
    status: str = ""
    #: It has ended, and its output is no longer kept. What is remembered is the id, the session, the outcome, exit code or
    #: signal, and the times; the other members are empty, and `window` and the links to the output are missing.
    expired: bool = False
    #: When the output expired. It is missing if the output was removed before, to make room.
    expired_at: datetime | None = None
    #: What a running execution waits for. `storage`: a bound on kept bytes is reached, and no ended stream is left that could
    #: make room; or the disk is full. The output of the command is not read meanwhile, so the command waits when its pipes are
    #: full. It continues when streams end or are removed, or the bound is raised; cancel, timeout and DELETE end it at once.
    #: One of "storage".
    waiting: str = ""
    #: Since when it waits.
    waiting_since: datetime | None = None
    #: `exited`, with whatever code; `signaled`, by a signal that nobody here decided on; `timed_out`; `cancelled`;
    #: `limit_exceeded`, with `limit`; `failed_to_start`, with `error`; `lost`: the process cannot be found again. One of
    #: "exited", "signaled", "timed_out", "cancelled", "limit_exceeded", "failed_to_start", "lost".
    outcome: str = ""
    exit_code: int | None = None
    #: A name without SIG, for example SEGV.
    signal: str | None = None
    #: Why a run did not start, was lost, or was ended by the server.
    error: str = ""
    #: The limit that was exceeded.
    limit: str = ""
    #: Some output of the command is not in the stream.
    output_truncated: bool = False
    #: The owner of the processes of the run was killed, and some of them may still run.
    processes_left: bool = False
    #: How many processes still ran when the command had ended by itself, and were killed.
    killed_processes: int = 0
    #: The command lines of the first of them, shortened.
    killed_commands: list[str] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)
    command: str = ""
    language: str = ""
    #: The interpreter that runs the code.
    interpreter: str = ""
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    #: What was left out of the artifacts and why, or why none could be kept.
    artifact_notes: list[str] = field(default_factory=list)
    #: The directory in which the command runs. Where the request names none, an ended execution has it for as long as its first
    #: event is kept, and lists have none.
    cwd: str = ""
    #: The names of the variables of the request, not their values.
    env_names: list[str] = field(default_factory=list)
    #: A terminal. All output is then on stdout.
    tty: dict[str, int] | None = None
    #: A duration in the syntax of Go.
    timeout: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    created: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    duration_ms: int | None = None
    #: The cursors of the kept events.
    window: Window = field(default_factory=lambda: Window(earliest="", tail=""))
    #: What the processes of a command have used.
    usage: dict[str, int] | None = None
    #: The bytes that the command wrote to each channel, kept or not.
    bytes: dict[str, int] = field(default_factory=dict)
    #: The isolation that is in force, not the requested one.
    isolation: dict[str, Any] | None = None
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Session(Model):
    """A summary of the executions of one session."""

    id: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    #: The number of its executions.
    count: int = 0
    running: int = 0
    queued: int = 0
    #: The highest seq of its executions.
    last_seq: int = 0
    executions: list[Execution] = field(default_factory=list, metadata={"of": Execution})
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Screen(Model):
    """The screen of a terminal."""

    #: The position just after the last event that was drawn.
    cursor: str = ""
    cols: int = 0
    rows: int = 0
    #: The readable text, a line for each row.
    text: str = ""
    #: Output that makes a terminal of this size show the same, with colours, cursor, alternate screen and modes.
    paint: str = field(default="", repr=False)


@dataclass(frozen=True)
class Stream(Model):
    """A stream that is not an execution."""

    #: Segments of letters, digits, `.`, `_` and `-` with `/` between; no empty, `.` or `..` segment.
    name: str = ""
    #: One of "open", "ended".
    status: str = ""
    #: One of "completed", "failed", "cancelled".
    outcome: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    #: All limits apply together. Omitted members have the defaults of the server.
    retention: dict[str, Any] = field(default_factory=dict)
    created: datetime | None = None
    ended: datetime | None = None
    #: When it may be swept.
    expires: datetime | None = None
    #: The cursors of the kept events.
    window: Window = field(default_factory=lambda: Window(earliest="", tail=""))
    #: The number of kept events.
    events: int = 0
    #: The size of the kept events.
    bytes: int = 0
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Published(Model):
    """The result of a publish."""

    #: The seq of the first event.
    first: int = 0
    #: The seq of the last event.
    last: int = 0
    #: A position just after an event. Opaque.
    cursor: str = ""
    #: The producer had appended them before. `first` and `last` are 0 if their seqs are no longer known.
    duplicate: bool = False


@dataclass(frozen=True)
class Quotas(Model):
    """The quotas of a principal, if one was requested, and then those of its tenant."""

    tenant: str = ""
    #: The name of the principal; null if only the tenant was requested.
    principal: str = ""
    quotas: list[Quota] = field(default_factory=list)


@dataclass(frozen=True)
class Ticket(Model):
    """A permission to read one stream until `expires`, as the query parameter `ticket`. It is a secret."""

    #: For the parameter `ticket`.
    ticket: str = field(default="", repr=False)
    expires: datetime | None = None
    #: The path of the events with the ticket in it.
    events: str = field(default="", repr=False)


@dataclass(frozen=True)
class FileInfo(Model):
    """A file or directory of the server."""

    #: Bytes that are not UTF-8 are replaced.
    path: str = ""
    #: All bytes of the path, if it is not UTF-8.
    path_base64: str = ""
    #: One of "file", "directory", "symlink", "fifo", "socket", "device".
    type: str = ""
    #: 0 if it is not a file.
    size: int = 0
    #: Octal permissions.
    mode: str = ""
    modified: datetime | None = None
    #: Changes whenever the file is replaced or changed.
    etag: str = ""
    #: The target of a link.
    target: str = ""
    #: In hexadecimal.
    sha256: str = ""
    #: The number of the first line that matches the search.
    line: int = 0
    #: That line, or its beginning.
    text: str = ""


@dataclass(frozen=True)
class Watch(Model):
    """A watched directory."""

    id: str = ""
    path: str = ""
    recursive: bool = False
    #: A position just after an event. Opaque.
    cursor: str = ""
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Task(Model):
    """A call of a tool of MCP whose result the client polls."""

    id: str = ""
    #: The endpoint whose tool was called: `mcp`, or at a gateway the name of the upstream.
    endpoint: str = ""
    #: The tool whose call became the task.
    tool: str = ""
    #: One of "working", "input_required", "completed", "failed", "cancelled".
    status: str = ""
    #: What the tool says about its state.
    message: str = ""
    #: Who called the tool; empty if it was `reprise mcp` on the data directory of the server.
    principal: str = ""
    #: The id of the execution that the task waits for.
    execution: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    #: When the task may be removed. Null before the end.
    expires: datetime | None = None
    #: The time from `created` to `expires`, as `ttlMs` of MCP.
    ttl_ms: int | None = None
    #: Somebody has asked to cancel the task.
    cancel_requested: bool = False
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Replica(Model):
    """One of the servers that share a store. What only the server itself knows is null if it does not answer."""

    #: The name by which others know it, which owns its executions.
    id: str = ""
    #: It is the server that answers this request.
    self: bool = False
    #: It has answered within 2 s.
    answers: bool = False
    #: Where it listens, as it knows it itself: behind a proxy, others may not reach it there.
    url: str = ""
    version: str = ""
    #: When it began to serve.
    started: datetime | None = None
    #: When it got its name. Null if it has the store alone.
    joined: datetime | None = None
    #: When its newest heartbeat was seen here. Null if it has the store alone.
    last_heartbeat: datetime | None = None
    #: The executions that it runs.
    executions: dict[str, int] | None = None
    #: The number of streams that it has in memory, because they are written or read there.
    streams: int | None = None


@dataclass(frozen=True)
class Key(Model):
    """An API key."""

    id: str = ""
    name: str = ""
    tenant: str = ""
    scopes: list[str] = field(default_factory=list)
    #: Limits by quota; see `QuotaName`. An omitted quota has no limit, and 0 allows nothing.
    limits: dict[str, int] = field(default_factory=dict)
    created: datetime | None = None
    rotated: datetime | None = None
    expires: datetime | None = None
    revoked: datetime | None = None
    #: The text of the key, if it was just made.
    key: str = field(default="", repr=False)
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Webhook(Model):
    """Messages to a URL."""

    id: str = ""
    url: str = ""
    #: One of "executions", "streams".
    source: str = ""
    stream: str = ""
    prefix: str = ""
    types: list[str] = field(default_factory=list)
    #: The owner. When the credential becomes invalid, the webhook is disabled.
    principal: str = ""
    created: datetime | None = None
    secrets: list[dict[str, Any]] = field(default_factory=list)
    disabled: dict[str, Any] | None = None
    progress: Object = field(default_factory=dict)
    #: The secret that signs, if it was just made.
    secret: str = field(default="", repr=False)
    links: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WebhookAnswer(Model):
    """The answer of a receiver to a test message."""

    #: The status of the receiver's answer, or 0 if there was none.
    status: int = 0
    #: The reason of a failure.
    error: str = ""


@dataclass(frozen=True)
class Schedule(Model):
    """Executions that start at given times."""

    id: str = ""
    cron: str = ""
    zone: str = ""
    #: One of "skip", "allow".
    overlap: str = ""
    #: One of "skip", "once".
    missed: str = ""
    #: The request, without code, stdin and the values of variables.
    execution: Object = field(default_factory=dict)
    #: The owner. When the credential becomes invalid, the schedule is disabled at its next slot.
    principal: str = ""
    created: datetime | None = None
    next: datetime | None = None
    disabled: dict[str, Any] | None = None
    slots: list[dict[str, Any]] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
