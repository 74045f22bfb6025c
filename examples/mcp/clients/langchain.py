"""LangChain's adapters, PyPI langchain-mcp-adapters: tools of a server, as an agent calls them.

    python langchain.py http://127.0.0.1:8090/mcp Oslo
"""

import asyncio
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient


async def main(url, city):
    client = MultiServerMCPClient({"weather": {"transport": "streamable_http", "url": url}})
    tools = await client.get_tools()
    answer = await tools[0].ainvoke({"city": city})
    print("result", answer if isinstance(answer, str) else answer[0]["text"], flush=True)


asyncio.run(main(*sys.argv[1:]))
