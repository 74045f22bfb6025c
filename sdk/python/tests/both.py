"""Reads with the sync and with the async client."""

from __future__ import annotations

import asyncio
from typing import Any

from reprise import AsyncReprise, Event, Reprise

KINDS = ["sync", "async"]


def read(kind: str, url: str, token: str, *, stream: str = "", execution: str = "", **options: Any) -> list[Event]:
    """All events of a stream or execution. client_... are options of the client, the others of follow."""
    settings: dict[str, Any] = {"min_wait": 0.01, "max_wait": 0.05}
    settings |= {name.removeprefix("client_"): options.pop(name) for name in list(options) if name.startswith("client_")}
    name = stream or execution

    if kind == "sync":
        with Reprise(url, token, **settings) as client:
            return list((client.streams if stream else client).follow(name, **options))

    async def all_events() -> list[Event]:
        async with AsyncReprise(url, token, **settings) as client:
            return [event async for event in (client.streams if stream else client).follow(name, **options)]

    return asyncio.run(all_events())
