"""A task that is cancelled at any of its awaits loses nothing and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any

import pytest
from conftest import Server, until
from scripted import Scripted, block, cursor, end, problem, stream
from test_leftovers import sockets

from reprise import AsyncReprise


class CancelledAt:
    """Awaits a coroutine, and cancels the task when that waits for the nth time."""

    def __init__(self, work: Coroutine[Any, Any, None], place: int) -> None:
        self._work, self._left = work, place

    def __await__(self) -> Generator[Any, Any, None]:
        step = partial(self._work.send, None)
        while True:
            try:
                waits_for = step()
            except StopIteration:
                return
            self._left -= 1
            if self._left == 0:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                step = partial(self._work.send, (yield waits_for))
            except BaseException as error:
                step = partial(self._work.throw, error)


async def cancelled_at(work: Coroutine[Any, Any, None], place: int) -> bool:
    """Runs work in a task. True if it was cancelled, False if it has ended before."""

    async def main() -> None:
        await CancelledAt(work, place)

    task = asyncio.create_task(main())
    await asyncio.wait((task,))
    return task.cancelled()


class Saved:
    """A store of one cursor, whose methods wait."""

    def __init__(self) -> None:
        self.cursor = ""

    async def load(self) -> str:
        await asyncio.sleep(0)
        return self.cursor

    async def save(self, cursor: str) -> None:
        await asyncio.sleep(0)
        self.cursor = cursor
        await asyncio.sleep(0)


def test_a_follow_is_cancelled_at_each_await() -> None:
    busy = problem(503, "shutting_down", True)
    retry = stream(block(2)).replace(b"retry: 1\n", b"retry: 20\n")
    answers = (stream(block(1)), busy, retry, stream(), stream(block(3), end(4)))

    async def one(place: int) -> bool:
        store, handled = Saved(), list[int]()
        with Scripted(*answers) as server:
            before = sockets()
            async with AsyncReprise(server.url, "", min_wait=0.001, max_wait=0.002) as client:

                async def follow() -> None:
                    async for event in client.streams.follow("s", cursors=store, save_every=0):
                        handled.append(event.seq)

                was_cancelled = await cancelled_at(follow(), place)
                assert asyncio.all_tasks() == {asyncio.current_task()}, place
            until(lambda: sockets() == before, 60, f"a connection is left, cancelled at {place}")
        assert handled == [1, 2, 3, 4][: len(handled)], place
        assert store.cursor in ["", *map(cursor, handled)], f"cancelled at {place}: saved before it was handled"
        return was_cancelled

    async def main() -> int:
        place = 1
        while await one(place):
            place += 1
        return place

    assert asyncio.run(main()) > 30


def test_a_run_is_cancelled_at_each_await(server: Server) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            for place in range(1, 13):  # then it waits for a second each

                async def run() -> None:
                    await client.run(["sh", "-c", "echo begun; exec sleep 600"], labels={"test": "cancelled-at"})

                if not await cancelled_at(run(), place):
                    pytest.fail("the command has ended")
                assert asyncio.all_tasks() == {asyncio.current_task()}, place
            begun = (await client.list(labels={"test": "cancelled-at"}, limit=1000)).items
            assert len(begun) > 5
            for x in begun:
                ends = [event async for event in client.follow(x.id)]
                assert ends[-1].object["outcome"] == "cancelled", x.id

    asyncio.run(main())
