"""A server on FastMCP with its own event store, for "reprise check-mcp". Its tool counts.

python fastmcp_server.py 8090
"""

import asyncio
import sys

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.server.event_store import EventStore

server = FastMCP("fastmcp", version="1")


@server.tool
async def count(steps: int, delay_ms: int, context: Context) -> str:
    for step in range(steps):
        await context.report_progress(step + 1)
        await asyncio.sleep(delay_ms / 1000)
    return f"counted to {steps}"


app = server.http_app(event_store=EventStore())
print(f"listening on http://127.0.0.1:{sys.argv[1]}/mcp", flush=True)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
