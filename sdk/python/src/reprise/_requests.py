"""The requests with a body or a query."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _receipts, _wire
from ._wire import Duration, Request, duration_text, json_request

#: The members of a start that are time spans.
_SPANS = ("timeout", "grace")


def listing(kind: str, limit: int | None, cursor: str) -> Request:
    """A page of a list."""
    query = [("limit", str(limit))] if limit is not None else []
    if cursor:
        query.append(("cursor", cursor))
    return Request(f"list {kind}", "GET", f"/v1/{kind}", query)


def page(op: str, path: str, after: str, limit: int | None, wait: Duration, types: Sequence[str]) -> Request:
    """A page of events."""
    query = [("after", after)] if after else []
    if limit is not None:
        query.append(("limit", str(limit)))
    if wait:
        query.append(("wait", duration_text(wait)))
    if types:
        query.append(("types", ",".join(types)))
    return Request(op, "GET", path + "/events", query, patient=bool(wait))


def create_stream(name: str, retention: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> Request:
    """The creation of a stream."""
    body: dict[str, Any] = {}
    if retention:
        body["retention"] = _retention(retention)
    if labels:
        body["labels"] = dict(labels)
    return json_request(f"create stream {name}", "PUT", _wire.named_path("streams", name), body)


def configure(kind: str, name: str, retention: Mapping[str, Any] | None, labels: Mapping[str, str | None] | None) -> Request:
    """A change of a stream or an execution."""
    body: dict[str, Any] = {}
    if retention:
        body["retention"] = _retention(retention)
    if labels:
        body["labels"] = dict(labels)
    return json_request(f"configure {kind[:-1]} {name}", "PATCH", _wire.named_path(kind, name), body)


def start(command: Sequence[str] | str | None, members: Mapping[str, Any]) -> tuple[Request, str]:
    """The start of an execution and its id, "" with a key of either kind. Every attempt sends the same request."""
    body = execution(command, members)
    headers = {"Content-Type": _wire.JSON}
    hold = body.pop("hold", None)
    if (key := body.pop("idempotency_key", None)) is not None:
        headers["Idempotency-Key"] = key
    id = body.get("id", "")
    if not id and not key and not body.get("key"):
        id = body["id"] = secrets.token_hex(16)
    text = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    query = [("hold", duration_text(hold))] if hold else []
    if hold:
        headers[_receipts.HEADER] = "yes"
    return Request(f"start execution {id or body.get('key') or key}", "POST", "/v1/executions", query, headers, text), id


def has_key(members: Mapping[str, Any]) -> bool:
    """Whether the server chooses the id of an execution, which it derives from a key."""
    return bool(members.get("key") or (members.get("idempotency_key") and not members.get("id")))


def execution(command: Sequence[str] | str | None, members: Mapping[str, Any]) -> dict[str, Any]:
    """The description of an execution."""
    body = {name: value for name, value in members.items() if value is not None}
    if isinstance(command, str):
        body["command"] = command
    elif command is not None:
        body["argv"] = list(command)
    if isinstance(given := body.get("stdin"), (bytes, bytearray, memoryview)):
        del body["stdin"]
        body["stdin_base64"] = base64.b64encode(given).decode()
    for name in _SPANS:
        if name in body:
            body[name] = duration_text(body[name])
    if retention := body.get("retention"):
        body["retention"] = _retention(retention)
    if (limits := body.get("limits")) and "cpu_time" in limits:
        body["limits"] = {**limits, "cpu_time": duration_text(limits["cpu_time"])}
    return body


def _retention(members: Mapping[str, Any]) -> dict[str, Any]:
    retention = dict(members)
    for name in ("max_age", "max_idle", "max_age_each"):
        if name in retention:
            retention[name] = duration_text(retention[name])
    return retention


def publish_once(name: str, key: str, events: Iterable[tuple[str, Any]]) -> Request:
    """Appends events under a key."""
    body = {"events": [{"type": type, "data": data} for type, data in events]}
    request = json_request(f"publish to {name}", "POST", _wire.named_path("streams", name, "/events"), body)
    request.headers["Idempotency-Key"] = key
    return request
