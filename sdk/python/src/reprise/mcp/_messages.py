"""Messages and event ids, as text."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any
from urllib.parse import unquote

from ..events import End, Event, Gap

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_SCOPED = re.compile(r"32:[0-9a-f]{32}:(.*)", re.DOTALL).fullmatch

GET_STREAM = "_GET_stream"  # the SDKs' name of the stream of messages that belong to no call


def dump(message: Any) -> str:
    """The JSON text of a message: of 2.x, or the wrapper of 1.x."""
    if hasattr(message, "root"):
        return str(message.model_dump_json(by_alias=True, exclude_none=True))
    return str(message.model_dump_json(by_alias=True, exclude_unset=True))


def load(text: str | bytes) -> Any:
    """The message of a JSON text."""
    try:
        from mcp_types import jsonrpc_message_adapter
    except ImportError:  # 1.x
        from mcp.types import JSONRPCMessage

        return JSONRPCMessage.model_validate_json(text)  # type: ignore[attr-defined]
    return jsonrpc_message_adapter.validate_json(text)


def answers(text: str, stream: str) -> bool:
    """Whether a message is the response to the call of a stream."""
    message = json.loads(text)
    return "method" not in message and ("result" in message or "error" in message) and str(message.get("id")) == own(stream)


def own(stream: str) -> str:
    """The SDK's name of a stream. FastMCP puts a scope before it."""
    found = _SCOPED(stream)
    return found[1] if found else stream


def segment(text: str) -> str:
    """A segment of a stream's name that represents a text."""
    return text if _SAFE(text) else "." + hashlib.sha256(text.encode()).hexdigest()


def block(id: str, text: str) -> bytes:
    """An event on the wire. Its JSON is a single line also for readers that split lines as Python does."""
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\u0085", "\\u0085")
    return f"event: message\ndata: {text}\nid: {id}\n\n".encode()


def lost(stream: str) -> str:
    """The answer to a call whose process has died."""
    request: str | int = int(stream) if stream.isascii() and stream.isdigit() else stream
    error = {"code": -32603, "message": "the server was lost during the call", "data": {"code": "server_lost"}}
    return json.dumps({"jsonrpc": "2.0", "id": request, "error": error})


class Reader:
    """Assembles messages from events."""

    def __init__(self, key: str) -> None:
        self._stream = own(unquote(key))
        self._parts: list[str] = []

    def message(self, event: Event) -> str | None:
        """The JSON text of the message that an event completes."""
        if isinstance(event, Gap):
            return self._missing(event.code, event.missed)
        if event.type == "hole":
            return self._missing("message_lost", 1)
        if event.type == "part":
            self._parts.append(event.text)
            return None
        last = event.data if isinstance(event, End) else event.text
        call = not self._stream.startswith("_")
        if isinstance(event, End) and event.outcome == "failed" and not isinstance(last, str) and call:
            self._parts.clear()
            return lost(self._stream)  # ended by the server, because it was idle for too long
        text = "".join((*self._parts, last)) if isinstance(last, str) else None
        self._parts.clear()
        return text

    def _missing(self, code: str, missed: int) -> str:
        self._parts.clear()
        data = {"code": code, "missed": missed}
        params = {"level": "error", "logger": "reprise", "data": data}
        return json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
