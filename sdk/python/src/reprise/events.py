"""The events of a stream."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from json import JSONDecoder
from typing import Any

from .errors import ProtocolError

__all__ = ["End", "Event", "Gap", "Started", "parse_time"]


_decode = JSONDecoder().scan_once  # type: ignore[attr-defined]


def parse_time(text: str) -> datetime:
    """Reads an RFC 3339 time."""
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


#: In place of data that was not asked for.
_UNREAD: Any = object()

#: The most values that are decoded together.
_MAX_AHEAD = 64


class Series:
    """The published JSON of consecutive events. Once values are asked for in order, those that follow are decoded with them,
    which takes half the time."""

    __slots__ = ("_ahead", "_first", "_next", "_texts", "_values")

    def __init__(self, first: int, texts: list[str]) -> None:
        self._first = self._next = first  # the seq of the first event, and of the next one in order
        self._texts = texts  # of the values; "" for an event without
        self._values: list[Any] = []  # decoded ahead, the next one last
        self._ahead = 1

    def value(self, seq: int) -> Any:
        """The value of an event, the next time another one. Raises an exception if it is not JSON, or there is none."""
        if seq != self._next:
            if seq > self._next:
                self._next, self._ahead = seq + 1, 1
                self._values.clear()
            return _decode_all(self._texts[seq - self._first])
        if not self._values:
            self._decode_ahead(seq - self._first)
        self._next = seq + 1
        return self._values.pop()

    def _decode_ahead(self, at: int) -> None:
        texts = self._texts[at : at + self._ahead]
        if "" in texts:
            del texts[max(1, texts.index("")) :]
        self._ahead = min(2 * self._ahead, _MAX_AHEAD)
        try:
            values = _decode_all(f"[{','.join(texts)}]")
            if len(values) != len(texts):
                raise ValueError("one of them is damaged")
        except (StopIteration, ValueError, RecursionError):
            self._ahead = 1
            values = [_decode_all(texts[0])]
        values.reverse()
        self._values = values


def _decode_all(text: str) -> Any:
    value, end = _decode(text, 0)
    if end != len(text):
        raise ValueError("more than one value")
    return value


class Event:
    """One event of a stream.

    `type` is for example "stdout". The last event of a stream is an `End`, a notice that events are no longer kept a
    `Gap`, and the first event of an execution a `Started`.
    """

    __slots__ = ("_data", "_object", "_series", "_text", "cursor", "seq", "type")

    #: 1, 2, 3, ... within an epoch of the stream; 0 for a gap.
    seq: int
    #: The position just after the event: what to resume from.
    cursor: str
    type: str

    def __init__(
        self,
        type: str,
        seq: int,
        cursor: str,
        object: dict[str, Any] | None,
        text: str = "",
        series: Series | None = None,
    ) -> None:
        self.type = type
        self.seq = seq
        self.cursor = cursor
        self._object = object
        self._text = text  # of the object, until it is decoded
        self._series = series
        self._data = _UNREAD

    @property
    def object(self) -> dict[str, Any]:
        """The JSON object that the server has sent. It is decoded on first use, as are all attributes that depend on it; this
        raises ProtocolError if the object is damaged."""
        object = self._object
        return self._load() if object is None else object

    def _load(self) -> dict[str, Any]:
        text = self._text
        object: dict[str, Any]
        try:
            object, end = _decode(text, 0)
            if end != len(text) or object["seq"] != self.seq:
                raise ValueError("more than one object, or another seq")
        except (StopIteration, ValueError, KeyError, RecursionError) as error:
            raise ProtocolError(f"event {self.cursor}: {error}") from error
        self._object, self._text = object, ""
        if self._data is not _UNREAD and "data" in object:
            object["data"] = self._data  # the program may have changed it
        return object

    @property
    def time(self) -> datetime | None:
        """When the event was appended; None for a gap before the first event that this client itself reports."""
        text = self.object.get("time")
        return parse_time(text) if text else None

    @property
    def data(self) -> Any:
        """The published JSON value; None for events of bytes, such as output."""
        data = self._data
        if data is not _UNREAD:
            return data
        series = self._series
        if series is not None and self._object is None:
            try:
                data = self._data = series.value(self.seq)
                return data
            except (StopIteration, ValueError, RecursionError):
                pass  # text, damaged, or the object has more members
        data = self._data = self.object.get("data")
        return data

    @property
    def is_json(self) -> bool:
        """Whether the event is JSON: a published value, or an event of Reprise itself such as "started" and "end"."""
        return "base64" not in self.object and "text" not in self.object

    @property
    def text(self) -> str:
        """The data as text: output with U+FFFD for bytes that are not UTF-8; JSON as its text."""
        text = self.object.get("text")
        if isinstance(text, str):
            return text
        if not self.is_json:
            return self.bytes.decode("utf-8", "replace")
        return json.dumps(self.object.get("data", self.object), ensure_ascii=False, separators=(",", ":"))

    @property
    def bytes(self) -> bytes:
        """The data as bytes: output exactly as it was written."""
        if self.is_json or "text" in self.object:
            return self.text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(self.object["base64"], validate=True)
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"event {self.cursor}: {error}") from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seq={self.seq}, type={self.type!r}, {self.object!r})"


class Started(Event):
    """The notice that a command runs."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The id of the execution."""
        return str(self.object.get("id", ""))

    @property
    def argv(self) -> list[str]:
        """The program and its arguments, or [] if the request had another form."""
        return list(self.object.get("argv") or [])

    @property
    def command(self) -> str:
        """The text for `sh -c`, or "" if the request had another form."""
        return str(self.object.get("command") or "")

    @property
    def language(self) -> str:
        """The language of the code, or "" if the request had another form."""
        return str(self.object.get("language") or "")

    @property
    def interpreter(self) -> str:
        """The interpreter that runs the code, or "" if the request had another form."""
        return str(self.object.get("interpreter") or "")

    @property
    def pid(self) -> int | None:
        """The process id of the command on its machine."""
        return self.object.get("pid")

    @property
    def isolation(self) -> dict[str, Any] | None:
        """The isolation in force."""
        return self.object.get("isolation")


