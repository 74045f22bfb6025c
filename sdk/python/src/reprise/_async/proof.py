"""The proof of a local server that it knows the token, before the client sends the token."""

from __future__ import annotations

import time
from typing import Any

from .. import _proof
from ..errors import NetworkError


async def prove(stream: Any, host: str, token: str) -> None:
    """Requests a proof over a new connection, a stream of httpcore. Raises UnprovenError."""
    deadline = time.monotonic() + _proof.PATIENCE
    question = _proof.Question(host, _proof.text_of(stream.get_extra_info("server_addr")), token)
    await stream.write(question.request, timeout=_proof.PATIENCE)
    while not question.answered:
        left = deadline - time.monotonic()
        if left <= 0:
            raise NetworkError("the server takes too long to prove itself", unsent=True)
        question.feed(await stream.read(1 << 14, timeout=left))
    question.check()
