"""API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import _wire
from ..models import Key
from .http import AsyncTransport


class AsyncKeys:
    """`client.keys`: the API keys of all tenants, for principals with the scope "admin"."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self) -> list[Key]:
        """Returns all keys, newest first, including revoked and expired ones."""
        answer = await self._transport.call(_wire.Request("list keys", "GET", "/v1/keys"))
        return [Key._read(key) for key in answer["keys"]]

    async def create(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        tenant: str = "",
        ttl: _wire.Duration = "",
        limits: Mapping[str, int] | None = None,
    ) -> Key:
        """Makes a key. `key` of the answer is its text, which cannot be retrieved later.

        The request is not sent again once it may have arrived, because that could make a second key.

        scopes: "read", "publish", "run", "control", "admin" or "audit"; the first four may have a prefix: "run:ci-".
        ttl: the lifetime of the key. Default: no expiry.
        limits: quotas of the key by name, such as "running" or "calls"; docs/security.md lists them.
            Default: those of the server.
        """
        members = {
            "name": name,
            "scopes": [*scopes],
            "tenant": tenant,
            "ttl": _wire.duration_text(ttl) if ttl else "",
            "limits": dict(limits or {}),
        }
        body = {member: value for member, value in members.items() if value or member == "scopes"}
        request = _wire.json_request("make a key", "POST", "/v1/keys", body)
        request.once = True
        return Key._read(await self._transport.call(request))

    async def show(self, id: str) -> Key:
        """Returns a key without its text."""
        return Key._read(await self._transport.call(_request("show", "GET", id)))

    async def rotate(self, id: str) -> Key:
        """Gives a key another text. Connections opened with the old one end. The request is not sent again once it may have
        arrived."""
        request = _request("rotate", "POST", id, "/rotate")
        request.once = True
        return Key._read(await self._transport.call(request))

    async def limit(self, id: str, limits: Mapping[str, int]) -> Key:
        """Replaces all quotas of a key. An omitted quota has no limit of its own, and 0 allows nothing."""
        path = _wire.named_path("keys", id, "/limits")
        request = _wire.json_request(f"limit key {id}", "PUT", path, {"limits": dict(limits)})
        return Key._read(await self._transport.call(request))

    async def revoke(self, id: str) -> None:
        """Revokes a key permanently. Connections that were opened with it end; running commands continue."""
        request = _request("revoke", "DELETE", id)
        request.empty = True
        await self._transport.call(request)


def _request(verb: str, method: str, id: str, rest: str = "") -> _wire.Request:
    return _wire.Request(f"{verb} key {id}", method, _wire.named_path("keys", id, rest))
