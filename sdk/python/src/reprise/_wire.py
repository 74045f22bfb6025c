"""Requests and answers in their wire form; nothing is sent here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from .errors import ProblemError, ProtocolError

#: A time span: seconds, a timedelta, or a text such as "1m30s".
Duration: TypeAlias = "float | timedelta | str"

JSON = "application/json"
BYTES = "application/octet-stream"
EVENT_STREAM = "text/event-stream"
PROBLEM = "application/problem+json"

#: The statuses that a proxy or a starting server answers for a while.
_TRANSIENT = frozenset((408, 425, 429, 500, 502, 503, 504))
#: The content codings that are decoded. "none" is none, and some put it there to keep others from compressing.
_CODINGS = frozenset(("", "identity", "none", "gzip", "x-gzip", "deflate"))
_MAX_WAIT = 86400.0  # a server that asks for more has made a mistake
MAX_PROBLEM = 64 << 10
MAX_ANSWER = 64 << 20


@dataclass
class Request:
    """One request, which can be sent more than once."""

    op: str  # for errors
    method: str
    path: str  # escaped
    query: Sequence[tuple[str, str]] = ()
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    #: Forbids another try of what may have arrived.
    once: bool = False
    #: It waits by its nature: no try of it takes too long.
    patient: bool = False
    #: Bounds one try, in seconds, in place of the client's setting.
    timeout: float | None = None
    #: The answer is 204 and not JSON.
    empty: bool = False

    @property
    def target(self) -> str:
        """The path with the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Answer(dict[str, Any]):
    """The JSON object of an answer. A missing member raises ProtocolError."""

    def __missing__(self, name: str) -> Any:
        raise ProtocolError(f"the answer has no {name!r}")


def json_request(op: str, method: str, path: str, body: object) -> Request:
    """A request with a JSON body. Raises ValueError or TypeError for values that JSON cannot represent."""
    return Request(op, method, path, headers={"Content-Type": JSON}, body=to_json(body))


def to_json(value: object) -> bytes:
    """JSON in UTF-8. Raises ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def named_path(kind: str, name: str, rest: str = "") -> str:
    """The path of an execution, stream, session, task, watch or key. Raises ValueError for a name that is not one segment of a
    path."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} names nothing")
    return f"/v1/{kind}/{quote(name, safe='')}{rest}"


def duration_text(value: Duration) -> str:
    """The text of a time span in the form that the server reads."""
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    return f"{round(seconds * 1000)}ms"


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_part = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Reads a duration of Go, such as "1m30s", as seconds. Raises ValueError."""
    total, at = 0.0, 0
    for found in _part.finditer(text):
        if found.start() != at:
            break
        total, at = total + float(found[1]) * _UNITS[found[2]], found.end()
    if at != len(text) or not text:
        raise ValueError(f"{text!r} is not a duration such as '90s'")
    return total


def media_type(headers: Mapping[str, str]) -> str:
    """The content type of an answer without its parameters."""
    return header(headers, "content-type").partition(";")[0].strip().lower()


def header(headers: Mapping[str, str], name: str) -> str:
    """A header of an answer, "" if it has none. Something in front of the server may repeat it."""
    return headers.get(name, "").partition(",")[0]


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Reads that header, seconds or a date (RFC 9110, section 10.2.3); None if it is invalid."""
    text = headers.get("retry-after", "").strip()
    if (seconds := text.partition(",")[0]).isascii() and seconds.isdigit():
        return min(float(int(seconds[:18])), _MAX_WAIT)
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    wait = (date - (now or datetime.now(timezone.utc))).total_seconds()
    return min(max(wait, 0.0), _MAX_WAIT)


def parse_problem(status: int, headers: Mapping[str, str], body: bytes) -> ProblemError:
    """Makes an error from a response that is not a success.

    If the response does not come from the server, the error has an empty code, and is retryable for temporary statuses.
    """
    members: dict[str, Any] = {}
    if media_type(headers) == PROBLEM:
        try:
            sent = json.loads(body)
        except (ValueError, RecursionError):
            sent = None
        if isinstance(sent, dict) and isinstance(sent.get("code"), str) and sent["code"]:
            members = sent
    wait = 0.0
    if members:
        retryable = members.get("retryable") is True
        try:
            wait = parse_duration(members.get("retry_after") or "0s")
        except (TypeError, ValueError):
            wait = 0.0
    else:
        retryable = status in _TRANSIENT
        members = {"title": _phrase(status)}
    after = retry_after(headers)
    return ProblemError(status, members, retryable=retryable, retry_after=wait if after is None else after)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def not_ours(status: int, headers: Mapping[str, str]) -> ProtocolError:
    """The error for a successful answer in a form that the server does not use."""
    return ProtocolError(
        f"status {status} with content type {headers.get('content-type', '')!r} is not the protocol of Reprise", foreign=True
    )


def coding_of(headers: Mapping[str, str]) -> str:
    """The content coding of an answer: a proxy may compress without being asked to."""
    return headers.get("content-encoding", "").strip().lower()


def check_coding(headers: Mapping[str, str]) -> None:
    """Raises an error for an answer in a content coding that is not decoded."""
    coding = coding_of(headers)
    if coding not in _CODINGS:
        raise ProtocolError(f"the answer has the content coding {coding!r}, which was not asked for", foreign=True)


def redirected(status: int, headers: Mapping[str, str]) -> ProtocolError:
    """The error for a redirect, which is never followed."""
    return ProtocolError(f"status {status}, which leads to {headers.get('location', '')!r}", foreign=True)
