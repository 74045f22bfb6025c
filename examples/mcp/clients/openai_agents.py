"""The OpenAI Agents SDK, PyPI openai-agents: its MCP server over Streamable HTTP, without a model.

    python openai_agents.py http://127.0.0.1:8090/mcp Oslo

By itself a call has 5 seconds: client_session_timeout_seconds is how long the longest call may take.
"""

import asyncio
import sys

from agents.mcp import MCPServerStreamableHttp


async def main(url, city):
    async with MCPServerStreamableHttp({"url": url}, client_session_timeout_seconds=600) as server:
        result = await server.call_tool("forecast", {"city": city})
        print("result", result.content[0].text, flush=True)


asyncio.run(main(*sys.argv[1:]))
