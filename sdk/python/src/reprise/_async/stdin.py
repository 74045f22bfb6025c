"""The stdin of an execution."""

from __future__ import annotations

import asyncio

from .. import _wire
from .._retry import decided
from ..errors import ProblemError, ProtocolError
from .http import AsyncTransport

#: Bounds what is sent, and after a drop sent again, at a time.
CHUNK = 1 << 20


class AsyncStdin:
    """Writes to the stdin of an execution that was started with `stdin_open` or `tty`.

    `offset` is the number of bytes that the command has been given. Each write contains it, so that a write can be repeated
    after a lost connection: the command reads each byte once. Writes of several tasks are sent one after the other.
    """

    def __init__(self, transport: AsyncTransport, id: str, offset: int, writer: str = "") -> None:
        if offset < 0:
            raise ValueError("the offset is negative")
        self._transport, self._id, self._writer = transport, id, writer
        self.offset: int = offset
        self._path = _wire.named_path("executions", id, "/stdin")
        self._turn = asyncio.Lock()
        self._doubt = b""  # the bytes of a failed write, of which the command may have some
        self.closed: bool = False

    async def write(self, data: bytes | str) -> None:
        """Writes data to the command. Waits while the command does not read.

        If the call raises a retryable error or is cancelled, the command may have some of the bytes from `offset` on. The next
        write must then begin with all of them; another one raises ValueError. Raises ProblemError with the code "stream_ended"
        after the end of stdin or of the execution, and with "conflict" if bytes before the offset are missing.
        """
        rest = memoryview(data.encode() if isinstance(data, str) else data)
        async with self._turn:
            if self.closed:
                raise ValueError("write to closed stdin")
            while rest:
                taken = await self._send(bytes(rest[:CHUNK]))
                rest = rest[taken:]

    async def _send(self, chunk: bytes) -> int:
        # The server would take other bytes at this offset for those that the command has already, and skip them.
        if not chunk.startswith(self._doubt):
            raise ValueError("the bytes of the failed write come first")
        try:
            answer = await self._transport.call(self._request(chunk))
            taken = int(answer["offset"]) - self.offset
            if not 0 < taken <= len(chunk):
                raise ProtocolError(f"stdin is at {answer['offset']} after {len(chunk)} bytes at {self.offset}")
        except BaseException as error:
            if not decided(error):
                self._doubt = chunk
            raise
        self._doubt = b""
        self.offset += taken
        return taken

    def _request(self, chunk: bytes, eof: bool = False) -> _wire.Request:
        query = [("offset", str(self.offset)), ("writer", self._writer), ("eof", "true" if eof else "")]
        query = [(name, value) for name, value in query if value]
        headers = {"Content-Type": _wire.BYTES}
        op = f"write to execution {self._id}"
        return _wire.Request(op, "POST", self._path, query, headers, chunk, patient=True)

    async def aclose(self) -> None:
        """Ends the command's stdin. If it has ended already, this does nothing."""
        async with self._turn:
            if self.closed:
                return
            try:
                await self._transport.call(self._request(b"", eof=True))
            except ProblemError as error:
                if error.code != "stream_ended":
                    raise
            self.closed = True

    async def __aenter__(self) -> AsyncStdin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
