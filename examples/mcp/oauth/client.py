"""The OAuth clients of the Python SDKs 1.x and 2.x, PyPI mcp.

    python client.py http://127.0.0.1:7070/mcp [legacy|auto]

With the SDK 2.x "auto" chooses version 2026-07-28 of the protocol.
"""

import asyncio
import contextlib
import re
import sys
from urllib.parse import parse_qs, urljoin, urlsplit

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

try:  # the SDK 2.x
    import httpx2 as httpx
    from mcp.client import Client
    from mcp.shared.auth import AuthorizationCodeResult
except ImportError:
    import httpx

    Client = None

REDIRECT = "http://127.0.0.1:9/callback"


class Memory:
    """What the SDK wants to be kept, and what a browser does for a person who has to log in."""

    tokens = client = answer = None

    def __init__(self):
        self.asked = []

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info

    async def redirect(self, url):
        query = parse_qs(urlsplit(url).query)
        self.asked.append((query["scope"][0], query["resource"][0]))
        async with httpx.AsyncClient() as browser:
            for _ in range(20):
                response = await browser.get(url)
                url = urljoin(url, response.headers.get("location") or sys.exit(f"{url}: {response.text}"))
                if url.startswith(REDIRECT):
                    self.answer = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
                    return
        sys.exit("the provider sends the browser in circles")

    async def callback(self):
        if "code" not in self.answer:
            sys.exit(f"the provider refuses: {self.answer}")
        if Client is None:
            return self.answer["code"], self.answer.get("state")
        return AuthorizationCodeResult(code=self.answer["code"], state=self.answer.get("state"), iss=self.answer.get("iss"))


@contextlib.asynccontextmanager
async def connect(url, auth, mode):
    async with httpx.AsyncClient(auth=auth, timeout=30) as http:
        if Client is None:
            async with streamable_http_client(url, http_client=http) as (read, write, _), ClientSession(read, write) as session:
                agreed = await session.initialize()
                print("version", agreed.protocolVersion, flush=True)
                yield session
        else:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                print("version", client.protocol_version, flush=True)
                yield client


async def main(url, mode="legacy"):
    memory = Memory()
    metadata = OAuthClientMetadata(
        client_name="a test", redirect_uris=[REDIRECT], grant_types=["authorization_code"], token_endpoint_auth_method="none")
    auth = OAuthClientProvider(url, metadata, memory, memory.redirect, memory.callback)
    async with connect(url, auth, mode) as session:
        tools = [tool.name for tool in (await session.list_tools()).tools]
        if "cancel_execution" not in tools:  # a gateway
            assert memory.asked == [("run", url)], memory.asked
            print("ok", ", then ".join(scope for scope, _ in memory.asked))
            return
        assert memory.asked == [("read run", url)], memory.asked
        ran = await session.call_tool("execute_code", {"command": "echo hello from $((40 + 2))"})
        assert "hello from 42" in ran.content[0].text, ran
        started = await session.call_tool("execute_code_async", {"command": "sleep 600"})
        execution = re.match(r"\[execution (\w+) is running\]$", started.content[0].text).group(1)
        # This needs a scope that the token does not have: the person is asked again.
        cancelled = await session.call_tool("cancel_execution", {"execution_id": execution})
        assert not getattr(cancelled, "is_error", getattr(cancelled, "isError", False)), cancelled
        assert [scope for scope, _ in memory.asked] == ["read run", "read run control"], memory.asked
        print("ok", ", then ".join(scope for scope, _ in memory.asked))


asyncio.run(main(*sys.argv[1:]))
