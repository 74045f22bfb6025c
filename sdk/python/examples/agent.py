#!/usr/bin/env python3
"""An agent loop over OpenAI's chat completions, with a tool that takes long:

    OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=... MODEL=... agent.py STATE.json "Run the build."

Any server of that API does. The messages are kept in STATE.json, and a tool call has an id that the model has chosen, under
which the command runs: if this program is killed in mid-call and started again, it finds the command that runs, or its
result, and nothing runs twice.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import httpx

from reprise import Reprise

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "shell",
            "description": "Runs a command and returns its output.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    }
]


def complete(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Asks the model for its next message."""
    url, key = os.environ["OPENAI_BASE_URL"], os.environ.get("OPENAI_API_KEY", "none")
    body = {"model": os.environ.get("MODEL", "gpt"), "messages": messages, "tools": TOOLS}
    answer = httpx.post(f"{url}/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=600)
    answer.raise_for_status()
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def shell(client: Reprise, conversation: str, call: dict[str, Any]) -> str:
    """Runs the command of a tool call, or finds it."""
    command = json.loads(call["function"]["arguments"])["command"]
    id = f"{conversation}.{call['id']}"
    result = client.run(command, id=id, text=True, timeout="10m", on_event=lambda e: print("  ", e.type, e.text.strip()[:60]))
    return f"exit code {result.returncode}\n{result.stdout}{result.stderr}"


def main() -> None:
    state = pathlib.Path(sys.argv[1])
    messages: list[dict[str, Any]] = [{"role": "user", "content": sys.argv[2]}]
    if state.exists():
        messages = json.loads(state.read_text())
    with Reprise() as client:
        while True:
            answered = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
            asked = [call for message in messages for call in message.get("tool_calls") or ()]
            if calls := [call for call in asked if call["id"] not in answered]:
                output = shell(client, state.stem, calls[0])
                messages.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": output})
            elif messages[-1]["role"] == "assistant":
                print(messages[-1]["content"])
                return
            else:
                messages.append(complete(messages))
            new = state.with_suffix(".new")
            new.write_text(json.dumps(messages))
            new.replace(state)


if __name__ == "__main__":
    main()
