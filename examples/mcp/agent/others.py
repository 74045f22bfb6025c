"""The noisy build (see tasks.go) with other MCP servers for commands, as a model that wants the error does it with their
tools: calls, and bytes of text that it is shown.

    python others.py [SECONDS]                # with PyPI mcp 2.x

Where a server waits for at most 50 seconds, so does the model here, as hosts have it; the others are waited for.
The servers are expected in ${XDG_CACHE_HOME:-~/.cache}/reprise/mcp-clients, as packages.sh puts them there; one that is not
there is left out.
"""

import asyncio
import os
import pathlib
import re
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "reprise" / "mcp-clients"
SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 90
BUILD = f"""for i in $(seq {SECONDS}); do
  for j in $(seq 70); do echo "cc -O2 -Wall -Wextra -c src/module_$i/part_$j.c -o obj/module_$i/part_$j.o"; done
  if [ $i = 2 ]; then echo "src/module_2/part_70.c:12:5: error: unknown type name 'uint'" >&2; fi
  sleep 1
done
echo 'make: *** [Makefile:7: all] Error 1' >&2
exit 2"""
MOST = 20  # calls


class Model:
    """Counts what a model is shown."""

    def __init__(self, session):
        self.session, self.calls, self.bytes, self.seen, self.last = session, 0, 0, False, False

    async def call(self, name, **arguments):
        result = await self.session.call_tool(name, arguments)
        text = "".join(getattr(part, "text", "") for part in result.content)
        self.calls += 1
        self.bytes += len(text.encode())
        self.seen = self.seen or "unknown type name" in text.replace(BUILD, "")
        self.last = self.last or "Makefile:7: all" in text.replace(BUILD, "")
        return text

    @property
    def done(self):
        return self.seen and self.last or self.calls >= MOST


async def desktop_commander(model):
    text = await model.call("start_process", command=BUILD, timeout_ms=50_000, shell="/bin/bash")
    pid = int(re.search(r"PID (\d+)", text)[1])
    while not model.done:  # a read waits for the next line, which comes each second: a sleep waits longer
        await model.call("start_process", command=f"sleep {SECONDS // 2}", timeout_ms=55_000, shell="/bin/bash")
        await model.call("read_process_output", pid=pid, timeout_ms=1000, offset=-5, length=5)


async def server_commands(model):
    await model.call("run_command", command=BUILD)


def node(folder, path):
    return "node", [str(CACHE / folder / "node_modules" / path)]


SERVERS = {
    "@wonderwhy-er/desktop-commander 0.2.52": (
        desktop_commander, *node("desktop-commander-0.2.52", "@wonderwhy-er/desktop-commander/dist/index.js")),
    "mcp-server-commands 0.5.0": (server_commands, *node("server-commands-0.5.0", ".bin/mcp-server-commands")),
    "@agent-infra/mcp-server-commands 1.2.18": (
        server_commands, *node("agent-infra-commands-1.2.18", ".bin/mcp-server-commands")),
}  # fmt: skip


async def run(name):
    task, command, arguments = SERVERS[name]
    if not pathlib.Path(arguments[0]).exists():
        return f"| {name} | is not installed | | | |"
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    with open(os.devnull, "w") as quiet:
        async with stdio_client(parameters, errlog=quiet) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            listed = len((await session.list_tools()).model_dump_json(by_alias=True, exclude_none=True))
            model = Model(session)
            try:
                await asyncio.wait_for(task(model), 20 * SECONDS)
            except Exception as error:
                return f"| {name} | {listed:,} | {model.calls} | {model.bytes:,} | {str(error)[:200]} |"
            found = "yes" if model.seen and model.last else f"error {model.seen}, end {model.last}"
            return f"| {name} | {listed:,} | {model.calls} | {model.bytes:,} | {found} |"


async def main():
    print("| server | bytes of tools/list | calls | bytes shown | found |\n|---|---|---|---|---|")
    for line in await asyncio.gather(*(run(name) for name in SERVERS)):
        print(line)


asyncio.run(main())
