"""The events of a stream."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from datetime import datetime
from json import JSONDecodeError, JSONDecoder
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
        raise JSONDecodeError("more than one value", text, end)
    return value


def _is_valid(error: BaseException | None) -> bool:
    """Whether a decoder has failed with error at JSON that may be valid: it is nested too deeply, or has an integer of too many
    digits."""
    return isinstance(error, RecursionError) or type(error) is ValueError


def _decode_members(texts: dict[str, str]) -> dict[str, Any]:
    """The values of members without those that cannot be decoded."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        with contextlib.suppress(StopIteration, ValueError, RecursionError):
            values[name] = _decode_all(text)
    return values


#: The strings in a JSON text, and the characters outside of strings that give it its structure.
_structure = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},:]', re.DOTALL).finditer


def _members(text: str) -> dict[str, str]:
    """The texts of the members of a JSON object, which are not decoded and can be of any depth. Raises ValueError."""
    members: dict[str, str] = {}
    name: str | None = None
    depth, begin = 0, 0
    for token in _structure(text):
        c, at = token[0], token.start()
        if c in ("[", "{"):
            depth += 1
            if depth == 1:
                if c == "[" or text[:at].strip():
                    break
                begin = at + 1
            continue
        if depth == 1 and c == ":" and name is None:
            name, begin = text[begin:at].strip()[1:-1], at + 1
        elif depth == 1 and c in (",", "}") and name is not None:
            members[name], name, begin = text[begin:at].strip(), None, at + 1
        if c in ("]", "}"):
            depth -= 1
            if depth <= 0:
                if text[at + 1 :].strip():
                    break
                return members
    raise ValueError("the data of an event is no object")


#: Halves of surrogate pairs, which JSON may have as escapes.
_surrogates = re.compile("[\ud800-\udfff]")

#: Finds a number that may be too large for a float, for example 1e400. Its text is kept, as no float has it.
_may_overflow = re.compile(r"[eE]\+?0*[1-9][0-9]{2}|[0-9]{200}").search


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
        raises ProtocolError if the object is damaged, or if it is JSON that Python does not decode: arrays and objects that are
        nested deeper than the recursion limit, or integers with more digits than sys.set_int_max_str_digits allows. Attributes
        of the other members have their values then, and `text` the published JSON."""
        object = self._object
        return self._load() if object is None else object

    @property
    def _readable(self) -> dict[str, Any]:
        """The members of the object without those that cannot be decoded."""
        try:
            return self.object
        except ProtocolError as error:
            if not _is_valid(error.__cause__):
                raise
            return _decode_members(self._raw())

    def _raw(self) -> dict[str, str]:
        """The texts of the members of an object that cannot be decoded."""
        try:
            return _members(self._text)
        except ValueError as error:
            raise ProtocolError(f"event {self.cursor}: {error}") from error

    def _load(self) -> dict[str, Any]:
        text = self._text
        object: dict[str, Any]
        try:
            object, end = _decode(text, 0)
        except (StopIteration, ValueError, RecursionError) as error:
            raise ProtocolError(f"event {self.cursor}: {error}") from error
        if end != len(text) or object.get("seq") != self.seq:
            raise ProtocolError(f"event {self.cursor}: more than one object, or another seq")
        self._object, self._text = object, text if _may_overflow(text) else ""
        if self._data is not _UNREAD and "data" in object:
            object["data"] = self._data  # the program may have changed it
        return object

    @property
    def time(self) -> datetime | None:
        """When the event was appended; None for a gap before the first event that this client itself reports."""
        text = self._readable.get("time")
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
        return "base64" not in self._readable and "text" not in self._readable

    @property
    def text(self) -> str:
        """The data as text: output with U+FFFD for bytes that are not UTF-8; JSON as its text, also if it cannot be decoded."""
        text = self._readable.get("text")
        if isinstance(text, str):
            return text
        if not self.is_json:
            return self.bytes.decode("utf-8", "replace")
        if self._object is None:  # it cannot be decoded
            return self._raw().get("data", self._text)
        value = self.object.get("data", self.object)
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return _surrogates.sub(lambda half: f"\\u{ord(half[0]):04x}", text)  # which cannot be encoded
        except ValueError:  # a number that is infinite here
            return self._raw().get("data", self._text)

    @property
    def bytes(self) -> bytes:
        """The data as bytes: output exactly as it was written."""
        if self.is_json or "text" in self._readable:
            return self.text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(self._readable["base64"], validate=True)
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"event {self.cursor}: {error}") from error

    def __repr__(self) -> str:
        try:
            shown = repr(self.object)
        except (ProtocolError, RecursionError):  # or the program has nested it deeper
            shown = repr(self._text[:100])
        return f"{type(self).__name__}(seq={self.seq}, type={self.type!r}, {shown})"


class Started(Event):
    """The notice that a command runs."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The id of the execution."""
        return str(self._readable.get("id", ""))

    @property
    def argv(self) -> list[str]:
        """The program and its arguments, or [] if the request had another form."""
        return list(self._readable.get("argv") or [])

    @property
    def command(self) -> str:
        """The text for `sh -c`, or "" if the request had another form."""
        return str(self._readable.get("command") or "")

    @property
    def language(self) -> str:
        """The language of the code, or "" if the request had another form."""
        return str(self._readable.get("language") or "")

    @property
    def interpreter(self) -> str:
        """The interpreter that runs the code, or "" if the request had another form."""
        return str(self._readable.get("interpreter") or "")

    @property
    def cwd(self) -> str:
        """The directory on the server in which the command was started."""
        return str(self._readable.get("cwd") or "")

    @property
    def pid(self) -> int | None:
        """The process id of the command on its machine."""
        return self._readable.get("pid")

    @property
    def isolation(self) -> dict[str, Any] | None:
        """The isolation in force."""
        return self._readable.get("isolation")


