"""Calls of a producer that go together in one request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from ._wire import Request
from .errors import RepriseError
from .models import Published

#: The most that one request takes of what waits: events, and bytes. The server takes 1 MiB.
_MAX_TOGETHER = 1000
_MAX_BYTES = 512 << 10

_LIST_START = b'{"events":['


@dataclass(eq=False)
class Sending:
    """A request for several publications. Once none of their calls waits for it, stop gives it up."""

    waiting: int
    stop: Callable[[], object] = bool


@dataclass(eq=False)
class Publication:
    """A publish that has not been answered."""

    request: Request
    #: The number of its events; 0 if it goes alone.
    count: int
    published: Published | None = None
    error: RepriseError | None = None
    done: bool = False
    #: The request that it is a part of, None while it waits.
    sent: Sending | None = None

    def leave(self, waiting: deque[Publication]) -> None:
        """Gives up a call that is cancelled. It publishes nothing if it still waits."""
        if self.sent is None:
            with suppress(ValueError):
                waiting.remove(self)
            return
        self.sent.waiting -= 1
        if self.sent.waiting == 0:
            self.sent.stop()

    def result(self) -> Published:
        """What the call returns, or raises."""
        if self.error is not None:
            raise self.error
        assert self.published is not None
        return self.published


def take_together(waiting: deque[Publication]) -> list[Publication]:
    """Takes the publications that go into the next request."""
    batch: list[Publication] = []
    count = size = 0
    for one in list(waiting):
        count, size = count + one.count, size + len(one.request.body or b"")
        alone = one.count == 0 or (batch and batch[0].count == 0)
        if batch and (alone or count > _MAX_TOGETHER or size > _MAX_BYTES):
            break
        batch.append(waiting.popleft())
    sending = Sending(len(batch))
    for one in batch:
        one.sent = sending
    return batch


def together(batch: list[Publication]) -> Request:
    """The request with the events of all of them."""
    if len(batch) == 1:
        return batch[0].request
    lists = [(one.request.body or b"")[len(_LIST_START) : -2] for one in batch]
    first = batch[0].request
    return replace(first, headers=dict(first.headers), body=_LIST_START + b",".join(lists) + b"]}")


def divide(batch: list[Publication], all: Published) -> None:
    """Gives each publication what is its own of a request's result."""
    first = all.first
    for one in batch:
        one.published, one.done = all, True
        if first > 0 and len(batch) > 1:  # otherwise the seqs of a duplicate are no longer known
            last = first + one.count - 1
            cursor = f"{last}.{all.cursor.partition('.')[2]}" if all.cursor else all.cursor
            one.published = replace(all, first=first, last=last, cursor=cursor)
            first = last + 1


def fail(batch: list[Publication], error: RepriseError) -> None:
    """Gives each publication that is not done the error of their request."""
    for one in batch:
        if not one.done:
            one.error, one.done = error, True
