"""FastMCP's client, PyPI fastmcp: it comes back by itself, on the versions that have sessions.

    python fastmcp_client.py http://127.0.0.1:8090/mcp Oslo
"""

import asyncio
import sys

from fastmcp import Client


async def main(url, city, mode="legacy"):
    async def progress(done, total, message):
        print("progress", done, flush=True)

    async with Client(url, mode=mode) as client:
        print("version", client.protocol_version, flush=True)
        result = await client.call_tool("forecast", {"city": city}, progress_handler=progress)
        print("result", result.content[0].text, flush=True)


asyncio.run(main(*sys.argv[1:]))
