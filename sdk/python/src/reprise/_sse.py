"""A decoder of text/event-stream, as in section 9.2, "Server-sent events", of the HTML standard.

It decodes bytes only, without HTTP, reconnection, or the meaning of an id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

MAX_BYTES = 16 << 20  # of a line, and of the data of an event
MAX_HELD = 256 << 10  # of the beginning of an event, which split would otherwise copy with each chunk

_BOM = b"\xef\xbb\xbf"
_line_end = re.compile(rb"[\r\n]").search


class TooLong(ValueError):
    """A line or an event exceeds the limit."""


#: One block that dispatches an event, or has an id: the id, None where the block has none; the type; and the data, None for a
#: block that dispatches nothing.
Frame: TypeAlias = tuple[str | None, str, str | None]


class Decoder:
    """Reads one response. `retry` is the newest reconnection time in the stream, in seconds."""

    def __init__(self, max_bytes: int = MAX_BYTES, on_comment: Callable[[], None] | None = None) -> None:
        self.retry: float | None = None
        self._max = max_bytes
        self._on_comment = on_comment
        self._parts: list[bytes] = []  # of a line whose end has not come
        self._length = 0  # of the parts
        self._begun = False  # the first line is behind, and with it a byte order mark
        self._after_cr = False  # a LF that comes next belongs to the CR before
        self._held = b""  # the beginning of an event, which split has not returned
        self._reset()

    def _reset(self) -> None:
        self._fresh = True  # no field of a block was read
        self._id: str | None = None
        self._type = ""
        self._data: list[bytes] = []
        self._size = 0

    def split(self, chunk: bytes) -> tuple[bytes, str, bytes]:
        """Splits a chunk into the bytes that complete the current block, the text of whole blocks whose lines end with LF, and
        the rest. All of them may be passed to feed, in this order. Bytes that are not UTF-8 are U+FFFD in the text, which feed
        reads as the same. The beginning of an event is no rest: it comes with the next chunk."""
        if self._held:
            chunk, self._held = self._held + chunk, b""
        head = 0
        if not self._fresh or self._parts:
            head = chunk.find(b"\n\n") + 2
            if head == 1:
                return chunk, "", b""
        elif not self._begun:
            return chunk, "", b""
        last = chunk.rfind(b"\n\n", head) + 2
        if last == 1 or self._after_cr or b"\r" in chunk:
            return chunk, "", b""
        rest = chunk[last:]
        if rest.startswith(b"event: ") and len(rest) <= MAX_HELD:
            self._held, rest = rest, b""
        return chunk[:head], _text(chunk[head:last]), rest

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yields the frames that chunk completes. The iterator must be used up before the next call.

        Raises TooLong.
        """
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        if self._parts and _line_end(chunk) is None:
            self._keep(chunk)
            return
        buf = b"".join((*self._parts, chunk)) if self._parts else chunk
        self._parts, self._length = [], 0
        pos, end = 0, len(buf)
        while pos < end:
            found = _line_end(buf, pos)
            if found is None:
                self._keep(buf[pos:])
                return
            at = found.start()
            line = buf[pos:at]
            pos = at + 1
            # The LF that may follow a CR is not waited for: an event must not be late by what comes after it.
            if buf[at] == 0x0D:
                if pos == end:
                    self._after_cr = True
                elif buf[pos] == 0x0A:
                    pos += 1
            frame = self._line(line)
            if frame is not None:
                yield frame

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        self._check_line(self._length)
        if part:
            self._parts.append(part)

    def _check_line(self, length: int) -> None:
        # The bound is meant for values; a field name, a byte order mark and a space come on top.
        if length > self._max + len(_BOM) + len("event: "):
            raise TooLong(f"a line of more than {self._max} bytes")

    def _line(self, line: bytes) -> Frame | None:
        """Processes one line, and returns the frame that it completes."""
        self._check_line(len(line))
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._size += len(value)
            if self._size > self._max:
                raise TooLong(f"an event of more than {self._max} bytes")
            self._data.append(value)
            self._size += 1
            self._fresh = False
        elif name == b"id":
            if b"\0" not in value:
                self._id = _text(value)
                self._fresh = False
        elif name == b"event":
            self._type = _text(value)
            self._fresh = False
        elif name == b"retry":
            if value.isdigit():  # of bytes: ASCII digits
                self.retry = min(int(value[:18]), 10**15) / 1000
        elif not name and self._on_comment is not None:
            self._on_comment()
        return None

    def _dispatch(self) -> Frame | None:
        if self._fresh:
            return None
        frame = None
        if self._data or self._id is not None:
            data = _text(b"\n".join(self._data)) if self._data else None
            frame = (self._id, self._type or "message", data)
        self._reset()
        return frame


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
