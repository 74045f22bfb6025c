"""Executions, streams, sessions, files and keys as the server describes them.

Members that this version does not know are in `raw`, the JSON object as it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, AnyStr, Generic, TypeVar

from ._model import Model as Model
from ._model import Object
from ._model import Quota as Quota
from ._model import Window as Window
from ._schemas import Execution as Execution
from ._schemas import FileInfo as FileInfo
from ._schemas import Interpreter as Interpreter
from ._schemas import Key as Key
from ._schemas import Published as Published
from ._schemas import Quotas as Quotas
from ._schemas import Replica as Replica
from ._schemas import Schedule as Schedule
from ._schemas import Screen as Screen
from ._schemas import Session as Session
from ._schemas import Stream as Stream
from ._schemas import Task as Task
from ._schemas import Ticket as Ticket
from ._schemas import Watch as Watch
from ._schemas import Webhook as Webhook
from ._schemas import WebhookAnswer as WebhookAnswer
from .events import Event, decode_object

T = TypeVar("T")


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
class FileChange(FileInfo):
    """A change of a file; `FileChange.of(event)` decodes the event of a watch. A removed file is described as it was."""

    #: The path that it had before it was moved.
    source: str = ""

    @classmethod
    def of(cls, event: Event) -> FileChange:
        """Reads an event of the type "created", "modified", "removed" or "moved"."""
        return cls._read({**event.data, "source": event.data.get("from")})


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
