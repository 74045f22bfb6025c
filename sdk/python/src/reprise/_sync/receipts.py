# Made by tools/unasync.py of ../_async/receipts.py: change that file.
"""Receipts for held output."""

from __future__ import annotations

import threading

from .._io import Background, wait_for
from .._receipts import MAX_PAUSE, MIN_PAUSE, Wanted
from .._retry import Failures
from ..errors import RepriseError
from .http import Transport


class Receipts:
    """Reports handled events to a server that holds output back, beside the loop. Sent but unhandled events may be lost with
    the connection, so the server keeps them."""

    def __init__(self, transport: Transport, wanted: Wanted) -> None:
        self._transport, self._wanted = transport, wanted
        self._seq = 0  # of the last handled event
        self._told = 0  # of the last receipt that was sent, whether or not it has arrived
        self._bytes = 0  # that were handled since
        self._some, self._many = threading.Event(), threading.Event()  # a receipt is due later, or at once
        self._ended = threading.Event()
        self._background = Background(self._run)

    def handled(self, seq: int, size: int = 0) -> None:
        """Records that the loop has handled all events up to seq, and with the last one of what was received together its
        size."""
        self._bytes += size
        if seq > self._seq:
            self._seq = seq
        elif not size:
            return
        if self._seq > self._told and not self._some.is_set():
            self._some.set()
        enough = self._seq - self._told >= self._wanted.events or self._bytes >= self._wanted.bytes
        if enough and not self._many.is_set():
            self._many.set()

    def _run(self) -> None:
        failures = Failures(MIN_PAUSE, MAX_PAUSE)
        while not self._ended.is_set():
            wait_for(self._some, None)
            wait_for(self._many, self._wanted.every)
            self._some.clear()
            self._many.clear()
            if self._ended.is_set():
                return
            self._bytes, self._told = 0, self._seq
            try:
                self._transport.call_once(self._wanted.receipt(self._told))
                failures = Failures(MIN_PAUSE, MAX_PAUSE)
            except (RepriseError, RuntimeError):  # the latter where the program has closed the client
                wait_for(self._ended, failures.next(0))
                self._some.set()

    def close(self) -> None:
        """Ends the sending of receipts."""
        self._ended.set()
        self._some.set()
        self._many.set()
        self._background.close()
