"""Whether and when a failed request is sent again."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from .errors import NetworkError, ProblemError, ProtocolError, RepriseError

if TYPE_CHECKING:
    from ._config import Config
    from ._flow import Met
    from ._wire import Request

#: For how long an answer that is not the server's is tried again, in seconds, once the server was met.
FOREIGN_PATIENCE = 60.0


class Failures:
    """Counts consecutive failures and computes the wait after each.

    The pause is a random part of a span that doubles with each failure from `first` to `most` (full jitter), on top of the wait
    that the server asks for. It is 0 for the first failure after a success.
    """

    def __init__(self, first: float, most: float) -> None:
        self._first, self._most = first, most
        self._span = 0.0
        self._immediate = False
        self.tries: int = 0
        self.since: float = 0.0  # when the first of them was

    def next(self, asked: float) -> float:
        """Counts a failure and returns the seconds to wait."""
        if self.tries == 0:
            self.since = time.monotonic()
        self.tries += 1
        if self._immediate:
            self._immediate = False
            return 0.0
        self._span = min(self._span * 2 or self._first, self._most)
        return asked + random.random() * self._span

    def succeeded(self) -> None:
        """Records a success: the next failure counts as the first one."""
        self.tries, self._immediate, self._span = 0, True, 0.0

    def outlasts(self, bound: float | None, pause: float) -> bool:
        """Whether a pause would exceed a limit on the time since the first failure; None is no limit."""
        if bound is None:
            return False
        return bound <= 0 or time.monotonic() - self.since + pause > bound


class ForeignSpell:
    """A series of consecutive answers that do not come from the server."""

    def __init__(self) -> None:
        self._since: float | None = None

    def allows(self, error: RepriseError, met: bool, give_up: float | None, pause: float) -> bool:
        """Whether a request that failed with error is sent again after pause."""
        if not met or not is_foreign(error):
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        bound = FOREIGN_PATIENCE if give_up is None else min(FOREIGN_PATIENCE, give_up)
        return now - self._since + pause <= bound


def is_foreign(error: RepriseError) -> bool:
    """Whether an answer does not come from the server: every refusal of the server has a code."""
    if isinstance(error, ProblemError):
        return not error.code
    return isinstance(error, ProtocolError) and error.foreign


def asked_wait(error: RepriseError) -> float:
    """The wait in seconds that the server has asked for."""
    return error.retry_after if isinstance(error, ProblemError) else 0.0


class Patience:
    """Handles the failures of a call, or of a transfer that can be resumed."""

    def __init__(self, config: Config, met: Met) -> None:
        self._give_up, self._met = config.give_up, met
        self._failures = Failures(config.min_wait, config.max_wait)
        self._spell = ForeignSpell()

    def succeeded(self) -> None:
        """Records progress: the next failure counts as the first one."""
        self._failures.succeeded()

    def next(self, request: Request, error: RepriseError) -> float:
        """Returns the seconds to wait before a request is sent again, or raises error."""
        pause = self._failures.next(asked_wait(error))
        bound = 30.0 if self._give_up is None else self._give_up
        again = self._spell.allows(error, self._met.yes, self._give_up, pause) or (
            error.retryable and not self._failures.outlasts(bound, pause)
        )
        if not again or (request.once and not unsent(error)):
            error.op, error.tries = request.op, self._failures.tries
            raise error
        return pause


def unsent(error: RepriseError) -> bool:
    """Whether a request has changed nothing: the server refused it because of a limit, or was not reached. A server whose
    store does not answer may have made the change."""
    if isinstance(error, ProblemError):
        return bool(error.code) and error.status == 429
    return isinstance(error, NetworkError) and error.unsent


def decided(error: BaseException) -> bool:
    """Whether a request had no effect: the server has refused its first attempt finally. An earlier one may have arrived,
    unless the request itself is wrong. A server that has failed may have done what it was asked for."""
    if not isinstance(error, ProblemError) or not error.code or error.retryable or error.status >= 500:
        return False
    return error.tries < 2 or error.code in ("invalid", "payload_too_large")
