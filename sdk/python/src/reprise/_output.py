"""Collects the output of a command."""

from __future__ import annotations

import signal
from typing import Any

from .errors import CommandError
from .events import End, Event
from .models import Result

#: The return codes, as those of the command `reprise run`, of a run that was ended and took that for a success, or that has no
#: code of its own.
_CODES = {"timed_out": 124, "cancelled": 130, "failed_to_start": 127}
_FAILED = 125


class Output:
    """The output of one run."""

    def __init__(self, id: str, args: Any) -> None:
        self._id, self._args = id, args
        self._channels: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        self._end: End | None = None

    def add(self, event: Event) -> None:
        """Adds the next event."""
        if isinstance(event, End):
            self._end = event
        elif (chunks := self._channels.get(event.type)) is not None:
            chunks.append(event.bytes)

    def result(self, text: bool, check: bool) -> Result[Any]:
        """Raises CommandError if check is true and the command has not exited with code 0."""
        end = self._end
        if end is None:  # the loop was over before its first event: another reader of this id got the end
            raise RuntimeError(f"execution {self._id} has shown no end")
        stdout, stderr = (b"".join(self._channels[name]) for name in ("stdout", "stderr"))
        out: Any = stdout.decode("utf-8", "replace") if text else stdout
        err: Any = stderr.decode("utf-8", "replace") if text else stderr
        code = _return_code(end)
        if check and code != 0:
            raise CommandError(self._id, end.outcome, end.error, code, self._args, out, err)
        return Result(self._id, self._args, code, out, err, end.outcome, end.error, end.duration_ms)


def _return_code(end: End) -> int:
    if end.signal:
        number = getattr(signal, f"SIG{end.signal}", None)
        if number is not None:
            return -int(number)
    if end.outcome == "exited":
        return end.exit_code if end.exit_code is not None else _FAILED
    return end.exit_code or _CODES.get(end.outcome, _FAILED)
