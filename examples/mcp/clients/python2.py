"""The Python SDK 2.x, PyPI mcp: it comes back by itself, on the versions that have sessions.

    python python2.py http://127.0.0.1:8090/mcp Oslo

By itself it chooses version 2026-07-28, on which a connection that breaks cancels the call.
"""

import asyncio
import sys

from mcp.client import Client


async def main(url, city, mode="legacy"):
    async def progress(done, total, message):
        print("progress", done, flush=True)

    async with Client(url, mode=mode) as client:
        print("version", client.protocol_version, flush=True)
        result = await client.call_tool("forecast", {"city": city}, progress_callback=progress)
        print("result", result.content[0].text, flush=True)


asyncio.run(main(*sys.argv[1:]))
