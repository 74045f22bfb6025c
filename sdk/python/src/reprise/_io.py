"""The differences between the sync and the async client: waiting, and work beside a loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ._publish import Publication
from .cursors import AnyCursorStore, CursorStore

T = TypeVar("T")

sleep: Callable[[float], None] = time.sleep
async_sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

#: Bounds what an abandoned loop or call does last, in seconds.
LAST_WORD = 5.0


class Saver:
    """Saves the cursor of the last handled event at intervals, and never while the body of the loop runs: the thread of the
    loop saves between two events, and another thread saves while that one waits for bytes."""

    def __init__(self, store: CursorStore | None, every: float) -> None:
        self._store, self._every = store, every
        self._pending = ""  # handled and not saved
        self._last = ""  # handled
        self._saved = -1e9  # when
        self._waiting = self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def active(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    def load(self) -> str:
        if self._store is not None:
            self._last = self._store.load()
        return self._last

    def handled(self, cursor: str) -> None:
        """Records that all events up to cursor were handled, and saves it if a save is due."""
        if self._store is None or not cursor or cursor == self._last:
            return
        with self._changed:
            self._pending = self._last = cursor
            if self._due() <= 0:
                self._save()

    def _due(self) -> float:
        return self._every - (time.monotonic() - self._saved)

    def _save(self) -> None:
        cursor, self._pending = self._pending, ""
        if cursor and self._store is not None:
            self._saved = time.monotonic()
            self._store.save(cursor)

    def begin_wait(self) -> None:
        """Allows a pending cursor to be saved while the loop waits."""
        if self._store is None or not self._pending:
            return
        with self._changed:
            self._waiting = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="reprise-cursor", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _work(self) -> None:
        with self._changed:
            while not self._closed:
                if not (self._waiting and self._pending):
                    self._changed.wait()
                elif (due := self._due()) > 0:
                    self._changed.wait(due)
                else:
                    try:
                        self._save()
                    except BaseException as error:  # the loop raises it
                        self._error = error

    def end_wait(self) -> None:
        """Returns once no save runs beside the loop. Raises the error of such a save."""
        if self._thread is None:
            return
        with self._changed:
            self._waiting = False
            if self._error is not None:
                error, self._error = self._error, None
                raise error

    def flush(self) -> None:
        """Saves a pending cursor, whether or not it is due."""
        if self._store is not None:
            with self._changed:
                self._save()

    def close(self) -> None:
        """Flushes, and ends the thread."""
        try:
            self.flush()
        finally:
            if self._thread is not None:
                with self._changed:
                    self._closed = True
                    self._changed.notify()
                self._thread.join()
                self._thread = None


class AsyncSaver:
    """Saver for AsyncReprise. A store with ordinary methods is called in a thread."""

    def __init__(self, store: AnyCursorStore | None, every: float) -> None:
        self._store, self._every = store, every
        self._pending = ""
        self._last = ""
        self._saved = -1e9
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        return self._store is not None

    async def load(self) -> str:
        if self._store is None:
            return ""
        if inspect.iscoroutinefunction(self._store.load):
            self._last = await self._store.load()
        else:
            self._last = str(await _in_thread(self._store.load))
        return self._last

    async def handled(self, cursor: str) -> None:
        if self._store is None or not cursor or cursor == self._last:
            return
        self._pending = self._last = cursor
        if time.monotonic() - self._saved >= self._every:
            await self._save()

    async def _save(self) -> None:
        cursor, self._pending = self._pending, ""
        if not cursor or self._store is None:
            return
        self._saved = time.monotonic()
        if inspect.iscoroutinefunction(self._store.save):
            await async_finish(self._store.save(cursor))
        else:
            await _in_thread(self._store.save, cursor)

    def begin_wait(self) -> None:
        if self._store is not None and self._pending and self._task is None:
            self._task = asyncio.create_task(self._save_later(self._every - (time.monotonic() - self._saved)))

    async def _save_later(self, due: float) -> None:
        await asyncio.sleep(due)
        await self._save()

    async def end_wait(self) -> None:
        if self._task is None:
            return
        task, self._task = self._task, None
        if not task.done() and self._pending:
            task.cancel()  # it has not begun to save
        try:
            await asyncio.wait((task,))  # a cancellation of this task comes through, that of the other does not
        except asyncio.CancelledError:
            try:
                await asyncio.wait((task,), timeout=LAST_WORD)  # what has begun to save does not outlive the loop
            finally:
                task.cancel()
                task.add_done_callback(_failure)  # the cancellation counts
            raise
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def flush(self) -> None:
        await self._save()

    async def close(self) -> None:
        try:
            await self.end_wait()
        finally:
            await self.flush()


class Background:
    """Work beside a loop, in a thread."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="reprise-receipts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Waits for the end of the work, which has been told to end."""
        self._thread.join()


class AsyncBackground:
    """Work beside a loop, in a task."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.create_task(work())

    async def aclose(self) -> None:
        """Ends the work."""
        self._task.cancel()
        await asyncio.wait((self._task,))


def wait_for(event: threading.Event, timeout: float | None) -> None:
    """Waits until event is set, or for a time."""
    event.wait(timeout)


async def async_wait_for(event: asyncio.Event, timeout: float | None) -> None:
    """Waits until event is set, or for a time."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), timeout)


def check_loop() -> None:
    """Does nothing: sync code runs anywhere."""


def async_check_loop() -> None:
    """Raises RuntimeError in a task of trio. httpx would use trio there, and the waits between connections need asyncio."""
    trio = sys.modules.get("trio")
    try:
        if trio is None or trio.lowlevel.current_task() is None:
            return
    except RuntimeError:  # no task of trio
        return
    raise RuntimeError(
        "AsyncReprise needs asyncio and this is trio: use Reprise in a thread (trio.to_thread.run_sync), or asyncio"
    )


def finish(value: T) -> T:
    """Returns value: sync code has already finished."""
    return value


def _failure(task: asyncio.Task[Any]) -> None:
    """Takes the error of a task that nobody awaits any more, which asyncio would log otherwise."""
    if not task.cancelled():
        task.exception()


async def async_finish(work: Awaitable[T]) -> T:
    """Waits until work has finished, even if the task is cancelled; the cancellation follows."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait((task,), timeout=LAST_WORD)
        task.cancel()
        raise


def in_turn(turn: threading.Lock, batch: list[Publication], send: Callable[[list[Publication]], None]) -> None:
    """Sends batch and passes on the turn."""
    try:
        send(batch)
    finally:
        turn.release()


async def async_in_turn(
    turn: asyncio.Lock, batch: list[Publication], send: Callable[[list[Publication]], Coroutine[Any, Any, None]]
) -> None:
    """Sends batch and passes on the turn. If the task is cancelled, both are still done for the other calls of the batch."""
    task = asyncio.ensure_future(send(batch))
    for one in batch:
        assert one.sent is not None
        one.sent.stop = task.cancel

    def over(_: object) -> None:
        turn.release()
        _failure(task)

    task.add_done_callback(over)
    await asyncio.shield(task)


def off_loop(function: Callable[..., T], *args: Any) -> T:
    """Calls function, which waits for a disk."""
    return function(*args)


async def async_off_loop(function: Callable[..., T], *args: Any) -> T:
    """Calls function, which waits for a disk, in a thread."""
    return await _in_thread(function, *args)


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    return await async_finish(asyncio.to_thread(function, *args))
