"""The bytes of a channel of an execution, or of one of its kept files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from .. import _wire
from .._io import async_sleep
from ..errors import NetworkError, RepriseError
from .http import AsyncTransport, chunks_of, next_chunk


@dataclass
class Etag:
    """The version of an artifact, as stated in the answer."""

    value: str = ""


async def channel(
    transport: AsyncTransport, id: str, name: str, offset: int, follow: bool, etag: Etag | None = None
) -> AsyncGenerator[bytes, None]:
    """Yields the bytes from an offset on, over as many connections as necessary. name is the path below that of the
    execution."""
    op, path = f"read {name} of execution {id}", _wire.named_path("executions", id)
    patience, end = transport.patience(), -1
    while end < 0 or offset < end:
        query = [("offset", str(offset)), *([("follow", "true")] if follow else [])]
        request = _wire.Request(op, "GET", f"{path}/{name}", query, {"Accept": _wire.BYTES})
        try:
            async with transport.open(request, 24 * 3600.0 if follow else transport.config.timeout) as response:
                await transport.refuse(response)
                if response.status_code != 200 or _wire.media_type(response.headers) != _wire.BYTES:
                    raise _wire.not_ours(response.status_code, response.headers)
                transport.met.yes = True
                if etag is not None:
                    etag.value = response.headers.get("etag", "")
                length = response.headers.get("content-length")
                if not follow and end < 0 and length is not None and "content-encoding" not in response.headers:
                    end = offset + int(length)
                chunks = chunks_of(response)
                while chunk := await next_chunk(chunks):
                    if end >= 0:  # the output may have grown
                        chunk = chunk[: end - offset]
                    offset += len(chunk)
                    patience.succeeded()
                    if chunk:
                        yield chunk
            if follow:  # a proxy may have ended the answer
                execution = await transport.call(_wire.Request(op, "GET", path))
                if execution["status"] == "ended" and offset >= execution["bytes"][name]:
                    return
            if offset < end or follow:
                raise NetworkError("the connection ended before the output")
            return
        except RepriseError as error:
            pause = patience.next(request, error)
        await async_sleep(pause)
