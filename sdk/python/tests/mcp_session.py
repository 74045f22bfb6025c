"""Prints what a store of one session reads that another has kept: mcp_session.py REPRISE TOKEN"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from typing import Any

from mcp.server.streamable_http import EventMessage

from reprise import AsyncReprise
from reprise.mcp import EventStore
from reprise.mcp._messages import dump, load

MESSAGES: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 7, "progress": 1}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 7, "progress": 2}},
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "\u2028"}]}},
]


async def main(url: str, token: str) -> None:
    async def show(event: EventMessage) -> None:
        print(event.event_id in ids, dump(event.message))

    name = secrets.token_hex()
    async with AsyncReprise(url, token) as client:
        session = EventStore(client).for_session(name)
        ids = [await session.store_event("1", load(json.dumps(message))) for message in MESSAGES]
        await EventStore(client).for_session(name).replay_events_after(ids[0], show)


asyncio.run(main(*sys.argv[1:]))
