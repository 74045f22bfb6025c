"""An MCP server with one tool, of the official SDK or of FastMCP: mcp_server.py KIND PORT REPRISE TOKEN LOST_AFTER [wrapped]"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import uvicorn
from mcp.server.streamable_http import EventCallback
from mcp.server.streamable_http import EventStore as Base

from reprise import AsyncReprise
from reprise.mcp import EventStore

kind, port, url, token, lost_after, *wrapped = sys.argv[1:]


class Wrapper(Base):
    """A store around another one, as programs have them."""

    def __init__(self, inner: Base) -> None:
        self.inner = inner

    async def store_event(self, stream_id: str, message: Any) -> str:
        return await self.inner.store_event(stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        return await self.inner.replay_events_after(last_event_id, send_callback)


store: Base = EventStore(AsyncReprise(url, token), prefix=f"mcp-{kind}", lost_after=float(lost_after))
if wrapped:
    store = Wrapper(store)
server: Any

if kind in ("fastmcp", "fastmcp3"):
    import fastmcp
    from fastmcp import Context

    server = fastmcp.FastMCP("test")
    app: Any = server.http_app(event_store=store)
elif kind == "sdk1":
    from mcp.server.fastmcp import Context, FastMCP  # type: ignore[attr-defined,no-redef]

    server = FastMCP("test", event_store=store)
    app = server.streamable_http_app()
else:
    from mcp.server.mcpserver import Context, MCPServer  # type: ignore[assignment]

    server = MCPServer("test")
    app = server.streamable_http_app(event_store=store)


@server.tool()  # type: ignore[untyped-decorator]
async def count(steps: int, delay_ms: int, size: int, ctx: Context) -> str:
    """Reports progress and then answers."""
    for step in range(1, steps + 1):
        await anyio.sleep(delay_ms / 1000)
        await ctx.report_progress(step, steps)
    return "x" * size


uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")
