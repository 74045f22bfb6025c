"""The state of one loop over the events of a stream, without any input or output.

The code around it (see `_async`) sends the result of `request`, passes in the received bytes, and waits as long as `failed`
returns.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, TypeAlias

from . import _receipts
from ._foreign import is_foreign_block
from ._log import log
from ._retry import Failures, ForeignSpell, asked_wait, is_foreign
from ._sse import Decoder, Frame, TooLong
from ._track import Track, is_cursor_text, parse_cursor
from ._wire import EVENT_STREAM, Request, header
from .errors import GapError, NetworkError, ProblemError, ProtocolError, RepriseError
from .events import Event, Gap, Series, decode_event, has_seq

GAP_CODES = frozenset(("cursor_expired", "epoch_changed", "cursor_ahead"))
MAX_ASKED = 3600.0  # between connections, for a server that asks for more
#: How old a connection must be for a heartbeat to make it a success: a server that ends each connection after a comment
#: would otherwise be asked again without a wait.
MIN_PRODUCTIVE = 1.0
#: How often in a row an answer may break the protocol before the loop gives up: once may be a damaged line, and a lasting
#: defect must not be hammered.
MAX_FAULTS = 3

#: How long a loop without give_up tries to reach the server for the first time.
FIRST_CONTACT = 10.0

#: How many answers in a row with a header and no body make the loop poll: a proxy holds back answers until they are complete.
HELD_ANSWERS = 2
MAX_POLL = 60.0  # seconds, the longest wait that the server accepts

#: The types that mean something here.
_OWN_TYPES = frozenset(("started", "end", "gap", "cursor"))

#: Of events in the usual form: their types, JSON objects, seqs, and published values, "" for events without.
Columns: TypeAlias = tuple[list[str], list[str], list[str], list[str]]


@lru_cache(maxsize=64)
def _usual_form(rest: str) -> Callable[[str], list[Any]]:
    """Splits a text at the events of an epoch that have the usual form of the server:

        event: TYPE
        data: {"seq":7,"time":"...","data":VALUE}
        id: 7.EPOCH.TAG

    The list has what is between two events, and then the columns of the next one. A single pattern finds all events, which is
    faster than steps for each."""
    data = r'data: (\{"seq":([0-9]+),"time":"[^"\n]*",(?:"data":|.*(?=\}\n))(.*)\})\n'
    return re.compile(rf"event: (.+)\n{data}id: \3{re.escape(rest)}\n\n").split


@dataclass(frozen=True)
class Drop:
    """Reports a connection that was lost or could not be opened."""

    error: RepriseError
    #: Seconds since the first failure in a row, and how many there have been.
    since: float
    tries: int
    #: Seconds until the next try, 0 for the first one after a connection that has brought something.
    wait: float
    #: That of the last event that was received, 0 where there is none or it is not known.
    seq: int
    #: The server has answered this client. What answers before may be something else.
    met: bool


@dataclass
class FollowOptions:
    """How to follow; see Reprise.follow."""

    after: str = ""
    types: Sequence[str] = ()
    on_gap: Literal["event", "raise"] = "event"
    idle_timeout: float = 45.0
    give_up: float | None = None
    save_every: float = 0.1
    on_drop: Callable[[Drop], None] | None = None
    on_connected: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.types, str):
            raise TypeError("types is a list of event types")
        if self.on_gap not in ("event", "raise"):
            raise ValueError("on_gap is 'event' or 'raise'")
        if not self.idle_timeout > 0:
            raise ValueError("idle_timeout is a positive number of seconds")


@dataclass
class Met:
    """Whether the server has answered a client."""

    url: str
    yes: bool = False


@dataclass
class Flow:
    """One loop. `ended` is true once all events of the stream were yielded."""

    op: str
    path: str  # of the execution or stream
    start: Request | None  # sent in place of the first GET, until an event has come
    options: FollowOptions
    failures: Failures
    met: Met

    track: Track = field(init=False)
    ended: bool = False
    live: bool = False  # the connection has brought an event or a heartbeat
    _useful: bool = False  # it has brought something new
    from_first: bool = False  # the reader has asked for all events there ever were
    _retry: float = 0.0  # what the server has asked for between connections
    _hold: str = ""  # names this loop to a server that holds output back for it
    receipts: _receipts.Wanted | None = None  # that server asks for them
    _faults: int = 0  # in a row against the protocol
    _begun: float = 0.0  # when the present answer began
    _tail: int = 0  # the seq of the tail at the beginning of the answer, until it is reached
    _held: bool = False  # the header of an answer has come, and no byte of its body
    _silent: int = 0  # such answers in a row
    _unknown: bool = False  # the server is older than the parameter wait
    _beat: float = 0.0  # when the present answer has brought a heartbeat, 0 before
    _dropped: NetworkError | None = None  # the end of a response before that of the stream
    _spell: ForeignSpell = field(default_factory=ForeignSpell)
    _decoder: Decoder = field(default_factory=Decoder)

    def __post_init__(self) -> None:
        self.track = Track(filtered=bool(self.options.types))

    def begin(self, saved: str) -> bool:
        """Begins at the saved cursor, or else at the position in the options. True if the cursor of the tail must be requested:
        without it, a connection that is lost before its first event would have no position to resume from."""
        after = saved or ("" if self.start is not None else self.options.after)
        if after in ("", "0"):
            self.from_first = True
        elif after == "tail":
            return True
        elif after != "earliest":
            if not is_cursor_text(after):
                raise ValueError(f"{after!r} is no cursor")
            self.track.begin(after)
        return False

    def request(self) -> Request:
        """The request for the next events."""
        self.state("polling" if self._polls else "connecting")
        if self.start is not None and not self.track.cursor and not self._polls:
            return self.start
        headers = {"Accept": EVENT_STREAM, "Cache-Control": "no-cache"}
        if self.track.cursor:
            headers["Last-Event-ID"] = self.track.cursor
        if self._hold:
            headers["Execution-Hold"] = self._hold
        if self.receipts is not None:
            headers[_receipts.HEADER] = "yes"
        query: list[tuple[str, str]] = []
        if self._polls:
            query.append(("wait", f"{1000 * self._wait:.0f}ms"))
        if self.options.on_gap == "event":
            query.append(("gap", "event"))
        if not self.track.cursor and not self.from_first:
            query.append(("after", "earliest"))  # what is kept, without a gap for what is not
        if types := list(self.options.types):
            if "end" not in types:
                types.append("end")  # the loop must know it
            query.append(("types", ",".join(types)))
        return Request(self.op, "GET", self.path + "/events", query, headers)

    @property
    def _polls(self) -> bool:
        """Whether the loop asks for answers that end with the first events, or after a wait."""
        return self._silent >= HELD_ANSWERS and not self._unknown

    @property
    def _wait(self) -> float:
        """The seconds that an answer to a poll may take."""
        return min(self.options.idle_timeout / 3, MAX_POLL)

    def _polled(self, error: RepriseError, held: bool) -> bool:
        """Whether an answer ended with error as a poll does. Decides how the next request is made: the server sends a heartbeat
        in the middle of a poll, which shows whether answers are still held back."""
        polled = self._polls and error is self._dropped
        if held and isinstance(error, NetworkError) and error.silent:
            self._silent += 1
            error.args = (f"{error}: a header came and no event, so a proxy may hold the answer back",)
        elif (0 < self._beat <= time.monotonic() - self._wait / 4) if polled else (self.live and not self._polls):
            self._silent = 0
        return polled

    def answered(self, headers: Mapping[str, str]) -> Iterator[Event]:
        """Handles the header of an answer with events, and yields a gap that it shows."""
        self.met.yes = True
        self._hold = header(headers, "execution-hold") or self._hold
        if self.receipts is None and self.start is not None:
            self.receipts = _receipts.wanted(self.start, self.path, headers)
        self.live = self.live and self._polls
        self._useful, self._held, self._beat, self._begun = False, True, 0.0, time.monotonic()
        self._decoder = Decoder(on_comment=self._heartbeat)
        tail = parse_cursor(header(headers, "stream-tail"))
        self._tail = tail.seq if tail is not None else 0
        self.track.answered(header(headers, "stream-tail"))
        earliest = header(headers, "stream-earliest")
        at = parse_cursor(earliest)
        if self.options.on_gap == "event" and headers.get("stream-missed") and self.start is None:
            return  # the server reports the gap by an event
        # The first seq of a reader of some types shows nothing: the head says where the stream begins.
        if self.from_first and not self.track.cursor and self.track.filtered and at is not None and at.seq > 0:
            yield from self._gap(_start_gap(earliest, at.seq, None))

    def state(self, name: str, detail: str = "") -> None:
        """Writes the state of the loop to the debug log."""
        log.debug("%s: %s at %s %s", self.op, name, self.track.cursor or "the start", detail)

    def reading(self) -> None:
        """Notes that the loop waits for bytes: it has caught up once all events up to the tail have come."""
        if 0 < self._tail <= self.track.seq:
            self._tail = 0
            self.state("caught up")

    def _heartbeat(self) -> None:
        # A connection that is cut after it was of use: a proxy that cuts quiet ones is no reason to wait longer and longer.
        self._beat = time.monotonic()
        if self._beat - self._begun >= MIN_PRODUCTIVE:
            self.failures.succeeded()
        self._alive()

    def _alive(self) -> None:
        if not self.live:
            self.live = True
            self.state("live")
            if self.options.on_connected is not None:
                self.options.on_connected()

    def _progress(self) -> None:
        if not self._useful:
            self._useful = True
            self.failures.succeeded()
            self._faults = 0
            self._alive()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yields the events that chunk completes."""
        self._held = False
        return chain.from_iterable(self._parts(chunk))

    def _parts(self, chunk: bytes) -> Iterator[Iterator[Event]]:
        """Yields the iterators that feed consists of; an additional generator would cost time for each event."""
        decoder = self._decoder
        head, text, rest = decoder.split(chunk)
        if head:
            yield self._frames(decoder.feed(head))
        if text and not self.ended:
            yield self._blocks(text)
        if rest and not self.ended:
            yield self._frames(decoder.feed(rest))

    def _blocks(self, text: str) -> Iterator[Event]:
        """Returns the events of whole blocks."""
        rows = self._plain(text)
        return self._mixed_events(text) if rows is None else self._plain_events(*rows)

    def _mixed_events(self, text: str) -> Iterator[Event]:
        """Yields the events of whole blocks of several forms."""
        for block in text.split("\n\n")[:-1]:
            rows = self._plain(block + "\n\n")
            if rows is not None:
                yield from self._plain_events(*rows)
            else:
                yield from self._frames(self._decoder.feed(block.encode() + b"\n\n"))
            if self.ended:
                return

    def _frames(self, frames: Iterator[Frame]) -> Iterator[Event]:
        """Yields the events of frames."""
        wanted = self.options.types
        try:
            for frame in frames:
                event = self._event(frame)
                if event is None:
                    continue
                if event.type == "gap" and isinstance(event, Gap):
                    if not self.track.is_behind(event.code, event.cursor):
                        yield from self._gap(event)
                    continue
                if self.from_first and not self.track.cursor and (gap := self._missing_start(event)) is not None:
                    yield from self._gap(gap)
                if not self.track.advance(event.seq, event.cursor):
                    continue
                self._progress()
                if not wanted or event.type in wanted or event.type == "end":
                    yield event
                if event.type == "end":
                    self.ended = True
                    return
        except TooLong as error:
            raise ProtocolError(str(error)) from error

    def _plain(self, text: str) -> Columns | None:
        """The columns of the events in text, if they are the next ones of their epoch and all have the usual form; None for any
        other text. The JSON is not decoded, because that is most of the work."""
        if not self.track.rest:
            return None
        parts = _usual_form(self.track.rest)(text)
        between, types, numbers = parts[::5], parts[1::5], parts[3::5]
        seqs = range(self.track.seq + 1, self.track.seq + 1 + len(numbers))
        if any(between) or numbers != list(map(str, seqs)) or not _OWN_TYPES.isdisjoint(types):
            return None
        return types, parts[2::5], numbers, parts[4::5]

    def _plain_events(self, types: list[str], objects: list[str], numbers: list[str], values: list[str]) -> Iterator[Event]:
        """Yields the events that plain has found."""
        track, wanted = self.track, self.options.types
        self._progress()
        series, rest = Series(track.seq + 1, values), track.rest
        for seq, (number, type, text) in enumerate(zip(numbers, types, objects, strict=True), track.seq + 1):
            track.seq, track.cursor = seq, (cursor := number + rest)
            if not wanted or type in wanted:
                yield Event(type, seq, cursor, None, text, series)

    def _event(self, frame: Frame) -> Event | None:
        """Makes an event from a frame; None for one that only moves the cursor, or that something in front of the server has
        inserted."""
        cursor, type, data = frame
        if data is None:
            self._skip(cursor or "")
            return None
        # Events of this type that somebody has published have a seq.
        if type == "cursor" and data.startswith("{") and not has_seq(data):
            self._skip(cursor or "")
            return None
        if is_foreign_block(cursor or "", type, data, self.track):
            return None
        try:
            return decode_event(type, cursor or "", data)
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"event {cursor!r}: {error}") from error

    def _skip(self, cursor: str) -> None:
        if self.track.skip(cursor):
            self._progress()

    def _gap(self, gap: Gap) -> Iterator[Event]:
        """Handles the notice that events are gone."""
        if gap.code not in GAP_CODES:
            members = {"code": gap.code, "detail": f"the server refuses the cursor {self.track.cursor}"}
            raise ProblemError(0, members, retryable=False)
        if self.options.on_gap == "raise":
            raise GapError(gap)
        gap.cursor = _after_gap(gap)
        if gap.cursor == self.track.cursor:
            self._alive()  # a server that says so each time must not be asked again at once
        else:
            self._progress()
        self.track.begin(gap.cursor)
        yield gap

    def _missing_start(self, first: Event) -> Gap | None:
        """The gap before the first event of a reader that wants all events. The server reports it only with gap=event, and
        older servers never do."""
        if self.track.filtered or first.seq <= 1:
            return None
        at = parse_cursor(first.cursor)
        cursor = str(at._replace(seq=first.seq - 1)) if at is not None else ""
        return _start_gap(cursor, first.seq - 1, first._readable.get("time"))

    def failed(self, error: RepriseError) -> float:
        """Handles a failed connection: returns the seconds to wait, or raises the error that ends the loop."""
        held, self._held = self._held, False
        if (retry := self._decoder.retry) is not None:
            self._retry = min(retry, MAX_ASKED)
        if isinstance(error, GapError):
            raise error
        polled = self._polled(error, held)
        older = self._polls and isinstance(error, ProblemError) and error.code == "invalid"
        self._unknown = self._unknown or older
        if isinstance(error, ProblemError) and error.code in GAP_CODES:
            raise GapError(_refused_gap(error, self.track)) from error
        fault = isinstance(error, ProtocolError) and not (self.met.yes and is_foreign(error))
        if fault:
            self._faults += 1
        pause = self.failures.next(max(asked_wait(error), self._retry))
        give_up = self.options.give_up
        again = (
            self._spell.allows(error, self.met.yes, give_up, pause)
            or error.retryable
            or (fault and self._faults < MAX_FAULTS)
            or older
        )
        first = not self.met.yes and give_up is None
        if first and isinstance(error, NetworkError) and self.failures.outlasts(FIRST_CONTACT, pause):
            error, cause = self._unreached(error), error
            error.op, error.tries = self.op, self.failures.tries
            raise error from cause
        if not again or self.failures.outlasts(give_up, pause):
            error.op, error.tries = self.op, self.failures.tries
            raise error
        if polled:
            return pause
        self.state("waiting", f"{pause:.3f} s after attempt {self.failures.tries}: {error}")
        if self.options.on_drop is not None:
            since = time.monotonic() - self.failures.since
            self.options.on_drop(Drop(error, since, self.failures.tries, pause, self.track.seq, self.met.yes))
        return pause

    def _unreached(self, error: NetworkError) -> NetworkError:
        """The error of a loop whose server was never reached."""
        seconds = round(time.monotonic() - self.failures.since)
        return NetworkError(
            f"{self.met.url} was not reached in {self.failures.tries} attempts and {seconds} s ({error}): check the URL and "
            "that the server runs; give_up sets how long to wait for it"
        )

    def dropped(self) -> NetworkError:
        """The failure of a response that ends before the stream."""
        self._dropped = NetworkError("the connection ended before the stream")
        return self._dropped


