"""The loop over the events of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from .. import _wire
from .._flow import Flow
from .._io import AsyncSaver, async_sleep
from ..cursors import AnyCursorStore
from ..errors import RepriseError
from ..events import Event
from .http import AsyncTransport, chunks_of, next_chunk
from .receipts import AsyncReceipts


class AsyncFollow:
    """The events of a stream, in order, each once, until its end. It is an iterator and a context manager:

        async with client.follow(id) as events:
            async for event in events:
                ...

    Leaving the block, or `aclose`, ends the connection at once. An event counts as handled when the next one is asked for.
    """

    def __init__(self, transport: AsyncTransport, flow: Flow, cursors: AnyCursorStore | None) -> None:
        self._flow = flow
        self._events = _events(transport, flow, AsyncSaver(cursors, flow.options.save_every))

    @property
    def cursor(self) -> str:
        """The position of the last received event, "" before the first."""
        return self._flow.track.cursor

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was received."""
        return self._flow.ended

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def __aenter__(self) -> AsyncFollow:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the loop and frees its resources."""
        await self._events.aclose()


async def _events(transport: AsyncTransport, flow: Flow, saver: AsyncSaver) -> AsyncGenerator[Event, None]:
    saves = saver.active
    receipts: AsyncReceipts | None = None
    try:
        if flow.begin(await saver.load()):
            tail = await _tail(transport, flow)
            flow.track.begin(tail)
            await saver.handled(tail)
            await saver.flush()
        while not flow.ended:
            try:
                async with transport.open(flow.request(), flow.options.idle_timeout) as response:
                    await transport.refuse(response)
                    # All events, including the end, were read before. A 204 without an outcome is not from the server.
                    if response.status_code == 204 and response.headers.get("stream-outcome"):
                        flow.ended = True
                        return
                    if response.status_code != 200 or _wire.media_type(response.headers) != _wire.EVENT_STREAM:
                        raise _wire.not_ours(response.status_code, response.headers)
                    for event in flow.answered(response.headers):
                        yield event
                        await saver.handled(event.cursor)
                    if receipts is None and flow.receipts is not None:
                        receipts = AsyncReceipts(transport, flow.receipts)
                    chunks = chunks_of(response)
                    while True:
                        flow.reading()
                        saver.begin_wait()
                        try:
                            chunk = await next_chunk(chunks)
                        finally:
                            await saver.end_wait()
                        if not chunk:
                            raise flow.dropped()
                        for event in flow.feed(chunk):
                            yield event
                            if receipts is not None:
                                receipts.handled(flow.track.seq)
                            if saves:
                                await saver.handled(event.cursor)
                        if receipts is not None:
                            receipts.handled(flow.track.seq, len(chunk))
                        await saver.handled(flow.track.cursor)  # past the omitted events, too
                        if flow.ended:
                            return
            except RepriseError as error:
                pause = flow.failed(error)
            await saver.flush()  # the wait may be long
            await async_sleep(pause)
    finally:
        flow.state("ended")
        try:
            if receipts is not None:
                await receipts.aclose()
        finally:
            await saver.close()


async def _tail(transport: AsyncTransport, flow: Flow) -> str:
    query = [("after", "tail"), ("limit", "1")]
    page = await transport.call(_wire.Request(flow.op, "GET", flow.path + "/events", query))
    return str(page["next_cursor"])
