"""Interpreters that keep their state between runs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import _wire
from ..events import Event
from ..models import CodeException, CodeResult, Interpreter, Shown
from .http import AsyncTransport

if TYPE_CHECKING:
    from ..options import Access, Limits, StartOptions
    from .client import AsyncReprise


class AsyncInterpreters:
    """`client.interpreters`: processes for bash, Python and JavaScript that keep variables and definitions from run to run."""

    def __init__(self, transport: AsyncTransport, client: AsyncReprise) -> None:
        self._transport, self._client = transport, client

    async def open(
        self,
        language: str,
        *,
        id: str = "",
        session: str = "",
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        idle_timeout: _wire.Duration = "",
        timeout: _wire.Duration = "",
        grace: _wire.Duration = "",
        limits: Limits | None = None,
        isolation: str = "",
        access: Access | None = None,
    ) -> Interpreter:
        """Starts an interpreter. It retries after a lost connection and starts only one, because every request carries an id.

        language: "bash", "javascript" or "python".
        idle_timeout: ends the interpreter after this time without code. At most the limit of the server.
        timeout: ends the interpreter after this total time.
        grace: how long cancelled code may take to end before the interpreter is killed.
        """
        spans = {"idle_timeout": idle_timeout, "timeout": timeout, "grace": grace}
        members: dict[str, Any] = {
            "id": id or secrets.token_hex(16),
            "session": session,
            "language": language,
            "cwd": cwd,
            "env": dict(env or {}),
            "labels": dict(labels or {}),
            "limits": dict(limits or {}),
            "isolation": isolation,
            "access": dict(access or {}),
            **{name: _wire.duration_text(span) if span else "" for name, span in spans.items()},
        }
        if cpu_time := members["limits"].get("cpu_time"):
            members["limits"]["cpu_time"] = _wire.duration_text(cpu_time)
        body = {name: value for name, value in members.items() if value}
        request = _wire.json_request(f"open interpreter {body['id']}", "POST", "/v1/interpreters", body)
        return Interpreter._read(await self._transport.call(request))

    async def list(self) -> list[Interpreter]:
        """Returns all kept interpreters, newest first."""
        answer = await self._transport.call(_wire.Request("list interpreters", "GET", "/v1/interpreters"))
        return [Interpreter._read(one) for one in answer["interpreters"]]

    async def show(self, id: str) -> Interpreter:
        """Returns the state of an interpreter."""
        return Interpreter._read(await self._transport.call(_request("show", "GET", id)))

    async def run(self, id: str, code: str, *, execution: str = "", timeout: _wire.Duration = "") -> CodeResult:
        """Runs code to its end, once, over connections that break, and returns its result.

        An interpreter runs one piece of code at a time; further code is refused with the code "conflict". Output that the
        server no longer keeps raises a GapError. If this call is abandoned, the code is interrupted. To get the events as they
        arrive, pass the options `interpreter`, `code` and `on_event` to `Reprise.run`.

        execution: the id of the execution of the code. Used again, it attaches to that execution. Default: an unguessable id.
        timeout: interrupts the code after this time.
        """
        options: StartOptions = {"interpreter": id, "code": code}
        if execution:
            options["id"] = execution
        if timeout:
            options["timeout"] = timeout
        return await self._finish(options)

    async def clear(self, id: str) -> CodeResult:
        """Deletes all definitions, and restores the first directory and environment."""
        return await self._finish({"interpreter": id, "clear": True})

    async def interrupt(self, id: str) -> None:
        """Interrupts the running code, but not the interpreter. Without running code it does nothing."""
        await self._transport.call(_request("interrupt", "POST", id, "/interrupt", empty=True))

    async def remove(self, id: str) -> None:
        """Ends and removes an interpreter. The executions of its code are kept."""
        await self._transport.call(_request("remove", "DELETE", id, empty=True))

    async def _finish(self, options: StartOptions) -> CodeResult:
        shown: dict[str, Any] = {"result": None, "exception": None}
        displays: list[Shown] = []

        def take(event: Event) -> None:
            if event.type == "display":
                displays.append(Shown._read(event.data))
            elif event.type == "result":
                shown["result"] = Shown._read(event.data)
            elif event.type == "exception":
                shown["exception"] = CodeException._read(event.data)

        run = await self._client.run(text=True, on_event=take, **options)
        return CodeResult(
            run.id, run.stdout, run.stderr, shown["result"], displays, shown["exception"], run.returncode, run.outcome
        )


def _request(verb: str, method: str, id: str, rest: str = "", empty: bool = False) -> _wire.Request:
    return _wire.Request(f"{verb} interpreter {id}", method, _wire.named_path("interpreters", id, rest), empty=empty)
