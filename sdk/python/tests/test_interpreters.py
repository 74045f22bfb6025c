"""Interpreters that remember, and files that are kept with executions, against a real server, by both clients."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import pytest
from both import KINDS
from conftest import Server
from proxy import Proxy
from scripted import Scripted, answer
from test_calls import Caller

from reprise import Event, ProblemError, ProtocolError

pytestmark = pytest.mark.parametrize("kind", KINDS)

#: What is declared, what asks for it, the output, and the value. bash has output and exit codes alone.
LANGUAGES = {
    "bash": ("x=41; cd /", "echo $((x + 1)) $PWD", "42 /\n", None),
    "python": ("x = 41", "print('out'); x + 1", "out\n", "42"),
    "javascript": ("var x = 41", "console.log('out'); x + 1", "out\n", "42"),
}
WAITS = {
    "bash": "echo go; sleep 600",
    "python": "print('go', flush=True)\nimport time; time.sleep(600)",
    "javascript": "console.log('go'); await new Promise(() => setInterval(() => {}, 1000))",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_remembers_fails_is_interrupted_and_forgets(server: Server, kind: str, language: str) -> None:
    declare, ask, out, value = LANGUAGES[language]
    with Caller(kind, server.url, server.token) as call:
        interpreters = call.client.interpreters
        one = call(interpreters.open, language, idle_timeout=600, labels={"a": "b"})
        assert (one.language, one.labels) == (language, {"a": "b"})
        again = call(interpreters.open, language, id=one.id, idle_timeout=600, labels={"a": "b"})
        assert again.id == one.id and one.id in [each.id for each in call(interpreters.list)]

        assert call(interpreters.run, one.id, declare).returncode == 0
        shown = call(interpreters.run, one.id, ask, timeout=300)
        assert (shown.stdout, shown.stderr, shown.returncode, shown.outcome) == (out, "", 0, "exited")
        assert (shown.result.mime["text/plain"] if shown.result else None) == value
        assert call(interpreters.show, one.id).runs == 2

        if language != "bash":
            failed = call(
                interpreters.run, one.id, "raise ValueError('no')" if language == "python" else "throw new TypeError('no')"
            )
            name = "ValueError" if language == "python" else "TypeError"
            assert (failed.exception.name, failed.exception.value, failed.returncode) == (name, "no", 1)
            assert failed.exception.traceback

        running = call(call.client.start, interpreter=one.id, code=WAITS[language])
        assert _output(call, running.id, "go")
        call(interpreters.interrupt, one.id)
        assert _ended(call, running.id).exit_code == 130

        assert call(interpreters.clear, one.id).returncode == 0
        after = call(interpreters.run, one.id, ask)
        if language == "bash":
            assert after.stdout.startswith("1 ")
        else:
            assert after.exception.name in ("NameError", "ReferenceError")
        call(interpreters.remove, one.id)
        for method, *args in ((interpreters.show, one.id), (interpreters.run, one.id, ask)):
            with pytest.raises(ProblemError) as refused:
                call(method, *args)
            assert refused.value.code == "not_found"


def _output(call: Caller, id: str, text: str) -> bool:
    """Whether the execution writes a text before it ends."""
    cursor = ""
    while True:
        page = call(call.client.page, id, after=cursor, wait=20)
        if any(event.type == "stdout" and text in event.text for event in page.events):
            return True
        if page.ended and not page.has_more:
            return False
        cursor = page.next_cursor


def _ended(call: Caller, id: str) -> Any:
    """The end of an execution."""
    cursor = ""
    while True:
        page = call(call.client.page, id, after=cursor, wait=20)
        for event in page.events:
            if event.type == "end":
                return event
        cursor = page.next_cursor


def test_values_by_mime_type_over_cuts(server: Server, kind: str) -> None:
    code = """
class Page:
  def __init__(self, n): self.n = n
  def _repr_html_(self): return f"<p>{self.n}</p>"
for n in range(50): display(Page(n)); print(n)
Page("last")"""
    cuts = iter([3000] * 8)
    proxy = Proxy(server.port, lambda: next(cuts, None), reset=True)
    with proxy, Caller(kind, proxy.url, server.token, give_up=60) as call:
        interpreters = call.client.interpreters
        one = call(interpreters.open, "python")
        got = call(interpreters.run, one.id, code)
        assert [shown.mime["text/html"] for shown in got.displays] == [f"<p>{n}</p>" for n in range(50)]
        assert got.stdout == "".join(f"{n}\n" for n in range(50))
        assert got.result.mime["text/html"] == "<p>last</p>"
        assert proxy.cuts >= 2
        call(interpreters.remove, one.id)


def collected(pieces: Any) -> Any:
    """The pieces of a generator of either kind."""

    async def collect() -> list[bytes]:
        return [piece async for piece in pieces]

    return collect() if hasattr(pieces, "__anext__") else list(pieces)


def test_artifacts_over_cuts(server: Server, kind: str, tmp_path: pathlib.Path) -> None:
    command = 'mkdir -p out/deep; head -c 3000000 /dev/urandom > "out/a b.bin"; : > out/deep/empty; sha256sum "out/a b.bin"'
    cuts = iter([500_000] * 4)
    proxy = Proxy(server.port, lambda: next(cuts, None), reset=True)
    with proxy, Caller(kind, proxy.url, server.token, give_up=60) as call:
        events: list[Event] = []
        run = call(call.client.run, command, cwd=str(tmp_path), artifacts=["out", "missing"], text=True, on_event=events.append)
        shown = call(call.client.show, run.id)
        assert [(one["path"], one["size"]) for one in shown.artifacts] == [("out/a b.bin", 3_000_000), ("out/deep/empty", 0)]
        assert "missing" in shown.artifact_notes[0] and events[-1].type == "end"
        data = call(call.client.artifact, run.id, "out/a b.bin")
        pieces = call(collected, call.client.iter_artifact(run.id, "out/a b.bin"))
        assert b"".join(pieces) == data and len(pieces) > 10
        assert data == (tmp_path / "out/a b.bin").read_bytes()
        assert hashlib.sha256(data).hexdigest() == shown.artifacts[0]["sha256"] == run.stdout.split()[0]
        assert call(call.client.artifact, run.id, "out/deep/empty") == b""
        assert proxy.cuts >= 3
        with pytest.raises(ProblemError) as refused:
            call(call.client.artifact, run.id, "out/none")
        assert refused.value.code == "not_found"


def test_an_artifact_with_another_checksum_is_refused(kind: str) -> None:
    sent = answer(200, "abc", "application/octet-stream", f'ETag: "{"0" * 64}"\r\n')
    with Scripted(sent) as scripted, Caller(kind, scripted.url, "t") as call, pytest.raises(ProtocolError):
        call(call.client.artifact, "a", "b")
    with Scripted(sent) as scripted, Caller(kind, scripted.url, "t") as call, pytest.raises(ProtocolError):
        call(collected, call.client.iter_artifact("a", "b"))
