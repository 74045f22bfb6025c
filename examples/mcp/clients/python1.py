"""The Python SDK 1.x, PyPI mcp: it comes back by itself.

    python python1.py http://127.0.0.1:8090/mcp Oslo
"""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def main(url, city):
    async def progress(done, total, message):
        print("progress", done, flush=True)

    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as session:
        agreed = await session.initialize()
        print("version", agreed.protocolVersion, flush=True)
        result = await session.call_tool("forecast", {"city": city}, progress_callback=progress)
        print("result", result.content[0].text, flush=True)


asyncio.run(main(*sys.argv[1:]))
