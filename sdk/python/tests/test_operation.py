"""Operations: finished steps are not done again, whatever dies in between."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Server

from reprise import AsyncReprise, ProblemError, Reprise, RepriseError, UnknownStepError


def counted(calls: list[str], name: str, result: Any = None) -> Callable[[], Any]:
    def function() -> Any:
        calls.append(name)
        return result

    return function


def test_finished_steps_are_not_done_again(server: Server) -> None:
    calls: list[str] = []
    with Reprise(server.url, server.token) as client:
        with pytest.raises(ZeroDivisionError), client.operation("import/1") as op:
            assert op.step("fetch", counted(calls, "fetch", {"rows": [1, 2]})) == {"rows": [1, 2]}
            op.step("store", lambda: 1 / 0)
        with client.operation("import/1") as op:
            assert op.step("fetch", counted(calls, "fetch")) == {"rows": [1, 2]}
            assert op.step("store", counted(calls, "store", "ok")) == "ok"
            assert op.step("store", counted(calls, "store")) == "ok"
            assert not op.done
    with Reprise(server.url, server.token) as client, client.operation("import/1") as op:
        assert op.done
        assert op.step("store", counted(calls, "store")) == "ok"
        with pytest.raises(RepriseError, match="no step 'other'"):
            op.step("other", counted(calls, "other"), idempotent=True)
        types = [event.type for event in client.streams.page(op.stream, limit=100).events]
    assert calls == ["fetch", "store"]
    assert types == ["attempt", "step_began", "step_done", "step_began", "step_failed", "failed",
                     "attempt", "step_began", "step_done", "end"]  # fmt: skip


PROGRAM = """
    import os, sys
    from reprise import Reprise
    with Reprise() as client, client.operation("dies") as op:
        op.step("first", lambda: print("first", flush=True))
        op.step("second", lambda: os._exit(9))
"""


def test_process_that_dies_in_a_step(server: Server) -> None:
    calls: list[str] = []
    variables = {**os.environ, "REPRISE_URL": server.url, "REPRISE_TOKEN": server.token}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    died = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert (died.returncode, died.stdout) == (9, "first\n")
    with Reprise(server.url, server.token) as client:
        with pytest.raises(UnknownStepError) as unknown, client.operation("dies") as op:
            op.step("first", counted(calls, "first"))
            op.step("second", counted(calls, "second"))
        assert (unknown.value.step, unknown.value.attempt) == ("second", 1)
        with client.operation("dies") as op:
            with pytest.raises(UnknownStepError):
                op.step("second", counted(calls, "second"))
            op.mark_not_done("second")
            assert op.step("second", counted(calls, "second", 2)) == 2
    assert calls == ["second"]


def test_idempotent_step_is_repeated_and_timeouts_are_unknown(server: Server) -> None:
    def slow() -> None:
        raise TimeoutError

    calls: list[str] = []
    with Reprise(server.url, server.token) as client:
        with pytest.raises(TimeoutError), client.operation("slow") as op:
            op.step("send", slow)
        with client.operation("slow") as op:
            with pytest.raises(UnknownStepError):
                op.step("send", counted(calls, "send"))
            assert op.step("send", counted(calls, "send", True), idempotent=True) is True
            op.mark_done("other", "by hand")
            assert op.step("other", counted(calls, "other")) == "by hand"
    assert calls == ["send"]


def test_newest_attempt_counts(server: Server) -> None:
    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as one, AsyncReprise(server.url, server.token) as two:
            entered, go_on = asyncio.Event(), asyncio.Event()

            async def wait() -> str:
                entered.set()
                await go_on.wait()
                return "too late"

            async def first() -> None:
                async with one.operation("twice") as op:
                    await op.step("a", wait)

            async def value() -> str:
                return "taken over"

            task = asyncio.create_task(first())
            await entered.wait()
            async with two.operation("twice") as op:
                with pytest.raises(UnknownStepError):
                    await op.step("a", value)
                go_on.set()
                with pytest.raises(ProblemError) as fenced:
                    await task
                assert fenced.value.code == "conflict"
                assert await op.step("a", value, idempotent=True) == "taken over"

    asyncio.run(main())


def test_attempts_of_many_clients(server: Server) -> None:
    """Of attempts that begin at once, one does the step, and those of one client wait for each other."""

    async def main() -> None:
        calls: list[int] = []
        async with AsyncReprise(server.url, server.token) as one, AsyncReprise(server.url, server.token) as two:

            async def attempt(n: int) -> Any:
                async def call() -> int:
                    calls.append(n)
                    await asyncio.sleep(0)
                    return n

                async with (one, two)[n % 2].operation("many") as op:
                    return await op.step("a", call)

            results = await asyncio.gather(*(attempt(n) for n in range(10)), return_exceptions=True)
            refused = [error for error in results if isinstance(error, BaseException)]
            assert all(isinstance(error, (UnknownStepError, ProblemError)) for error in refused), refused
            async with one.operation("many") as op:
                if op.done:
                    assert len(calls) == 1
                    assert {result for result in results if isinstance(result, int)} <= set(calls)
            assert len(calls) <= 2  # the second one only where the first was superseded before its step began

    asyncio.run(main())
