"""Receipts for held output, in their wire form; nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ._wire import Request, parse_duration

#: Announces in a request that the loop sends receipts. In an answer it is the number of events and bytes that the server lets
#: lie without a receipt.
HEADER = "Execution-Receipts"

#: The longest delay of a receipt for a few events, in seconds. It is shorter for a server with little patience.
EVERY = 1.0
#: The spans of the first and of the longest pause after a failed receipt.
MIN_PAUSE, MAX_PAUSE = 0.05, 10.0

_counts = re.compile(r"events=([0-9]+), bytes=([0-9]+)")


@dataclass(frozen=True)
class Wanted:
    """What a server that holds output back wants to know, and when."""

    op: str
    path: str
    hold: str  # names the loop
    #: The handled events and bytes that make a receipt due at once: a quarter of what may lie without one.
    events: float
    bytes: float
    #: Seconds until fewer of them make it due.
    every: float

    def receipt(self, seq: int) -> Request:
        """The request that says that the events up to seq were handled."""
        return Request(self.op, "POST", self.path, [("seq", str(seq))], {"Execution-Hold": self.hold}, empty=True)


def wanted(start: Request, path: str, headers: Mapping[str, str]) -> Wanted | None:
    """What the answer to start, a request for the execution at path, asks for; None if it asks for no receipts."""
    found = _counts.fullmatch(headers.get(HEADER.lower(), ""))
    if found is None:
        return None
    try:
        patience = parse_duration(dict(start.query).get("hold", ""))
    except ValueError:
        patience = 4 * EVERY
    enough = [max(1.0, int(count) / 4) for count in found.groups()]
    hold = headers.get("execution-hold", "")
    return Wanted(start.op, f"{path}/receipts", hold, enough[0], enough[1], min(EVERY, patience / 4))
