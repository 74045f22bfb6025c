# Made by tools/unasync.py of ../_async/follow.py: change that file.
"""The loop over the events of a stream."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from .. import _wire
from .._flow import Flow
from .._io import Saver, sleep
from ..cursors import CursorStore
from ..errors import RepriseError
from ..events import Event
from .http import Transport, chunks_of, next_chunk
from .receipts import Receipts


class Follow:
    """The events of a stream, in order, each once, until its end. It is an iterator and a context manager:

        with client.follow(id) as events:
            for event in events:
                ...

    Leaving the block, or `close`, ends the connection at once. An event counts as handled when the next one is asked for.
    """

    def __init__(self, transport: Transport, flow: Flow, cursors: CursorStore | None) -> None:
        self._flow = flow
        self._events = _events(transport, flow, Saver(cursors, flow.options.save_every))

    @property
    def cursor(self) -> str:
        """The position of the last received event, "" before the first."""
        return self._flow.track.cursor

    @property
    def ended(self) -> bool:
        """Whether the end of the stream was received."""
        return self._flow.ended

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __next__(self) -> Event:
        return self._events.__next__()

    def __enter__(self) -> Follow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the loop and frees its resources."""
        self._events.close()


def _events(transport: Transport, flow: Flow, saver: Saver) -> Generator[Event, None, None]:
    saves = saver.active
    receipts: Receipts | None = None
    try:
        if flow.begin(saver.load()):
            tail = _tail(transport, flow)
            flow.track.begin(tail)
            saver.handled(tail)
            saver.flush()
        while not flow.ended:
            try:
                with transport.open(flow.request(), flow.options.idle_timeout) as response:
                    transport.refuse(response)
                    # All events, including the end, were read before. A 204 without an outcome is not from the server.
                    if response.status_code == 204 and response.headers.get("stream-outcome"):
                        flow.ended = True
                        return
                    if response.status_code != 200 or _wire.media_type(response.headers) != _wire.EVENT_STREAM:
                        raise _wire.not_ours(response.status_code, response.headers)
                    for event in flow.answered(response.headers):
                        yield event
                        saver.handled(event.cursor)
                    if receipts is None and flow.receipts is not None:
                        receipts = Receipts(transport, flow.receipts)
                    chunks = chunks_of(response)
                    while True:
                        flow.reading()
                        saver.begin_wait()
                        try:
                            chunk = next_chunk(chunks)
                        finally:
                            saver.end_wait()
                        if not chunk:
                            raise flow.dropped()
                        for event in flow.feed(chunk):
                            yield event
                            if receipts is not None:
                                receipts.handled(flow.track.seq)
                            if saves:
                                saver.handled(event.cursor)
                        if receipts is not None:
                            receipts.handled(flow.track.seq, len(chunk))
                        saver.handled(flow.track.cursor)  # past the omitted events, too
                        if flow.ended:
                            return
            except RepriseError as error:
                pause = flow.failed(error)
            saver.flush()  # the wait may be long
            sleep(pause)
    finally:
        flow.state("ended")
        try:
            if receipts is not None:
                receipts.close()
        finally:
            saver.close()


def _tail(transport: Transport, flow: Flow) -> str:
    query = [("after", "tail"), ("limit", "1")]
    page = transport.call(_wire.Request(flow.op, "GET", flow.path + "/events", query))
    return str(page["next_cursor"])
