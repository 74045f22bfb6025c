"""Files, terminals, keys and held output against a real server, by both clients."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from both import KINDS
from conftest import Server
from proxy import Proxy
from scripted import Scripted, answer
from test_calls import Caller

from reprise import FileChange, FileChangedError, NetworkError, ProblemError

pytestmark = pytest.mark.parametrize("kind", KINDS)

MIB = 1 << 20


@pytest.fixture
def files_server(binary: str, tmp_path: pathlib.Path) -> Iterator[Server]:
    """A server with the root work, and streams in memory."""
    (tmp_path / "root").mkdir()
    one = Server(binary, tmp_path / "data", "--files", f"work={tmp_path / 'root'}", "--store", "memory:")
    yield one
    one.stop()


def test_upload_and_download_over_cuts(files_server: Server, kind: str, tmp_path: pathlib.Path) -> None:
    data = random.Random(1).randbytes(9 * MIB)
    (tmp_path / "local").write_bytes(data)
    (tmp_path / "local").chmod(0o640)
    cuts = iter([1_500_000 * (n % 4) for n in range(8)])
    proxy = Proxy(files_server.port, lambda: next(cuts, None), reset=True)
    with proxy, Caller(kind, proxy.url, files_server.token, give_up=60) as call:
        files = call.client.files
        seen: list[int] = []
        file = call(files.upload, tmp_path / "local", "work/deep/data", on_progress=lambda done, _: seen.append(done))
        assert (file.path, file.size, file.mode, seen[-1]) == ("work/deep/data", len(data), "0640", len(data))
        assert (tmp_path / "root/deep/data").read_bytes() == data
        assert call(files.read, "work/deep/data") == data
        call(files.download, "work/deep/data", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == data and (tmp_path / "copy").stat().st_mode & 0o777 == 0o640
        with pytest.raises(FileExistsError):
            call(files.download, "work/deep/data", tmp_path / "copy", overwrite=False)
        assert proxy.cuts >= 4
        call(files.upload, b"", "work/empty")
        assert call(files.read, "work/empty") == b""
        with pytest.raises(ProblemError) as refused:
            call(files.upload, b"x", "work/empty", overwrite=False)
        assert refused.value.code == "conflict"


def test_a_transfer_goes_on_with_what_was_there(files_server: Server, kind: str, tmp_path: pathlib.Path) -> None:
    data = random.Random(2).randbytes(9 * MIB)
    with Caller(kind, files_server.url, files_server.token) as call:
        seen: list[int] = []

        def stop(done: int, _: int) -> None:
            if done >= 4 * MIB:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            call(call.client.files.upload, data, "work/a", on_progress=stop)
        files_server.kill()
        files_server.start()
        call(call.client.files.upload, data, "work/a", on_progress=lambda done, _: seen.append(done))
        assert seen[0] >= 4 * MIB

        with pytest.raises(KeyboardInterrupt):
            call(call.client.files.download, "work/a", tmp_path / "a", on_progress=stop)
        assert not (tmp_path / "a").exists()
        seen.clear()
        call(call.client.files.download, "work/a", tmp_path / "a", on_progress=lambda done, _: seen.append(done))
        assert seen[0] >= 4 * MIB and (tmp_path / "a").read_bytes() == data
        assert not list(tmp_path.glob(".reprise-*"))


def test_a_file_that_changes_is_an_error(files_server: Server, kind: str, tmp_path: pathlib.Path) -> None:
    with Caller(kind, files_server.url, files_server.token) as call:
        call(call.client.files.upload, b"a" * 5 * MIB, "work/a")

        def change(done: int, _: int) -> None:
            if done > 0:
                (tmp_path / "root/a").write_bytes(b"b" * 5 * MIB)

        with pytest.raises(FileChangedError) as raised:
            call(call.client.files.download, "work/a", tmp_path / "a", on_progress=change)
        assert raised.value.code == "file_changed"
        assert not list(tmp_path.glob(".reprise-*")) and not (tmp_path / "a").exists()
        local = tmp_path / "local"
        local.write_bytes(b"c" * 5 * MIB)

        def shorten(done: int, _: int) -> None:
            if done > 0:
                os.truncate(local, 10)

        with pytest.raises(FileChangedError):
            call(call.client.files.upload, local, "work/b", on_progress=shorten)


def test_list_search_move_and_remove(files_server: Server, kind: str) -> None:
    with Caller(kind, files_server.url, files_server.token) as call:
        files = call.client.files
        call(files.make_directory, "work/src/deep", parents=True)
        call(files.upload, b"one\nfunc main\n", "work/src/main.go")
        call(files.upload, b"two", "work/src/deep/b.txt")
        assert [file.path for file in call(files.list).items] == ["work"]
        first = call(files.list, "work/src", limit=1)
        assert [file.path for file in first.items] == ["work/src/deep"]
        assert [f.path for f in call(files.list, "work/src", cursor=first.next_cursor).items] == ["work/src/main.go"]
        (found,) = call(files.search, "work", name="*.go", text="func main").items
        assert (found.path, found.line, found.text) == ("work/src/main.go", 2, "func main")
        assert call(files.move, "work/src/main.go", "work/src/x.go").path == "work/src/x.go"
        with pytest.raises(ProblemError, match="conflict"):
            call(files.move, "work/src/x.go", "work/src/deep/b.txt")
        call(files.move, "work/src/x.go", "work/src/deep/b.txt", overwrite=True)
        assert call(files.set_mode, "work/src/deep/b.txt", "0600").mode == "0600"
        shown = call(files.show, "work/src/deep/b.txt", checksum=True)
        assert len(shown.sha256) == 64 and shown.modified is not None
        with pytest.raises(ProblemError, match="conflict"):
            call(files.remove, "work/src")
        call(files.remove, "work/src", recursive=True)
        with pytest.raises(ProblemError, match="not_found"):
            call(files.show, "work/src")


def test_a_watch_tells_each_change_once(files_server: Server, kind: str) -> None:
    cuts = iter([400 * (n % 4) for n in range(12)])
    proxy = Proxy(files_server.port, lambda: next(cuts, None))
    with proxy, Caller(kind, proxy.url, files_server.token) as call:
        files = call.client.files
        watch = call(files.watch, "work", recursive=True)
        names = [f"work/f{n}" for n in range(5)]
        for name in names:
            call(files.upload, name.encode(), name)
        loop = files.changes(watch)
        seen: list[str] = []
        while len(seen) < len(names):
            event = call(loop.__anext__) if kind == "async" else next(loop)
            assert event.type == "created"
            seen.append(FileChange.of(event).path)
        call(getattr(loop, "aclose", None) or loop.close)
        assert sorted(seen) == names and proxy.cuts >= 3
        call(files.unwatch, watch.id)
        with pytest.raises(ProblemError, match="not_found"):
            again = files.changes(watch.id)
            call(again.__anext__) if kind == "async" else next(again)


def test_a_terminal_is_resized_and_shown(files_server: Server, kind: str) -> None:
    with Caller(kind, files_server.url, files_server.token) as call:
        client = call.client
        id = call(client.start, ["cat"], tty={"cols": 40, "rows": 10}, stdin_open=True).id
        for writer in ("ann", "bob"):
            stdin = client.stdin(id, writer=writer)
            call(stdin.write, f"{writer}\n")
            assert stdin.offset == 4
        page = call(client.page, id, types=["stdout"], wait="10s")
        while "".join(event.text for event in page.events).count("bob") < 2:
            page = call(client.page, id, types=["stdout"])
        call(client.resize, id, 100, 30)
        assert call(client.show, id).tty == {"cols": 100, "rows": 30}
        screen = call(client.screen, id)
        assert (screen.cols, screen.rows, screen.text.split("\n")[0]) == (100, 30, "ann")
        assert call(client.screen, id, cols=20, rows=5).cols == 20
        call(client.cancel, id)


def test_held_output_waits_for_a_slow_program(files_server: Server, kind: str) -> None:
    with Caller(kind, files_server.url, files_server.token) as call:
        looks: list[int] = []

        def wait(event: Any) -> None:
            if event.type == "stdout" and not looks:
                with Caller("sync", files_server.url, files_server.token) as other:
                    while len(looks) < 2 or looks[-1] != looks[-2]:
                        (job,) = other(other.client.list).items
                        looks.append(job.bytes["stdout"])
                        threading.Event().wait(0.5)

        result = call(call.client.run, "seq 4000000", retention={"max_bytes": MIB}, hold=60, on_event=wait)
        assert len(result.stdout) == 30_888_896 and looks[-1] < len(result.stdout)
        with pytest.raises(ValueError, match="run"):
            call(call.client.start, "true", hold=60)


def test_the_bytes_of_a_channel_over_cuts(files_server: Server, kind: str) -> None:
    cuts = iter([30_000 * (n % 3) for n in range(9)])
    proxy = Proxy(files_server.port, lambda: next(cuts, None), reset=True)
    with proxy, Caller(kind, proxy.url, files_server.token, give_up=60) as call:
        job = call(call.client.start, "seq 20000; printf '\\377'; sleep 0.2; echo last; echo err >&2")
        want = b"".join(b"%d\n" % n for n in range(1, 20001)) + b"\xfflast\n"
        assert collect(call, call.client.output(job.id, follow=True)) == want
        assert collect(call, call.client.output(job.id, offset=len(want) - 5)) == b"last\n"
        assert collect(call, call.client.output(job.id, "stderr")) == b"err\n"
        assert proxy.cuts >= 3
        with pytest.raises(ProblemError, match="not_found"):
            collect(call, call.client.output("nobody"))


def collect(call: Caller, chunks: Any) -> bytes:
    """All that a generator of either kind yields."""

    async def rest() -> bytes:
        return b"".join([chunk async for chunk in chunks])

    return call(rest) if hasattr(chunks, "__anext__") else b"".join(chunks)


def test_keys(files_server: Server, kind: str) -> None:
    with Caller(kind, files_server.url, files_server.token) as call:
        keys = call.client.keys
        made = call(keys.create, "ci", ["read"], ttl="1h")
        assert made.key and made.key not in repr(made) and made.created is not None
        with Caller(kind, files_server.url, made.key) as reader:
            reader(reader.client.list)
            with pytest.raises(ProblemError, match="forbidden"):
                reader(reader.client.start, "true")
        assert [key.id for key in call(keys.list)] == [made.id]
        shown = call(keys.show, made.id)
        assert (shown.name, shown.scopes, shown.key, shown.revoked) == ("ci", ["read"], "", None)
        rotated = call(keys.rotate, made.id)
        with Caller(kind, files_server.url, made.key) as reader, pytest.raises(ProblemError, match="unauthenticated"):
            reader(reader.client.list)
        call(keys.revoke, made.id)
        with Caller(kind, files_server.url, rotated.key) as reader, pytest.raises(ProblemError, match="unauthenticated"):
            reader(reader.client.list)


def test_a_key_is_not_asked_for_twice(kind: str) -> None:
    with Scripted(lambda client: client.close()) as one, Caller(kind, one.url, "") as call:
        with pytest.raises(NetworkError) as raised:
            call(call.client.keys.create, "ci", ["read"])
        assert raised.value.tries == 1


def test_a_move_that_may_have_arrived_is_not_sent_again(kind: str) -> None:
    made = answer(200, "{}", "application/json")
    for method, arguments, options, requests in (
        ("move", ("work/a", "work/b"), {}, 1),
        ("make_directory", ("work/a",), {}, 1),
        ("make_directory", ("work/a",), {"parents": True}, 2),
        ("set_mode", ("work/a", "0600"), {}, 2),
    ):
        with Scripted(b"", made) as one, Caller(kind, one.url, "") as call:
            with contextlib.suppress(NetworkError):
                call(getattr(call.client.files, method), *arguments, **options)
            assert len(one.heads) == requests, method
