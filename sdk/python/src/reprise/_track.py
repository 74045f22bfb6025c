"""The position of a reader, with the proof that no event is missing or repeated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from .errors import ProtocolError

_form = re.compile(r"(0|[1-9][0-9]{0,19})\.([0-9A-HJKMNP-TV-Z]{16})\.([0-9A-HJKMNP-TV-Z]{13})").fullmatch


class Cursor(NamedTuple):
    """The content of a cursor. It is opaque to users of this package; the package checks its seq and epoch."""

    seq: int
    epoch: str
    tag: str

    def __str__(self) -> str:
        return f"{self.seq}.{self.epoch}.{self.tag}"


def parse_cursor(text: str) -> Cursor | None:
    """Returns None for a text in another form."""
    found = _form(text)
    if found is None or (seq := int(found[1])) >= 1 << 64:
        return None
    return Cursor(seq, found[2], found[3])


def is_cursor_text(text: str) -> bool:
    """Whether text can be sent as a cursor: printable ASCII."""
    return 0 < len(text) <= 1024 and all("!" <= c <= "~" for c in text)


@dataclass(slots=True)
class Track:
    """The position of a reader.

    A cursor in an unknown form is sent back unchanged, and the proof then begins with the first event.
    """

    filtered: bool  # events are left out by their type, and seq grows by more than 1
    cursor: str = ""  # to resume from; "" before the first event
    seq: int = 0  # of the last event, and its epoch; of use if known is true
    epoch: str = ""
    known: bool = False
    rest: str = ""  # of the cursor after its seq, which is the same for all of an epoch
    head: str = ""  # the epoch that the header of the present answer names
    stranger: str = ""  # an epoch for which the server was asked

    def answered(self, tail: str) -> None:
        """Notes the position of the tail in the header of an answer."""
        at = parse_cursor(tail)
        self.head = at.epoch if at is not None else ""

    @property
    def judges(self) -> bool:
        """Whether the epoch of the stream is known, so that owns tells something."""
        return bool(self.head) or (self.known and bool(self.epoch))

    def owns(self, epoch: str) -> bool:
        """Whether an epoch is one of this stream: that of the present answer, or of the last event."""
        return bool(epoch) and (epoch == self.head or (self.known and epoch == self.epoch))

    def follows(self, seq: int) -> bool:
        """Whether an event of an epoch that the stream did not have may be the next one of it: the server continues in another
        epoch without a gap if the reader has nothing that was lost."""
        return self.known and not self.filtered and seq == self.seq + 1

    def doubts(self, at: Cursor, seq: int) -> bool:
        """Whether only the header of another answer can tell if an event of another epoch is the server's: for a reader of some
        types, a seq proves nothing. True once for an epoch."""
        if not self.filtered or self.owns(at.epoch) or at.seq != seq:
            return False
        if (self.known and seq <= self.seq) or at.epoch == self.stranger:
            return False
        self.stranger = at.epoch
        return True

    def begin(self, cursor: str) -> None:
        """Begins again at a cursor."""
        self.cursor, self.seq, self.epoch, self.known, self.rest = cursor, 0, "", False, ""
        if (at := parse_cursor(cursor)) is not None:
            self._set(cursor, at.seq, at)

    def _set(self, cursor: str, seq: int, at: Cursor | None) -> None:
        self.cursor, self.seq, self.known = cursor, seq, True
        self.epoch, self.rest = ("", "") if at is None else (at.epoch, f".{at.epoch}.{at.tag}")

    def _is_renewed(self, at: Cursor) -> bool:
        """Whether a cursor is of another epoch. The server continues in another epoch without a gap if everything that the
        reader has is part of its history. The seq then continues as within an epoch."""
        return self.known and self.epoch != "" and at.epoch != self.epoch

    def advance(self, seq: int, cursor: str) -> bool:
        """Moves to an event; false for a repeated one. Raises ProtocolError for one that does not follow."""
        if self.known and seq == self.seq + 1 and self.rest and cursor == f"{seq}{self.rest}":
            self.seq, self.cursor = seq, cursor
            return True
        at = parse_cursor(cursor)
        if at is not None and at.seq != seq:
            raise ProtocolError(f"event {seq} has the cursor of {at.seq}")
        if at is not None and self._is_renewed(at) and seq <= self.seq:
            raise ProtocolError(f"event {seq} of another epoch comes after {self.seq}")
        if self.known and seq <= self.seq:
            return False
        if self.known and not self.filtered and seq != self.seq + 1:
            raise ProtocolError(f"event {seq} comes after {self.seq}")
        self._set(cursor, seq, at)
        return True

    def is_behind(self, code: str, cursor: str) -> bool:
        """Whether a gap is before the reader's position, so that nothing is missing: the server has not received the cursor,
        because a proxy does not pass on Last-Event-ID."""
        at = parse_cursor(cursor)
        return code == "cursor_expired" and self.known and at is not None and at.epoch == self.epoch and at.seq <= self.seq

    def skip(self, cursor: str) -> bool:
        """Moves past filtered events, up to a bare cursor. False for one that is not new, and for an id that is not provably
        the server's: the server sends bare ids to readers of some types alone."""
        at = parse_cursor(cursor)
        if not self.filtered or at is None or not self.owns(at.epoch):
            return False
        if self._is_renewed(at) and at.seq <= self.seq:
            raise ProtocolError(f"the bare id {cursor} of another epoch comes after {self.seq}")
        if self.known and at.seq <= self.seq:
            return False
        self._set(cursor, at.seq, at)
        return True