class End(Event):
    """The end of a stream. Streams that are not executions have only `outcome` and `data`."""

    __slots__ = ()

    @property
    def outcome(self) -> str:
        """ "exited" or another of an execution's; or "completed", "failed" or "cancelled"."""
        return str(self._readable.get("outcome", ""))

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None if the process did not exit normally."""
        return self._readable.get("exit_code")

    @property
    def signal(self) -> str | None:
        """The name, without SIG, of the signal that killed the process."""
        return self._readable.get("signal")

    @property
    def error(self) -> str:
        """Why a run did not start, was lost, or was ended by the server."""
        return str(self._readable.get("error", ""))

    @property
    def limit(self) -> str:
        """The exceeded limit."""
        return str(self._readable.get("limit", ""))

    @property
    def output_truncated(self) -> bool:
        """Whether output is missing because another process kept the pipe open."""
        return bool(self._readable.get("output_truncated"))

    @property
    def processes_left(self) -> bool:
        """Whether the owner of the run's processes was killed, so that some of them may still run."""
        return bool(self._readable.get("processes_left"))

    @property
    def killed_processes(self) -> int:
        """How many processes still ran when the command had ended by itself, and were killed."""
        return int(self._readable.get("killed_processes") or 0)

    @property
    def killed_commands(self) -> list[str]:
        """The command lines of the first of them, shortened."""
        return list(self._readable.get("killed_commands") or ())

    @property
    def started(self) -> datetime | None:
        """When the process began, or None if it never did."""
        return parse_time(text) if (text := self._readable.get("started")) else None

    @property
    def bytes_written(self) -> dict[str, int] | None:
        """The number of bytes that the command wrote to each channel, kept or not."""
        return self._readable.get("bytes")

    @property
    def bytes_from(self) -> int:
        """For a lost run whose window had lost its beginning: the seq of the event from which `bytes_written` counts; else
        0."""
        return int(self._readable.get("bytes_from") or 0)

    @property
    def isolation(self) -> dict[str, Any] | None:
        """The isolation in force."""
        return self._readable.get("isolation")

    @property
    def duration_ms(self) -> int | None:
        """How long the command ran."""
        return self._readable.get("duration_ms")

    @property
    def usage(self) -> dict[str, int] | None:
        """The resource use of the processes: user_ms, system_ms, max_rss_bytes."""
        return self._readable.get("usage")


class Gap(Event):
    """The notice that the stream does not continue at the cursor. It continues after `cursor`, that of this event."""

    __slots__ = ()

    @property
    def code(self) -> str:
        """ "cursor_expired", "epoch_changed" or "cursor_ahead"."""
        return str(self._readable.get("code", ""))

    @property
    def earliest(self) -> str:
        """The cursor before the first kept event, or "" if the server has not sent it."""
        return str(self._readable.get("earliest") or "")

    @property
    def tail(self) -> str:
        """The cursor after the last event, or "" if the server has not sent it."""
        return str(self._readable.get("tail") or "")

    @property
    def fork(self) -> str:
        """The cursor up to which the new epoch has the events of the old one; "" for other codes."""
        return str(self._readable.get("fork") or "")

    @property
    def missed(self) -> int:
        """The number of events that are gone and were never received, or 0 if it is unknown."""
        return int(self._readable.get("missed") or 0)

    @property
    def taken_back(self) -> int:
        """The number of events up to the cursor that the server has lost."""
        return int(self._readable.get("taken_back") or 0)


#: The beginning of the JSON object of an event as the server writes it. What comes next is the published data, or the members
#: of an event of Reprise itself.
_head = re.compile(r'\{"seq":([1-9][0-9]{0,18}),"time":"[^"\\]*"(?=[,}])').match
_PUBLISHED = (',"data":', ',"text":', ',"base64":')


def decode_event(type: str, cursor: str, text: str) -> Event:
    """Makes an event from the text of its JSON object. Published data is not decoded, because it can be JSON that Python does
    not decode. Raises ValueError for a text that is no event."""
    head = _head(text)
    if head is None or not cursor or type == "gap" or not text.endswith("}"):
        return _decode_whole(type, cursor, text)
    seq = int(head[1])
    if type == "end" and not text.startswith(',"text":', head.end()):
        return End(type, seq, cursor, None, text)
    if type == "started" and not text.startswith(_PUBLISHED, head.end()):
        return Started(type, seq, cursor, None, text)
    return Event(type, seq, cursor, None, text)


def _decode_whole(type: str, cursor: str, text: str) -> Event:
    try:
        object = _decode_all(text)
    except StopIteration as error:
        raise ValueError("no JSON value") from error
    except (ValueError, RecursionError) as error:
        if not _is_valid(error):
            raise
        event = decode_object(type, cursor, _decode_members(_members(text)))
        event._object, event._text = None, text
        return event
    return decode_object(type, cursor, object)


def read_members(text: str) -> dict[str, Any] | None:
    """The members of a JSON object without those that cannot be decoded: none for JSON of another kind, and None for a text
    that is no JSON."""
    try:
        return _decode_members(_members(text))
    except ValueError:
        pass
    try:
        _decode_all(text)
    except StopIteration:
        return None
    except (ValueError, RecursionError) as error:
        return {} if _is_valid(error) else None
    return {}


def has_seq(text: str) -> bool:
    """Whether a text is the JSON object of an event of the server."""
    if _head(text) is not None:
        return True
    try:
        seq = _decode_members(_members(text)).get("seq")
    except ValueError:
        return False
    return type(seq) is int and seq > 0


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
