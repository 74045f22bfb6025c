"""Jobs that are continued after their last finished step."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from .. import _wire
from .._operation import MAX_ERROR, MAX_TRIES, AsyncStepFunction, Record, T
from ..errors import ProblemError, RepriseError
from .http import AsyncTransport
from .producer import AsyncProducer
from .streams import AsyncStreams


class AsyncOperation:
    """A job under a key that is done in named steps, and is continued after the last finished one if its process dies:

        async with client.operation("import/42") as op:
            rows = await op.step("fetch", fetch)
            await op.step("store", lambda: store(rows), idempotent=True)

    The body is run again as a whole; the function of a finished step is not called again, and its recorded result is
    returned. When the body is left without an error, the operation is done: the same key returns the recorded results.

    The newest attempt counts: once another process has entered the same key, steps of this one are refused with the code
    "conflict". Attempts of one client wait for each other.
    """

    def __init__(
        self, transport: AsyncTransport, turns: WeakValueDictionary[str, asyncio.Lock], key: str, keep: _wire.Duration
    ) -> None:
        self._transport, self._keep = transport, keep
        #: The key, and the stream of the record, which can be followed.
        self.key: str = key
        self.stream: str = f"operations/{key}"
        self._turn = turns.setdefault(key, asyncio.Lock())
        self._record = Record()
        self._producer: AsyncProducer[Any] = AsyncProducer(transport, self.stream)
        self._number = 0

    @property
    def done(self) -> bool:
        """Whether an earlier attempt has finished the operation: all steps return what was recorded."""
        return self._record.done

    async def __aenter__(self) -> AsyncOperation:
        await self._turn.acquire()
        try:
            await self._enter()
        except BaseException:
            self._turn.release()
            raise
        return self

    async def _enter(self) -> None:
        await AsyncStreams(self._transport).create(self.stream, retention={"max_age": self._keep})
        for _ in range(MAX_TRIES):
            self._record, self._number = Record(), 0
            await self._read()
            if self.done:
                return
            id = secrets.token_hex(16)
            self._producer = AsyncProducer(self._transport, self.stream, "operation", self._record.attempts + 1)
            try:
                await self._publish("attempt", {"id": id})
            except ProblemError as error:
                if error.code not in ("conflict", "stream_ended"):
                    raise
                continue  # another process was faster
            await self._read()
            if self._record.newest == id:
                return
        raise RepriseError(f"operation {self.key}: other processes enter it again and again")

    async def _read(self) -> None:
        """Reads what is new in the record."""
        streams = AsyncStreams(self._transport)
        while True:
            page = await streams.page(self.stream, after=self._record.cursor, limit=1000)
            for event in page.events:
                self._record.apply(event)
            if not page.has_more:
                return

    async def _publish(self, type: str, data: dict[str, Any]) -> None:
        await self._producer.publish(type, data, number=self._number)
        self._number += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.done:
                return
            if error is None:
                await self._producer.end("completed", number=self._number)
                return
            with suppress(RepriseError):
                await self._publish("failed", {"error": repr(error)[:MAX_ERROR]})
        finally:
            self._turn.release()

    async def step(self, name: str, function: AsyncStepFunction[T], *, idempotent: bool = False) -> T:
        """Calls a function once for the operation, and returns its result, a JSON value, which is recorded. If the step was
        done before, returns the recorded result and calls nothing.

        An error of the function is recorded as the failure of the step; the next attempt calls it again. A step that has
        begun and of which neither a result nor a failure is recorded raises UnknownStepError: its process has died, or its
        function has timed out or was cancelled, and the step may have taken effect. With idempotent it is called again. Find
        out otherwise what has happened, and call mark_done or mark_not_done.
        """
        if name in self._record.results:
            return self._record.results[name]  # type: ignore[no-any-return]
        if self.done or not idempotent:
            self._record.check(self.key, name)
        await self._publish("step_began", {"step": name})
        self._record.began[name] = self._record.attempts
        try:
            result = await function()
        except TimeoutError:
            raise
        except Exception as error:
            await self._publish("step_failed", {"step": name, "error": repr(error)[:MAX_ERROR]})
            del self._record.began[name]
            raise
        await self.mark_done(name, result)
        return result

    async def mark_done(self, name: str, result: Any = None) -> None:
        """Records that a step has taken effect, with its result."""
        await self._publish("step_done", {"step": name, "result": result})
        self._record.began.pop(name, None)
        self._record.results[name] = result

    async def mark_not_done(self, name: str) -> None:
        """Records that a step of which it was unknown has not taken effect: it is called again."""
        await self._publish("step_failed", {"step": name, "error": "it took no effect"})
        self._record.began.pop(name, None)
