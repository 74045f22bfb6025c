#!/usr/bin/env python3
"""An agent loop as those over OpenAI's chat completions, with a tool that takes long. The model here is scripted, so that the
example needs no network; put a client of a real one in place of `Model`.

The tool call has an id that the model has chosen. The command runs under it: if this program is killed and started again
with the same messages, the call finds the command that runs, or its result, and nothing runs twice.
"""

from __future__ import annotations

import json
from typing import Any

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


class Model:
    """Says what a model could say."""

    def complete(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "tool":
            passed = "exit code 0" in messages[-1]["content"]
            return {"role": "assistant", "content": "The build has passed." if passed else "The build has failed."}
        arguments = json.dumps({"command": "for i in 1 2 3; do echo step $i; sleep 0.2; done"})
        call = {"id": f"call_{len(messages)}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}


def shell(client: Reprise, conversation: str, call: dict[str, Any]) -> str:
    command = json.loads(call["function"]["arguments"])["command"]
    id = f"{conversation}.{call['id']}"
    result = client.run(command, id=id, text=True, timeout="10m", on_event=lambda e: print("  ", e.type, e.text.strip()[:60]))
    return f"exit code {result.returncode}\n{result.stdout}{result.stderr}"


def main() -> None:
    model, messages = Model(), [{"role": "user", "content": "Run the build."}]
    with Reprise() as client:
        while True:
            answer = model.complete(messages, TOOLS)
            messages.append(answer)
            if not answer.get("tool_calls"):
                print(answer["content"])
                return
            for call in answer["tool_calls"]:
                output = shell(client, "conversation-1", call)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


if __name__ == "__main__":
    main()
