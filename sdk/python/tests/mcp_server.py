"""An MCP server with one tool, of the official SDK or of FastMCP: mcp_server.py KIND PORT REPRISE TOKEN LOST_AFTER"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import uvicorn

from reprise import AsyncReprise
from reprise.mcp import EventStore

kind, port, url, token, lost_after = sys.argv[1:]
store = EventStore(AsyncReprise(url, token), prefix=f"mcp-{kind}", lost_after=float(lost_after))
server: Any

if kind in ("fastmcp", "fastmcp3"):
    import fastmcp
    from fastmcp import Context

    server = fastmcp.FastMCP("test")
    inner: Any = server.http_app(event_store=store)
elif kind == "sdk1":
    from mcp.server.fastmcp import Context, FastMCP  # type: ignore[attr-defined,no-redef]

    server = FastMCP("test", event_store=store)
    inner = server.streamable_http_app()
else:
    from mcp.server.mcpserver import Context, MCPServer  # type: ignore[assignment]

    server = MCPServer("test")
    inner = server.streamable_http_app(event_store=store)


@server.tool()  # type: ignore[untyped-decorator]
async def count(steps: int, delay_ms: int, size: int, ctx: Context) -> str:
    """Reports progress and then answers."""
    for step in range(1, steps + 1):
        await anyio.sleep(delay_ms / 1000)
        await ctx.report_progress(step, steps)
    return "x" * size


uvicorn.run(store.app(inner), host="127.0.0.1", port=int(port), log_level="warning")
