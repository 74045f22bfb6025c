"""The Python client of a Reprise server: it runs commands, follows them and other streams over connections that break, and
gives each event once.

    from reprise import Reprise

    with Reprise() as client:
        result = client.run(["make", "test"], check=True, text=True)
        print(result.stdout)
        for event in client.follow(result.id):
            print(event.seq, event.type, event.text)

`AsyncReprise` has the same methods as coroutines. Every error is a `RepriseError` with `code` and `retryable`.
"""

from ._async.client import AsyncReprise
from ._async.duties import AsyncSchedules, AsyncWebhooks
from ._async.files import AsyncFiles
from ._async.follow import AsyncFollow
from ._async.interpreters import AsyncInterpreters
from ._async.keys import AsyncKeys
from ._async.operation import AsyncOperation
from ._async.producer import AsyncProducer
from ._async.stdin import AsyncStdin
from ._async.streams import AsyncSessions, AsyncStreams, AsyncTickets
from ._async.tasks import AsyncReplicas, AsyncTasks
from ._flow import Drop
from ._model import Quota, Window
from ._schemas import (
    Execution,
    FileInfo,
    Interpreter,
    Key,
    Published,
    Quotas,
    Replica,
    Schedule,
    Screen,
    Session,
    Stream,
    Task,
    Ticket,
    Watch,
    Webhook,
    WebhookAnswer,
)
from ._sync.client import Reprise
from ._sync.duties import Schedules, Webhooks
from ._sync.files import Files
from ._sync.follow import Follow
from ._sync.interpreters import Interpreters
from ._sync.keys import Keys
from ._sync.operation import Operation
from ._sync.producer import Producer
from ._sync.stdin import Stdin
from ._sync.streams import Sessions, Streams, Tickets
from ._sync.tasks import Replicas, Tasks
from ._wire import Duration
from .cursors import AsyncCursorStore, CursorStore, FileCursor, MemoryCursor, SQLiteCursor
from .errors import (
    CommandError,
    FileChangedError,
    GapError,
    NetworkError,
    ProblemError,
    ProtocolError,
    RepriseError,
    UnknownStepError,
    UnprovenError,
)
from .events import End, Event, Gap, Started
from .models import CodeException, CodeResult, FileChange, Listing, Page, Result, Shown
from .options import Access, Limits, Retention, StartOptions, Terminal

__version__ = "0.1.0"

__all__ = [
    "Access",
    "AsyncCursorStore",
    "AsyncFiles",
    "AsyncFollow",
    "AsyncInterpreters",
    "AsyncKeys",
    "AsyncOperation",
    "AsyncProducer",
    "AsyncReplicas",
    "AsyncReprise",
    "AsyncSchedules",
    "AsyncSessions",
    "AsyncStdin",
    "AsyncStreams",
    "AsyncTasks",
    "AsyncTickets",
    "AsyncWebhooks",
    "CodeException",
    "CodeResult",
    "CommandError",
    "CursorStore",
    "Drop",
    "Duration",
    "End",
    "Event",
    "Execution",
    "FileChange",
    "FileChangedError",
    "FileCursor",
    "FileInfo",
    "Files",
    "Follow",
    "Gap",
    "GapError",
    "Interpreter",
    "Interpreters",
    "Key",
    "Keys",
    "Limits",
    "Listing",
    "MemoryCursor",
    "NetworkError",
    "Operation",
    "Page",
    "ProblemError",
    "Producer",
    "ProtocolError",
    "Published",
    "Quota",
    "Quotas",
    "Replica",
    "Replicas",
    "Reprise",
    "RepriseError",
    "Result",
    "Retention",
    "SQLiteCursor",
    "Schedule",
    "Schedules",
    "Screen",
    "Session",
    "Sessions",
    "Shown",
    "StartOptions",
    "Started",
    "Stdin",
    "Stream",
    "Streams",
    "Task",
    "Tasks",
    "Terminal",
    "Ticket",
    "Tickets",
    "UnknownStepError",
    "UnprovenError",
    "Watch",
    "Webhook",
    "WebhookAnswer",
    "Webhooks",
    "Window",
    "__version__",
]
