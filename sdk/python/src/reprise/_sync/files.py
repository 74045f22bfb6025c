# Made by tools/unasync.py of ../_async/files.py: change that file.
"""Files of the server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Callable, Sequence
from contextlib import closing
from typing import Any, Literal

from .. import _requests, _wire
from .._flow import Drop, FollowOptions
from .._io import off_loop, sleep
from .._local import Part, Source
from ..cursors import CursorStore
from ..errors import FileChangedError, NetworkError, ProblemError, ProtocolError, RepriseError
from ..models import FileInfo, Listing, Watch
from .follow import Follow
from .http import Transport, next_chunk
from .streams import flow_of

_FILES = "/v1/files"
#: What is sent in one request. Of one that is cut off the server keeps what it has got.
_PIECE = 4 << 20
#: How often the server may name an offset that is not ahead before that is an error.
_SETBACKS = 5
#: The bytes a second at which a slow server reads for their checksum.
_SUM_RATE = 50e6

Progress = Callable[[int, int], None]


class Files:
    """`client.files`: the files that a server with `--files` gives. A path begins with the name of a root:
    "work/src/main.go"."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, path: str = "", *, limit: int | None = None, cursor: str = "") -> Listing[FileInfo]:
        """Returns one page of a directory, in the order of names; without a path, of the roots."""
        return self._page(f"list {path or 'the roots'}", "", path, limit, cursor)

    def search(
        self, path: str, *, name: str = "", text: str = "", limit: int | None = None, cursor: str = ""
    ) -> Listing[FileInfo]:
        """Returns one page of what is below a directory. A page may be empty although there is a next one.

        name: a pattern for the last segment of a path, such as "*.go".
        text: what a line has to contain.
        """
        return self._page(f"search {path}", "/search", path, limit, cursor, ("name", name), ("text", text))

    def show(self, path: str, *, checksum: bool = False) -> FileInfo:
        """Returns one entry; with checksum, its SHA-256 too, for which a link is followed."""
        return self._stat(f"show {path}", path, checksum)

    def make_directory(self, path: str, *, mode: str = "", parents: bool = False) -> FileInfo:
        """Makes a directory; with parents those above it too, and one that is there is no conflict."""
        body: dict[str, Any] = {"path": path, "parents": parents}
        if mode:
            body["mode"] = mode
        return self._change(f"make directory {path}", "/directory", body)

    def move(self, source: str, target: str, *, overwrite: bool = False) -> FileInfo:
        """Gives a file or directory another path in its root. A file that is there is replaced with overwrite alone."""
        return self._change(f"move {source}", "/move", {"from": source, "to": target, "overwrite": overwrite})

    def set_mode(self, path: str, mode: str) -> FileInfo:
        """Sets the permissions, in octal: "0644"."""
        return self._change(f"set the mode of {path}", "/permissions", {"path": path, "mode": mode})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or a directory; with recursive with everything in it. What is not there is removed already."""
        query = [("path", path), *([("recursive", "true")] if recursive else [])]
        self._transport.call(_wire.Request(f"remove {path}", "DELETE", _FILES, query, empty=True))

    def upload(
        self,
        local: bytes | bytearray | memoryview | str | os.PathLike[str],
        path: str,
        *,
        mode: str = "",
        overwrite: bool = True,
        on_progress: Progress | None = None,
    ) -> FileInfo:
        """Copies a file of this machine, or bytes, to a path, where it appears when all of it has arrived.

        It goes on through lost connections and restarts of the server; called again after an error, or by another program,
        it goes on with what has arrived before. Raises FileChangedError if the local file is changed meanwhile.

        mode: the permissions in octal. Default: those of the local file, "0644" for bytes.
        overwrite: whether a file that is there is replaced; the error has the code "conflict" otherwise.
        on_progress: is told how many bytes are across, of how many.
        """
        source = off_loop(Source, local)
        try:
            return self._upload(source, path, mode or source.mode, overwrite, on_progress or _ignore)
        finally:
            off_loop(source.close)

    def _upload(self, source: Source, path: str, mode: str, overwrite: bool, on_progress: Progress) -> FileInfo:
        op, size = f"upload {path}", source.size
        name = [("path", path), ("size", str(size)), ("sha256", source.sha256)]
        at = self._transport.call(_wire.Request(op, "GET", _FILES + "/upload", name, patient=True))
        if at["complete"] and overwrite:
            on_progress(size, size)
            return FileInfo._read(at["file"])
        offset, setbacks = int(at["offset"]), 0
        more = [("mode", mode)] if mode else []
        more += [("parents", "true"), ("overwrite", "true" if overwrite else "false")]
        while True:
            on_progress(offset, size)
            piece = off_loop(source.read, offset, min(_PIECE, size - offset))
            query = [*name, *more, ("offset", str(offset))]
            request = _wire.Request(op, "PUT", _FILES + "/content", query, {"Content-Type": _wire.BYTES}, piece)
            request.timeout = self._transport.config.timeout + (size / _SUM_RATE if offset + len(piece) == size else 0)
            try:
                at = self._transport.call(request)
            except ProblemError as error:
                if error.code == "invalid" and error.field == "sha256":
                    raise _changed(op) from error
                there = error.offset
                setbacks += there is not None and there <= offset
                if there is None or there > size or setbacks > _SETBACKS:
                    raise
                offset = there  # a restart, or an answer that was lost
                continue
            offset = int(at["offset"])
            if at["complete"]:
                on_progress(size, size)
                return FileInfo._read(at["file"])

    def download(
        self, path: str, local: str | os.PathLike[str], *, overwrite: bool = True, on_progress: Progress | None = None
    ) -> FileInfo:
        """Copies a file of the server to this machine, where it appears when all of it has arrived with the right checksum.

        It goes on through lost connections; called again after an error or a kill it goes on with what has arrived before,
        which lies in a hidden file beside local. Raises FileChangedError if the file of the server is changed meanwhile,
        and FileExistsError if there is one and overwrite is false.
        """
        op, on_progress = f"download {path}", on_progress or _ignore
        file = self._version(op, path)
        part = off_loop(Part, local, path, file.etag)
        try:
            if part.size > file.size:
                part.begin_anew()
            on_progress(part.size, file.size)
            with closing(self._chunks(op, path, file, part.size)) as chunks:
                for chunk in chunks:
                    off_loop(part.write, chunk)
                    on_progress(part.size, file.size)
            there = self._stat(op, path, True)
            if there.etag != file.etag:
                raise _changed(op)
            if there.sha256 != off_loop(part.sha256):
                raise ProtocolError(f"{op}: the bytes have another checksum than the server's")
            off_loop(part.finish, file.mode, overwrite)
            return there
        except (FileChangedError, ProtocolError):
            off_loop(part.remove)
            raise
        finally:
            part.close()

    def read(self, path: str) -> bytes:
        """Returns all bytes of a file, of one version and with the right checksum, through lost connections."""
        op = f"download {path}"
        file = self._version(op, path)
        data = bytearray()
        with closing(self._chunks(op, path, file, 0)) as chunks:
            for chunk in chunks:
                data += chunk
        there = self._stat(op, path, True)
        if there.etag != file.etag:
            raise _changed(op)
        if there.sha256 != hashlib.sha256(data).hexdigest():
            raise ProtocolError(f"{op}: the bytes have another checksum than the server's")
        return bytes(data)

    def _version(self, op: str, path: str) -> FileInfo:
        """The version that is downloaded. What a link leads to has its own checksum."""
        file = self._stat(op, path, False)
        return self._stat(op, path, True) if file.type == "symlink" else file

    def _chunks(self, op: str, path: str, file: FileInfo, have: int) -> Generator[bytes, None, None]:
        """Yields the bytes of a version after those that there are, through as many connections as that takes."""
        patience = self._transport.patience()
        while have < file.size:
            headers = {"Accept": _wire.BYTES, "Range": f"bytes={have}-", "If-Range": file.etag}
            request = _wire.Request(op, "GET", _FILES + "/content", [("path", path)], headers)
            try:
                with self._transport.open(request, self._transport.config.timeout) as response:
                    self._transport.refuse(response)
                    _check_part(op, response.status_code, response.headers, file, have)
                    self._transport.met.yes = True
                    chunks = response.iter_raw()
                    while have < file.size:
                        chunk = (next_chunk(chunks))[: file.size - have]
                        if not chunk:
                            raise NetworkError("the connection ended before the file")
                        have += len(chunk)
                        patience.succeeded()
                        yield chunk
            except RepriseError as error:
                pause = patience.next(request, error)
            else:
                return
            sleep(pause)

    def watch(self, path: str, *, recursive: bool = False) -> Watch:
        """Begins to watch a directory, with recursive the directories in it too, and says from where on `changes` tells."""
        body = {"path": path, "recursive": recursive}
        return Watch._read(self._transport.call(_wire.json_request(f"watch {path}", "POST", _FILES + "/watches", body)))

    def changes(
        self,
        watch: Watch | str,
        *,
        after: str = "",
        types: Sequence[str] = (),
        cursors: CursorStore | None = None,
        on_gap: Literal["event", "raise"] = "event",
        save_every: float = 0.1,
        idle_timeout: float = 45.0,
        give_up: float | None = None,
        on_drop: Callable[[Drop], None] | None = None,
        on_connected: Callable[[], None] | None = None,
    ) -> Follow:
        """Yields what happens below a directory that is watched, each change once and in order; see Reprise.follow.

        The events are of the types "created", "modified", "removed" and "moved"; `FileChange.of(event)` says of what. They
        begin with what happens after the call of `watch`, or for an id with the first change that is kept.
        """
        id = watch if isinstance(watch, str) else watch.id
        if isinstance(watch, Watch) and not after:
            after = watch.cursor
        options = FollowOptions(after, types, on_gap, idle_timeout, give_up, save_every, on_drop, on_connected)
        path = _wire.named_path("files/watches", id)
        return Follow(self._transport, flow_of(self._transport, f"follow watch {id}", path, None, options), cursors)

    def unwatch(self, id: str) -> None:
        """Forgets a watch, for all who read it."""
        path = _wire.named_path("files/watches", id)
        self._transport.call(_wire.Request(f"remove watch {id}", "DELETE", path, empty=True))

    def _page(
        self, op: str, rest: str, path: str, limit: int | None, cursor: str, *more: tuple[str, str]
    ) -> Listing[FileInfo]:
        request = _requests.listing("files" + rest, limit, cursor)
        request.op, request.patient = op, True
        request.query = [(name, value) for name, value in (("path", path), *more, *request.query) if value]
        answer = self._transport.call(request)
        return Listing([FileInfo._read(file) for file in answer["files"]], answer["next_cursor"])

    def _stat(self, op: str, path: str, checksum: bool) -> FileInfo:
        query = [("path", path), *([("checksum", "true")] if checksum else [])]
        return FileInfo._read(self._transport.call(_wire.Request(op, "GET", _FILES + "/stat", query, patient=True)))

    def _change(self, op: str, rest: str, body: dict[str, Any]) -> FileInfo:
        return FileInfo._read(self._transport.call(_wire.json_request(op, "POST", _FILES + rest, body)))


def _check_part(op: str, status: int, headers: Any, file: FileInfo, have: int) -> None:
    """Raises for an answer that is not the part that was asked for."""
    if not (etag := headers.get("etag")):
        raise _wire.not_ours(status, headers)
    if etag != file.etag:
        raise _changed(op)
    part = status == 206 and headers.get("content-range", "").startswith(f"bytes {have}-")
    if not part and (status != 200 or have > 0):
        raise _wire.not_ours(status, headers)


def _changed(op: str) -> FileChangedError:
    return FileChangedError(f"{op}: the file has changed meanwhile")


def _ignore(_: int, __: int) -> None:
    pass