class End(Event):
    """The end of a stream. Streams that are not executions have only `outcome` and `data`."""

    __slots__ = ()

    @property
    def outcome(self) -> str:
        """ "exited" or another of an execution's; or "completed", "failed" or "cancelled"."""
        return str(self.object.get("outcome", ""))

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None if the process did not exit normally."""
        return self.object.get("exit_code")

    @property
    def signal(self) -> str | None:
        """The name, without SIG, of the signal that killed the process."""
        return self.object.get("signal")

    @property
    def error(self) -> str:
        """Why a run did not start, was lost, or was ended by the server."""
        return str(self.object.get("error", ""))

    @property
    def limit(self) -> str:
        """The exceeded limit."""
        return str(self.object.get("limit", ""))

    @property
    def output_truncated(self) -> bool:
        """Whether output is missing because another process kept the pipe open."""
        return bool(self.object.get("output_truncated"))

    @property
    def processes_left(self) -> bool:
        """Whether the owner of the run's processes was killed, so that some of them may still run."""
        return bool(self.object.get("processes_left"))

    @property
    def started(self) -> datetime | None:
        """When the process began, or None if it never did."""
        return parse_time(text) if (text := self.object.get("started")) else None

    @property
    def bytes_written(self) -> dict[str, int] | None:
        """The number of bytes that the command wrote to each channel, kept or not."""
        return self.object.get("bytes")

    @property
    def bytes_from(self) -> int:
        """For a lost run whose window had lost its beginning: the seq of the event from which `bytes_written` counts; else
        0."""
        return int(self.object.get("bytes_from") or 0)

    @property
    def isolation(self) -> dict[str, Any] | None:
        """The isolation in force."""
        return self.object.get("isolation")

    @property
    def duration_ms(self) -> int | None:
        """How long the command ran."""
        return self.object.get("duration_ms")

    @property
    def usage(self) -> dict[str, int] | None:
        """The resource use of the processes: user_ms, system_ms, max_rss_bytes."""
        return self.object.get("usage")


class Gap(Event):
    """The notice that the stream does not continue at the cursor. It continues after `cursor`, that of this event."""

    __slots__ = ()

    @property
    def code(self) -> str:
        """ "cursor_expired", "epoch_changed" or "cursor_ahead"."""
        return str(self.object.get("code", ""))

    @property
    def earliest(self) -> str:
        """The cursor before the first kept event, or "" if the server has not sent it."""
        return str(self.object.get("earliest") or "")

    @property
    def tail(self) -> str:
        """The cursor after the last event, or "" if the server has not sent it."""
        return str(self.object.get("tail") or "")

    @property
    def fork(self) -> str:
        """The cursor up to which the new epoch has the events of the old one; "" for other codes."""
        return str(self.object.get("fork") or "")

    @property
    def missed(self) -> int:
        """The number of events that are gone and were never received, or 0 if it is unknown."""
        return int(self.object.get("missed") or 0)

    @property
    def taken_back(self) -> int:
        """The number of events up to the cursor that the server has lost."""
        return int(self.object.get("taken_back") or 0)


def decode_object(type: str, cursor: str, object: Any) -> Event:
    """Makes an event from its JSON object. Raises ValueError for an invalid one."""
    if not isinstance(object, dict):
        raise ValueError("the data of an event is no object")
    seq = object.get("seq", 0)
    if not isinstance(seq, int) or not cursor or (seq <= 0 and type != "gap"):
        raise ValueError(f"no cursor or no seq in {str(object)[:100]}")
    if "text" in object:
        return Event(type, seq, cursor, object)
    if type == "gap":
        return Gap(type, 0, cursor, object)
    if type == "end":
        return End(type, seq, cursor, object)
    if "base64" in object:
        base64.b64decode(object["base64"], validate=True)
    if type == "started" and "data" not in object:
        return Started(type, seq, cursor, object)
    return Event(type, seq, cursor, object)
