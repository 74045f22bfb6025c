"""The record of an operation: the events of its stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from .errors import RepriseError, UnknownStepError
from .events import Event

T = TypeVar("T")

StepFunction = Callable[[], T]
AsyncStepFunction = Callable[[], Awaitable[T]]

MAX_TRIES = 10  # to become the newest attempt
MAX_ERROR = 4096  # characters of the error of a step in the record


class Record:
    """What was recorded of an operation so far."""

    def __init__(self) -> None:
        self.attempts, self.newest, self.done = 0, "", False
        self.results: dict[str, Any] = {}
        self.began: dict[str, int] = {}  # steps that have begun and neither returned nor failed, by attempt
        self.seq, self.cursor = 0, ""

    def apply(self, event: Event) -> None:
        """Takes the next event."""
        if event.seq != self.seq + 1:
            raise RepriseError("the record of the operation is not whole any more: its first events are no longer kept")
        self.seq, self.cursor = event.seq, event.cursor
        data = event.data if isinstance(event.data, dict) else {}
        step = str(data.get("step", ""))
        match event.type:
            case "attempt":
                self.attempts, self.newest = self.attempts + 1, str(data.get("id", ""))
            case "step_began":
                self.began[step] = self.attempts
            case "step_done":
                self.began.pop(step, None)
                self.results[step] = data.get("result")
            case "step_failed":
                self.began.pop(step, None)
            case "end":
                self.done = True

    def check(self, key: str, step: str) -> None:
        """Refuses a step that must not be called."""
        if self.done:
            raise RepriseError(f"operation {key}: it is done, and its record has no step {step!r}")
        if step in self.began:
            raise UnknownStepError(step, self.began[step])
