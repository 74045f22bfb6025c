"""The errors of this package.

Every error has `code`, a stable name that a program can branch on ("" if the server gave none), and `retryable`, which is true
if the same request may succeed later without a change.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .events import Gap

__all__ = [
    "CommandError",
    "FileChangedError",
    "GapError",
    "NetworkError",
    "ProblemError",
    "ProtocolError",
    "RepriseError",
    "UnprovenError",
]


class RepriseError(Exception):
    """The base class of all errors of this package.

    `op` is the failed operation, for example "follow execution 7f3k", and `tries` the number of requests.
    """

    code: str = ""
    retryable: bool = False
    op: str = ""
    tries: int = 0

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.op}: {text}" if self.op else text


class NetworkError(RepriseError):
    """The server was not reached, or the connection was lost, silent or too slow.

    `__cause__` is the failure of the network, if there was one.
    """

    retryable: bool = True
    #: The request has changed nothing, because no connection came about.
    unsent: bool = False
    #: No byte came for too long.
    silent: bool = False

    def __init__(self, message: str, *, retryable: bool = True, unsent: bool = False, silent: bool = False) -> None:
        super().__init__(message)
        self.retryable: bool = retryable
        self.unsent = unsent
        self.silent = silent


class UnprovenError(RepriseError):
    """A request was not sent: the token comes from a file of this machine, and the program that listens at the address does not
    prove that it knows the token. It may be another program, a server of an older version, or a proxy.

    A client that gets its token as an argument or from REPRISE_TOKEN sends it without a proof.
    """

    code: str = "unproven"


class ProtocolError(RepriseError):
    """An answer violates the protocol: no event, a missing seq, another content type.

    `foreign` is true for a complete answer that does not come from the server, such as a login page.
    """

    def __init__(self, message: str, *, foreign: bool = False) -> None:
        super().__init__(message)
        self.foreign: bool = foreign


class ProblemError(RepriseError):
    """A refusal: problem details (RFC 9457), or the error page of a proxy in front of the server, whose `code` is "".

    `earliest`, `tail` and `fork` are cursors, or "" if they do not apply. `quota` names the exhausted quota, and `quota_of` its
    owner. `retry_after` is in seconds.
    """

    def __init__(self, status: int, members: dict[str, Any], *, retryable: bool, retry_after: float = 0.0) -> None:
        def text(name: str) -> str:
            value = members.get(name)
            return value if isinstance(value, str) else ""

        self.status = status
        self.code: str = text("code")
        self.title: str = text("title")
        self.detail: str = text("detail")
        self.field: str = text("field")
        self.earliest: str = text("earliest")
        self.tail: str = text("tail")
        self.fork: str = text("fork")
        offset = members.get("offset")
        #: How many bytes an upload has, None where the refusal is of something else.
        self.offset: int | None = offset if isinstance(offset, int) else None
        self.quota: str = text("quota")
        self.quota_of: str = text("quota_of")
        self.retryable: bool = retryable
        self.retry_after = retry_after
        name = self.code or f"status {status}"
        told = self.detail or self.title
        where = f"{self.field}: " if self.field and not told.startswith(self.field) else ""
        super().__init__(f"{name}: {where}{told}".rstrip(": "))


class GapError(RepriseError):
    """Ends a loop with `on_gap="raise"` at a gap. `gap` describes the missing events."""

    def __init__(self, gap: Gap) -> None:
        self.gap = gap
        self.code: str = gap.code
        if gap.taken_back:
            text = f"the server has lost {gap.taken_back} events up to the cursor, and {gap.missed} after it are no longer kept"
        elif gap.missed:
            text = f"{gap.missed} events are no longer kept"
        elif gap.code == "cursor_ahead":
            text = "the stream has fewer events than the cursor says"
        else:
            text = "the history after the cursor is no longer kept"
        super().__init__(f"{gap.code}: {text}")


class UnknownStepError(RepriseError):
    """A step of an operation has begun in an earlier attempt, and whether it took effect is unknown."""

    code = "unknown_step"

    def __init__(self, step: str, attempt: int) -> None:
        self.step = step
        self.attempt = attempt
        super().__init__(f"step {step!r} has begun in attempt {attempt}, and whether it took effect is unknown")


class FileChangedError(RepriseError):
    """A file changed during its upload or download. The received bytes were dropped."""

    code = "file_changed"


class CommandError(RepriseError, subprocess.CalledProcessError):
    """A command did not exit with code 0, and `check` is true.

    It is a `subprocess.CalledProcessError` too. `outcome` is the outcome of the execution, which is also the code of this
    error.
    """

    def __init__(self, id: str, outcome: str, error: str, returncode: int, cmd: Any, stdout: Any, stderr: Any) -> None:
        subprocess.CalledProcessError.__init__(self, returncode, cmd, stdout, stderr)
        self.id = id
        self.outcome = self.code = outcome
        self.error = error

    def __str__(self) -> str:
        why = f": {self.error}" if self.error else ""
        return f"run execution {self.id}: {self.outcome} with exit code {self.returncode}{why}"
