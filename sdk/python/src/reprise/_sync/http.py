# Made by tools/unasync.py of ../_async/http.py: change that file.
"""Sends requests and retries them."""

from __future__ import annotations

import json
import ssl
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from .. import _retry, _wire
from .._coding import Inflater
from .._config import Config
from .._flow import Met
from .._io import LAST_WORD, check_loop, sleep
from .._log import log
from ..errors import NetworkError, ProtocolError, RepriseError
from .proof import prove


class Transport:
    """The connection to one server: adds the headers of every request, and retries failed requests if that is safe."""

    def __init__(self, config: Config, http: httpx.Client | None) -> None:
        check_loop()
        self.config = config
        self.met: Met = Met(config.url)
        self._own = http is None
        # No limit of connections: each loop holds one for as long as it follows.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._proven = config.proven and self._own
        # A server that must prove itself is contacted directly, without a proxy from the environment.
        verify, environment = config.uses_tls and not self._proven, not self._proven
        self._http = http or httpx.Client(limits=limits, verify=verify, trust_env=environment)

    def close(self) -> None:
        if self._own:
            self._http.close()

    @contextmanager
    def open(self, request: _wire.Request, timeout: float) -> Iterator[httpx.Response]:
        """Sends a request and returns the header of the answer, whatever its status. timeout limits each wait for bytes."""
        check_loop()  # the client may have been made outside of it
        headers = {"Accept": _wire.JSON, "Accept-Encoding": "identity", **request.headers}  # compression holds events back
        if self.config.token:
            headers["Authorization"] = f"Bearer {self.config.token}"
        message = self._http.build_request(
            request.method, self.config.url + request.target, headers=headers, content=request.body, timeout=timeout
        )
        if self._proven:
            message.extensions["trace"] = self._watch
        what = f"{request.method} {self.config.url}{request.path}"
        try:
            response = self._http.send(message, stream=True, follow_redirects=False)
        except (httpx.TransportError, OSError) as error:
            log.debug("%s: no answer: %r", what, error)
            raise network_error(error, self.config.url) from error
        log.debug("%s: status %d", what, response.status_code)
        try:
            if response.is_success:
                _wire.check_coding(response.headers)
            yield response
        finally:
            response.close()

    def _watch(self, event: str, info: dict[str, Any]) -> None:
        """Receives the trace of httpcore, and makes each new connection prove itself before anything is sent."""
        if event != "connection.connect_tcp.complete":
            return
        stream = info["return_value"]
        try:
            prove(stream, httpx.URL(self.config.url).netloc.decode(), self.config.token)
        except BaseException:
            stream.close()
            raise

    def refuse(self, response: httpx.Response) -> None:
        """Raises the error in an answer, if it is not a success."""
        status = response.status_code
        if status >= 400:
            body = b""
            if _wire.media_type(response.headers) == _wire.PROBLEM:
                body = read(response, _wire.MAX_PROBLEM, None) or b""
            problem = _wire.parse_problem(status, response.headers, body)
            if problem.code:
                self.met.yes = True
            raise problem
        if not 200 <= status < 300:
            raise _wire.redirected(status, response.headers)

    def call(self, request: _wire.Request) -> dict[str, Any]:
        """Sends a request until it is answered, and returns the JSON object of the answer, empty for 204."""
        patience = self.patience()
        while True:
            try:
                return self._try(request)
            except RepriseError as error:
                pause = patience.next(request, error)
                log.debug("%s: waiting %.3f s: %s", request.op, pause, error)
            sleep(pause)

    def patience(self) -> _retry.Patience:
        """How long a request is retried."""
        return _retry.Patience(self.config, self.met)

    def call_once(self, request: _wire.Request) -> dict[str, Any]:
        """Sends a request once, with a short timeout, for a program that is about to exit."""
        return self._try(request, LAST_WORD)

    def _try(self, request: _wire.Request, patience: float | None = None) -> dict[str, Any]:
        timeout = None if request.patient else patience or request.timeout or self.config.timeout
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.open(request, timeout or 24 * 3600.0) as response:
            self.refuse(response)
            if request.empty and response.status_code == 204:
                read(response, 0, deadline)  # the connection can then be used again
                return {}
            if request.empty or _wire.media_type(response.headers) != _wire.JSON:
                raise _wire.not_ours(response.status_code, response.headers)
            body = read(response, _wire.MAX_ANSWER, deadline)
        if body is None:
            raise ProtocolError(f"an answer of more than {_wire.MAX_ANSWER} bytes")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:  # where the length is not stated, a lost connection looks like this
            raise NetworkError("the response is not complete JSON") from error
        if not isinstance(answer, dict):
            raise ProtocolError("the answer is no JSON object")
        self.met.yes = True
        return _wire.Answer(answer)


def read(response: httpx.Response, bound: int, deadline: float | None) -> bytes | None:
    """The body of an answer, or None if it is longer than bound."""
    body = bytearray()
    chunks = chunks_of(response)
    while chunk := next_chunk(chunks):
        body += chunk
        if len(body) > bound:
            return None
        if deadline is not None and time.monotonic() > deadline:
            raise NetworkError("the server takes too long to answer")
    return bytes(body)


def chunks_of(response: httpx.Response) -> Iterator[bytes]:
    """The decoded body of an answer. httpx decodes the first member of gzip alone."""
    coding = _wire.coding_of(response.headers)
    return response.iter_raw() if coding in ("", "identity", "none") else _inflated(response, Inflater(coding))


def _inflated(response: httpx.Response, inflater: Inflater) -> Iterator[bytes]:
    for chunk in response.iter_raw():
        try:
            yield inflater.decode(chunk)
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error


def next_chunk(chunks: Iterator[bytes]) -> bytes:
    """The next bytes of a body, or b"" at its end."""
    try:
        while not (chunk := chunks.__next__()):
            pass
        return chunk
    except StopIteration:
        return b""
    except (httpx.TransportError, httpx.DecodingError, OSError) as error:
        raise network_error(error) from error


def network_error(error: Exception, url: str = "") -> NetworkError:
    """The error for a failure of the network, before an answer of the server at a URL or within one."""
    unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    retryable = cause is None and not isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError))
    silent = isinstance(error, httpx.ReadTimeout)
    text = "the connection was silent for too long" if silent else str(error)
    text = f"{url}: {text or type(error).__name__}" if url else text or type(error).__name__
    return NetworkError(text, retryable=retryable, unsent=unsent, silent=silent)
