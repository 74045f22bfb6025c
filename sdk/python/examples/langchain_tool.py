#!/usr/bin/env python3
"""A LangChain tool that runs commands over connections that break. Needs langchain-core.

A tool call of a graph that is run again after a crash has the same id, and so finds the command that it has started before.
"""

from typing import Annotated

from langchain_core.tools import InjectedToolCallId, tool

from reprise import AsyncReprise

client = AsyncReprise()


@tool
async def shell(command: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Runs a shell command and returns its exit code and output."""
    result = await client.run(command, id=f"langchain.{tool_call_id}", text=True, timeout="10m")
    return f"exit code {result.returncode}\n{result.stdout}{result.stderr}"
