"""The address of the server, and the timeouts of a client."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

DEFAULT_URL = "http://127.0.0.1:7070"


@dataclass(frozen=True)
class Config:
    """The settings of a client. Those of the environment replace missing ones."""

    url: str
    token: str
    min_wait: float
    max_wait: float
    give_up: float | None
    timeout: float
    #: Whether the token was found in a file of this machine, so that a server has to prove itself before it is sent.
    proven: bool

    @property
    def uses_tls(self) -> bool:
        """Whether a connection may be encrypted. Otherwise the certificates of the machine are not read, which would take
        longer than a call."""
        proxies = getproxies()
        return self.url.startswith("https:") or "http" in proxies or "all" in proxies


def make_config(
    url: str | None, token: str | None, min_wait: float, max_wait: float, give_up: float | None, timeout: float
) -> Config:
    """Raises ValueError for a URL or token that cannot be used."""
    url = url or os.environ.get("REPRISE_URL") or DEFAULT_URL
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"the server's URL {url!r} is none: {error}") from error
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"the server's URL {url!r} is not an http or https URL without user and query")
    found = False
    if token is None:
        token = os.environ.get("REPRISE_TOKEN") or ""
        if not token and _is_loopback(host):
            token = _local_token()
            found = token != ""
    if any(not "!" <= c <= "~" for c in token):
        raise ValueError("the token contains characters that a header cannot hold")
    return Config(url.rstrip("/"), token, min_wait, max_wait, give_up, timeout, found and parts.scheme == "http")


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine, which alone gets the token of its server."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _local_token() -> str:
    """The token that the server of this machine has written, or "" if there is none."""
    folder = os.environ.get("XDG_STATE_HOME")
    state = Path(folder) if folder else Path.home() / ".local" / "state"
    try:
        return (state / "reprise" / "token").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
