"""Files of the server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from .. import _requests, _wire
from .._flow import Drop, FollowOptions
from .._io import async_off_loop, async_sleep
from .._local import Part, Source
from ..cursors import AnyCursorStore
from ..errors import FileChangedError, NetworkError, ProblemError, ProtocolError, RepriseError
from ..models import FileInfo, Listing, Watch
from .follow import AsyncFollow
from .http import AsyncTransport, chunks_of, next_chunk
from .streams import flow_of

_FILES = "/v1/files"
#: What is sent in one request. Of one that is cut off the server keeps what it has got.
_PIECE = 4 << 20
#: How often the server may name an offset that is not ahead before that is an error.
_SETBACKS = 5
#: The bytes a second at which a slow server reads for their checksum.
_SUM_RATE = 50e6

Progress = Callable[[int, int], None]


class AsyncFiles:
    """`client.files`: the files of a server with `--files`. A path begins with the name of a root: "work/src/main.go"."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, path: str = "", *, limit: int | None = None, cursor: str = "") -> Listing[FileInfo]:
        """Returns one page of a directory, ordered by name; without a path, of the roots."""
        return await self._page(f"list {path or 'the roots'}", "", path, limit, cursor)

    async def search(
        self, path: str, *, name: str = "", text: str = "", limit: int | None = None, cursor: str = ""
    ) -> Listing[FileInfo]:
        """Returns one page of the entries below a directory. A page may be empty although there is a next one.

        name: a pattern for the last segment of a path, such as "*.go".
        text: text that a line must contain.
        """
        return await self._page(f"search {path}", "/search", path, limit, cursor, ("name", name), ("text", text))

    async def show(self, path: str, *, checksum: bool = False) -> FileInfo:
        """Returns one entry; with checksum, also its SHA-256, for which links are followed."""
        return await self._stat(f"show {path}", path, checksum)

    async def make_directory(self, path: str, *, mode: str = "", parents: bool = False) -> FileInfo:
        """Makes a directory; with parents, also the missing ones above it, and an existing directory is not an error. Without
        parents the request is not sent again once it may have arrived, because a second one would find the directory."""
        body: dict[str, Any] = {"path": path, "parents": parents}
        if mode:
            body["mode"] = mode
        return await self._change(f"make directory {path}", "/directory", body, once=not parents)

    async def move(self, source: str, target: str, *, overwrite: bool = False) -> FileInfo:
        """Moves a file or directory within its root. An existing target is replaced only with overwrite.

        The request is not sent again once it may have arrived, because a second move would find nothing.
        """
        body = {"from": source, "to": target, "overwrite": overwrite}
        return await self._change(f"move {source}", "/move", body, once=True)

    async def set_mode(self, path: str, mode: str) -> FileInfo:
        """Sets the permissions, in octal: "0644"."""
        return await self._change(f"set the mode of {path}", "/permissions", {"path": path, "mode": mode})

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file or a directory; with recursive, including its contents. A missing file is not an error."""
        query = [("path", path), *([("recursive", "true")] if recursive else [])]
        await self._transport.call(_wire.Request(f"remove {path}", "DELETE", _FILES, query, empty=True))

    async def upload(
        self,
        local: bytes | bytearray | memoryview | str | os.PathLike[str],
        path: str,
        *,
        mode: str = "",
        overwrite: bool = True,
        on_progress: Progress | None = None,
    ) -> FileInfo:
        """Copies a local file, or bytes, to a path on the server, where it appears once it is complete.

        The copy continues after lost connections and restarts of the server. Called again after an error, or by another
        program, it continues with the bytes that have arrived. Raises FileChangedError if the local file changes during the
        copy.

        mode: the permissions in octal. Default: those of the local file, "0644" for bytes.
        overwrite: whether an existing file is replaced; otherwise the error has the code "conflict".
        on_progress: is called with the number of copied bytes and the total.
        """
        source = await async_off_loop(Source, local)
        try:
            return await self._upload(source, path, mode or source.mode, overwrite, on_progress or _ignore)
        finally:
            await async_off_loop(source.close)

    async def _upload(self, source: Source, path: str, mode: str, overwrite: bool, on_progress: Progress) -> FileInfo:
        op, size = f"upload {path}", source.size
        name = [("path", path), ("size", str(size)), ("sha256", source.sha256)]
        at = await self._transport.call(_wire.Request(op, "GET", _FILES + "/upload", name, patient=True))
        if at["complete"] and overwrite:
            on_progress(size, size)
            return FileInfo._read(at["file"])
        offset, setbacks = int(at["offset"]), 0
        more = [("mode", mode)] if mode else []
        more += [("parents", "true"), ("overwrite", "true" if overwrite else "false")]
        while True:
            on_progress(offset, size)
            piece = await async_off_loop(source.read, offset, min(_PIECE, size - offset))
            query = [*name, *more, ("offset", str(offset))]
            request = _wire.Request(op, "PUT", _FILES + "/content", query, {"Content-Type": _wire.BYTES}, piece)
            request.timeout = self._transport.config.timeout + (size / _SUM_RATE if offset + len(piece) == size else 0)
            try:
                at = await self._transport.call(request)
            except ProblemError as error:
                if error.code == "invalid" and error.field == "sha256":
                    raise _changed(op) from error
                there = error.offset
                setbacks += there is not None and there <= offset
                if there is None or there > size or setbacks > _SETBACKS:
                    raise
                offset = there  # a restart, or a lost answer
                continue
            offset = int(at["offset"])
            if at["complete"]:
                on_progress(size, size)
                return FileInfo._read(at["file"])

    async def download(
        self, path: str, local: str | os.PathLike[str], *, overwrite: bool = True, on_progress: Progress | None = None
    ) -> FileInfo:
        """Copies a file of the server to this machine, where it appears once it is complete and its checksum is verified.

        The copy continues after lost connections. Called again after an error or a kill, it continues with the bytes that have
        arrived, which are in a hidden file next to local. Raises FileChangedError if the file on the server changes during the
        copy, and FileExistsError if local exists and overwrite is false.
        """
        op, on_progress = f"download {path}", on_progress or _ignore
        file = await self._version(op, path)
        part = await async_off_loop(Part, local, path, file.etag)
        try:
            if part.size > file.size:
                part.begin_anew()
            on_progress(part.size, file.size)
            async with aclosing(self._chunks(op, path, file, part.size)) as chunks:
                async for chunk in chunks:
                    await async_off_loop(part.write, chunk)
                    on_progress(part.size, file.size)
            there = await self._stat(op, path, True)
            if there.etag != file.etag:
                raise _changed(op)
            if there.sha256 != await async_off_loop(part.sha256):
                raise ProtocolError(f"{op}: the bytes have another checksum than the server's")
            await async_off_loop(part.finish, file.mode, overwrite)
            return there
        except (FileChangedError, ProtocolError):
            await async_off_loop(part.remove)
            raise
        finally:
            part.close()

    async def read(self, path: str) -> bytes:
        """Returns all bytes of one version of a file, with a verified checksum, over lost connections."""
        op = f"download {path}"
        file = await self._version(op, path)
        data = bytearray()
        async with aclosing(self._chunks(op, path, file, 0)) as chunks:
            async for chunk in chunks:
                data += chunk
        there = await self._stat(op, path, True)
        if there.etag != file.etag:
            raise _changed(op)
        if there.sha256 != hashlib.sha256(data).hexdigest():
            raise ProtocolError(f"{op}: the bytes have another checksum than the server's")
        return bytes(data)

    async def _version(self, op: str, path: str) -> FileInfo:
        """The version to download. The target of a link has its own checksum."""
        file = await self._stat(op, path, False)
        return await self._stat(op, path, True) if file.type == "symlink" else file

    async def _chunks(self, op: str, path: str, file: FileInfo, have: int) -> AsyncGenerator[bytes, None]:
        """Yields the bytes of a version after those that are present, over as many connections as necessary."""
        patience = self._transport.patience()
        while have < file.size:
            headers = {"Accept": _wire.BYTES, "Range": f"bytes={have}-", "If-Range": file.etag}
            request = _wire.Request(op, "GET", _FILES + "/content", [("path", path)], headers)
            try:
                async with self._transport.open(request, self._transport.config.timeout) as response:
                    await self._transport.refuse(response)
                    _check_part(op, response.status_code, response.headers, file, have)
                    self._transport.met.yes = True
                    chunks = chunks_of(response)
                    while have < file.size:
                        chunk = (await next_chunk(chunks))[: file.size - have]
                        if not chunk:
                            raise NetworkError("the connection ended before the file")
                        have += len(chunk)
                        patience.succeeded()
                        yield chunk
            except RepriseError as error:
                pause = patience.next(request, error)
            else:
                return
            await async_sleep(pause)

    async def watch(self, path: str, *, recursive: bool = False) -> Watch:
        """Begins to watch a directory, with recursive including its subdirectories, and returns the position at which `changes`
        begins."""
        body = {"path": path, "recursive": recursive}
        return Watch._read(await self._transport.call(_wire.json_request(f"watch {path}", "POST", _FILES + "/watches", body)))

    def changes(
        self,
        watch: Watch | str,
        *,
        after: str = "",
        types: Sequence[str] = (),
        cursors: AnyCursorStore | None = None,
        on_gap: Literal["event", "raise"] = "event",
        save_every: float = 0.1,
        idle_timeout: float = 45.0,
        give_up: float | None = None,
        on_drop: Callable[[Drop], None] | None = None,
        on_connected: Callable[[], None] | None = None,
    ) -> AsyncFollow:
        """Yields the changes below a watched directory, each once and in order; see Reprise.follow.

        The events have the types "created", "modified", "removed" and "moved"; `FileChange.of(event)` decodes them. They begin
        after the call of `watch` or, for an id, with the first change that is kept.
        """
        id = watch if isinstance(watch, str) else watch.id
        if isinstance(watch, Watch) and not after:
            after = watch.cursor
        options = FollowOptions(after, types, on_gap, idle_timeout, give_up, save_every, on_drop, on_connected)
        path = _wire.named_path("files/watches", id)
        return AsyncFollow(self._transport, flow_of(self._transport, f"follow watch {id}", path, None, options), cursors)

    async def unwatch(self, id: str) -> None:
        """Removes a watch, for all its readers."""
        path = _wire.named_path("files/watches", id)
        await self._transport.call(_wire.Request(f"remove watch {id}", "DELETE", path, empty=True))

    async def _page(
        self, op: str, rest: str, path: str, limit: int | None, cursor: str, *more: tuple[str, str]
    ) -> Listing[FileInfo]:
        request = _requests.listing("files" + rest, limit, cursor)
        request.op, request.patient = op, True
        request.query = [(name, value) for name, value in (("path", path), *more, *request.query) if value]
        answer = await self._transport.call(request)
        return Listing([FileInfo._read(file) for file in answer["files"]], answer["next_cursor"])

    async def _stat(self, op: str, path: str, checksum: bool) -> FileInfo:
        query = [("path", path), *([("checksum", "true")] if checksum else [])]
        return FileInfo._read(await self._transport.call(_wire.Request(op, "GET", _FILES + "/stat", query, patient=True)))

    async def _change(self, op: str, rest: str, body: dict[str, Any], once: bool = False) -> FileInfo:
        request = _wire.json_request(op, "POST", _FILES + rest, body)
        request.once = once
        return FileInfo._read(await self._transport.call(request))


def _check_part(op: str, status: int, headers: Any, file: FileInfo, have: int) -> None:
    """Raises an error for an answer that is not the requested part."""
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
