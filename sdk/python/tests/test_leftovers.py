"""When a program stops, nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from conftest import Server, until
from scripted import Scripted

from reprise import AsyncReprise, FileCursor, Reprise, RepriseError
from reprise._io import AsyncSaver

FOLLOWED = "for i in $(seq 6000); do echo $i; sleep 0.04; done"


def sockets() -> int:
    """How many sockets this process has open."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
    return count


@pytest.fixture
def running(server: Server) -> str:
    """An execution that runs for a minute, or as long as the server."""
    with Reprise(server.url, server.token) as client:
        return client.start(FOLLOWED).id


def test_break_and_close_free_the_connection(server: Server, running: str, tmp_path: pathlib.Path) -> None:
    with Reprise(server.url, server.token) as client:
        before, threads = sockets(), threading.active_count()
        for _ in client.follow(running, cursors=FileCursor(tmp_path / "cursor")):
            break
        with client.follow(running) as events:
            next(events)
            assert sockets() == before + 1
        with pytest.raises(StopIteration):
            next(events)
        assert (sockets(), threading.active_count()) == (before, threads)


def test_cancelling_a_task_frees_everything(server: Server, running: str, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            before = sockets()
            for place in range(40):
                seen = 0

                async def follow() -> None:
                    nonlocal seen
                    async for _ in client.follow(running, cursors=FileCursor(tmp_path / "cursor")):
                        seen += 1

                task = asyncio.create_task(follow())
                for _ in range(place):
                    await asyncio.sleep(0.002)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await asyncio.sleep(0.05)
            gc.collect()
            await asyncio.sleep(0.05)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert sockets() <= before + 1  # one may wait in the pool

    before = sockets()
    asyncio.run(main())
    assert sockets() == before


def test_leaving_an_async_loop_frees_the_connection(server: Server, running: str) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            before = sockets()
            async with client.follow(running) as events:
                await events.__anext__()
                assert sockets() == before + 1
            assert sockets() == before
            async for _ in client.follow(running):
                break
            for _ in range(1000):  # the loop of asyncio closes the generator
                if sockets() > before:
                    await asyncio.sleep(0.01)
            assert sockets() == before

    asyncio.run(main())


def test_a_timeout_of_the_program_bounds_a_loop(server: Server, running: str) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:

            async def follow() -> None:
                async for _ in client.follow(running):
                    pass

            begun = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(follow(), 0.3)
            assert time.monotonic() - begun < 60

    asyncio.run(main())


def test_a_run_that_is_abandoned_is_cancelled_unless_it_was_named(server: Server) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            ids: list[str] = []
            for name in (None, "named-run", "detached"):
                started = asyncio.Event()

                def note(event: object, started: asyncio.Event = started) -> None:
                    ids.append(getattr(event, "id", ""))
                    started.set()

                options: Any = {} if name is None else {"detach": True} if name == "detached" else {"id": name}
                task = asyncio.create_task(client.run(["sleep", "30"], on_event=note, **options))
                await asyncio.wait_for(started.wait(), 120)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            events = [event async for event in client.follow(ids[0])]
            assert events[-1].object["outcome"] == "cancelled"
            for going in ("named-run", ids[2]):
                assert (await client.show(going)).status == "running"
                await client.cancel(going)

    asyncio.run(main())


def test_ctrl_c_cancels_a_run_of_a_script(server: Server, tmp_path: pathlib.Path) -> None:
    code = (
        "import signal, sys, reprise\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever runs the tests may ignore it
        "with reprise.Reprise(*sys.argv[1:]) as client:\n"
        "    client.run(['sleep', '30'], labels={'by': 'script'}, on_event=lambda e: print(e.object['id'], flush=True))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, server.url, server.token], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as script:  # fmt: skip
        assert script.stdout is not None
        id = script.stdout.readline().strip()
        script.send_signal(2)
        _, errors = script.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors
    with Reprise(server.url, server.token) as client:
        until(lambda: client.show(id).outcome == "cancelled", 120, "the command was not cancelled")


def test_a_refused_start_leaves_nothing(server: Server) -> None:
    before = sockets()
    with Reprise(server.url, server.token) as client, pytest.raises(RepriseError, match="invalid"):
        client.run(["x"], labels={"": "y"})
    assert sockets() == before


def test_a_save_that_has_begun_ends_before_a_cancelled_loop() -> None:
    class Slow:
        async def load(self) -> str:
            return ""

        async def save(self, cursor: str) -> None:
            if cursor == "third":
                began.set()
                await go.wait()
            saved.append(cursor)

    async def main() -> None:
        saver = AsyncSaver(Slow(), 0.01)
        await saver.handled("first")
        saver._saved -= 3600
        await saver.handled("second")
        saver._saved += 3600  # the third is not due yet
        await saver.handled("third")
        saver._saved -= 3600
        saver.begin_wait()
        await began.wait()
        waiting = asyncio.create_task(saver.end_wait())
        await asyncio.sleep(0)  # it waits for the save
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert saved == ["first", "second", "third"]

    saved: list[str] = []
    began, go = asyncio.Event(), asyncio.Event()
    asyncio.run(main())


def test_a_cancelled_write_is_in_doubt() -> None:
    async def main() -> None:
        with Scripted(lambda client: one.silent_after(b"")(client)) as one:
            async with AsyncReprise(one.url, "") as client:
                stdin = client.stdin("x")
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(stdin.write(b"one"), 0.3)
                with pytest.raises(ValueError, match="the failed write"):
                    await stdin.write(b"two")
                one.stopped.set()

    asyncio.run(main())
