"""The messages between a local client and server before the token is sent; the server's side is the package
internal/serverproof."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any

import h11

from .errors import NetworkError, UnprovenError

#: Bounds the proof of one connection, in seconds.
PATIENCE = 30.0
#: Bounds the answer, in bytes.
_BOUND = 64 << 10
_LABEL = "reprise server proof 1"


def answer(token: str, challenge: str, address: str) -> str:
    """The code for a challenge over a connection to an address, such as "127.0.0.1:7070"."""
    key = hashlib.sha256(f"{_LABEL}\n{token}".encode()).digest()
    text = f'{_LABEL}\n"{challenge}"\n"{address}"'
    return base64.urlsafe_b64encode(hmac.digest(key, text.encode(), "sha256")).rstrip(b"=").decode()


def text_of(address: Any) -> str:
    """The text of the address of a socket, ("127.0.0.1", 7070) or ("::1", 7070, 0, 0)."""
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Question:
    """A challenge over one connection, and its answer."""

    def __init__(self, host: str, address: str, token: str) -> None:
        self._address, self._token = address, token
        self._challenge = secrets.token_urlsafe(24)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_BOUND)
        target = f"/v1/proof?challenge={self._challenge}"
        headers = [("Host", host), ("Accept", "application/json")]
        self.request = self._http.send(h11.Request(method="GET", target=target, headers=headers)) or b""
        self._http.send(h11.EndOfMessage())
        self._status, self._body = 0, b""
        self.answered = False

    def feed(self, received: bytes) -> None:
        """Takes the received bytes, b"" at the end of the connection."""
        try:
            self._http.receive_data(received)
            while (event := self._http.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > _BOUND:
                        raise self._unproven()
                elif isinstance(event, h11.EndOfMessage):
                    self.answered = True
                    return
                elif isinstance(event, h11.ConnectionClosed):
                    raise NetworkError("the connection was closed before the server has proven itself", unsent=True)
        except h11.RemoteProtocolError as error:
            if received == b"":
                raise NetworkError("the connection was lost before the server has proven itself", unsent=True) from error
            raise self._unproven() from error

    def check(self) -> None:
        """Raises UnprovenError unless the answer is a proof."""
        if self._status == 503:
            raise NetworkError(f"the program at {self._address} is not ready to prove that it is the server", unsent=True)
        try:
            proof = json.loads(self._body)["proof"]
        except (ValueError, RecursionError, KeyError, TypeError):
            proof = None
        want = answer(self._token, self._challenge, self._address)
        good = isinstance(proof, str) and hmac.compare_digest(proof.encode(errors="replace"), want.encode())
        if self._status != 200 or not good:
            raise self._unproven()

    def _unproven(self) -> UnprovenError:
        return UnprovenError(
            f"not proven to be the server of this machine: the program at {self._address} (status {self._status}) may be "
            "another program, an older version or a proxy; set REPRISE_TOKEN to send the token all the same"
        )
