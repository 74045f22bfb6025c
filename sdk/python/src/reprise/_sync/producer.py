# Made by tools/unasync.py of ../_async/producer.py: change that file.
"""Publishing, each event once."""

from __future__ import annotations

import threading
import secrets
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from .. import _wire
from .._io import in_turn
from .._publish import Publication, divide, fail, take_together, together
from .._retry import decided
from ..errors import NetworkError, ProblemError, RepriseError
from ..models import Published
from .http import Transport

Data = TypeVar("Data", contravariant=True)  # of the JSON values that a producer publishes


class Producer(Generic[Data]):
    """Publishes to one stream, in order, and each event once, however often a request has to be sent.

    Without `id` the producer numbers its requests itself, and each event is published once as long as the program lives. With
    an `id`, the program can be killed and started again: it passes as `number` the position of each request, 0, 1, 2, ..., and
    repeats requests that may not have arrived. The server answers a repeated request as a duplicate. `epoch` fences off earlier
    producers of the same id with a lower one.

    `Data` is the type of the JSON values, for a checker of types: `notes: Producer[Note] = client.producer("notes")`.

    A stream remembers its 64 newest producers. One request is under way at a time. Calls of several threads that wait for it go
    together in the next one, unless they have a number.
    """

    def __init__(self, transport: Transport, stream: str, id: str | None = None, epoch: int = 0) -> None:
        self._transport = transport
        self.stream: str = stream
        self._path = _wire.named_path("streams", stream)
        self._numbered = id is not None
        self.id: str = id or secrets.token_hex(16)
        self._epoch, self._next = epoch, 0
        self._turn = threading.Lock()
        self._waiting: deque[Publication] = deque()  # not sent yet, in order

    def publish(
        self, type: str = "message", data: Data | bytes | bytearray | memoryview | None = None, *, number: int | None = None
    ) -> Published:
        """Appends one event. data is a JSON value, or bytes, which are kept unchanged. Returns when the event is kept.

        If the call raises a retryable error or is cancelled, it is unknown whether the event was appended. After any other
        error of the first attempt (`tries` is 1) it was not; after one of a later attempt, an earlier one may have appended it.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            return self._publish_json([(type, data)], number)
        headers = {"Content-Type": _wire.BYTES}
        op = f"publish to {self.stream}"
        return self._send(
            _wire.Request(op, "POST", self._path + "/events", [("type", type)], headers, bytes(data)), number
        )

    def publish_many(self, events: Iterable[tuple[str, Data]], *, number: int | None = None) -> Published:
        """Appends events, pairs of a type and a JSON value, next to each other: either all of them or none."""
        return self._publish_json(events, number)

    def _publish_json(self, events: Iterable[tuple[str, Any]], number: int | None) -> Published:
        body = {"events": [{"type": type, "data": data} for type, data in events]}
        op = f"publish to {self.stream}"
        request = _wire.json_request(op, "POST", self._path + "/events", body)
        return self._send(request, number, len(body["events"]))

    def end(self, outcome: str = "completed", data: Any = None, *, number: int | None = None) -> Published:
        """Ends the stream with an outcome, "completed", "failed" or "cancelled", and a JSON value."""
        body = {"outcome": outcome} if data is None else {"outcome": outcome, "data": data}
        op = f"end stream {self.stream}"
        return self._send(_wire.json_request(op, "POST", self._path + "/end", body), number)

    def _send(self, request: _wire.Request, number: int | None, count: int = 0) -> Published:
        if self._numbered != (number is not None):
            raise ValueError("number belongs to producers with an id of the program's own, and to each request of one")
        if number is not None:
            with self._turn:
                return self._send_now(request, number)
        own = Publication(request, count)
        self._waiting.append(own)
        try:
            while not own.done:
                self._turn.acquire()
                if not own.done and (batch := take_together(self._waiting)):
                    in_turn(self._turn, batch, self._send_together)
                else:
                    self._turn.release()
        finally:
            if not own.done:
                own.leave(self._waiting)
        return own.result()

    def _send_together(self, batch: list[Publication]) -> None:
        """Sends a request for publications. The caller has the turn."""
        try:
            try:
                divide(batch, self._send_now(together(batch), None))
            except ProblemError as error:
                if len(batch) == 1 or error.tries > 1 or error.code not in ("invalid", "payload_too_large"):
                    raise
                for one in batch:  # each for itself: one of them is wrong, or all together are too much
                    try:
                        one.published = self._send_now(one.request, None)
                    except RepriseError as its_own:
                        one.error = its_own
                    one.done = True
        except RepriseError as error:
            fail(batch, error)
        except BaseException:
            fail(batch, NetworkError("the request was given up by another call whose events were in it"))
            raise

    def _send_now(self, request: _wire.Request, number: int | None) -> Published:
        """Sends a numbered request. The caller has the turn."""
        request.headers["Producer-Id"] = self.id
        request.headers["Producer-Epoch"] = str(self._epoch)
        request.headers["Producer-Seq"] = str(self._next if number is None else number)
        try:
            published = Published._read(self._transport.call(request))
        except BaseException as error:
            # Where the server has decided and appended nothing, the number is still free. Otherwise it may have been
            # appended, or the server has forgotten where we were. Another request under the same number would be taken
            # for it and lost, and one that is still under way must not come after those that follow: a new epoch fences
            # it off.
            conflict = isinstance(error, ProblemError) and error.code == "conflict"
            if number is None and (conflict or not decided(error)):
                self._epoch, self._next = self._epoch + 1, 0
            raise
        if number is None:
            self._next += 1
        return published