def _after_gap(gap: Gap) -> str:
    """The position at which the stream continues: the cursor of the gap, or the fork if that is later. The events up to the
    fork were received in the previous epoch."""
    at, fork = parse_cursor(gap.cursor), parse_cursor(gap.fork)
    if at is not None and fork is not None and fork.epoch == at.epoch and fork.seq > at.seq:
        return gap.fork
    return gap.cursor


def _start_gap(earliest: str, missed: int, time: object) -> Gap:
    """A notice in the form that the server uses."""
    members = {"code": "cursor_expired", "earliest": earliest, "missed": missed}
    return Gap("gap", 0, earliest, members if time is None else {"time": time, **members})


def _refused_gap(error: ProblemError, track: Track) -> Gap:
    """The gap of a refused cursor, with the known numbers of events."""
    members: dict[str, object] = {"code": error.code}
    for name in ("earliest", "tail", "fork"):
        if value := getattr(error, name):
            members[name] = value
    asked, earliest, fork = parse_cursor(track.cursor), parse_cursor(error.earliest), parse_cursor(error.fork)
    resume = error.earliest
    if asked is not None and earliest is not None:
        if error.code == "cursor_expired":
            members["missed"] = max(earliest.seq - asked.seq, 0)
        elif error.code == "epoch_changed" and fork is not None:
            members["missed"] = max(earliest.seq - fork.seq, 0)
            members["taken_back"] = max(asked.seq - fork.seq, 0)
            if fork.seq > earliest.seq:
                resume = error.fork
    return Gap("gap", 0, resume, members)
