"""Blocks that something in front of the server has inserted."""

from __future__ import annotations

from typing import Any

from ._track import Track, parse_cursor
from .errors import NetworkError
from .events import read_members


def is_foreign_block(cursor: str, type: str, data: str, track: Track) -> bool:
    """Whether a block with data is not provably the server's: something in front of the server may insert blocks on each
    connection, with any id. Such a block neither ends the loop nor moves the cursor. A block that claims to be the server's and
    is damaged is not meant."""
    at = parse_cursor(cursor)
    if at is not None and track.owns(at.epoch) and data.startswith(f'{{"seq":{at.seq},'):
        return False  # without decoding it
    members: dict[str, Any] | None = read_members(data)
    seq: Any = members.get("seq") if members is not None else None
    is_event = type_of(seq) is int and seq > 0
    is_gap = members is not None and type == "gap" and isinstance(members.get("code"), str)
    if members is not None and not is_event and not is_gap:
        return True  # every event of the server has a seq
    is_stamped = members is not None and is_event and isinstance(members.get("time"), str)
    if not cursor:
        return not is_stamped  # damaged, if it has what every event of the server has
    if at is None:
        return track.judges or not (is_stamped or is_gap)
    if members is None:
        return track.judges and (not track.owns(at.epoch) or (track.known and at.seq <= track.seq))
    if not track.judges or track.owns(at.epoch):
        return False
    if is_gap:  # it may be what brings a new epoch
        earliest = parse_cursor(str(members.get("earliest") or ""))
        return members["code"] != "epoch_changed" or earliest is None or earliest.epoch != at.epoch
    if track.doubts(at, seq):
        raise NetworkError("the epoch of the stream may have changed")
    return at.seq != seq or not track.follows(at.seq)


#: The builtin, since the parameter `type` is the type of an event.
type_of = type
