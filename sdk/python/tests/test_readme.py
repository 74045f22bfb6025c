"""Every program of README.md runs as it is written there, after the lines that it takes for granted, and before lines that say
what it has done. tests/readme.py runs the first one with the installed wheel."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import Server
from test_mcp import interpreter

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)

ALONE = "from reprise import *\nclient = Reprise()\n"

#: What a client of an MCP server gets, and that its first message is kept.
SESSION = """
from starlette.testclient import TestClient
info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}
accept = {"Accept": "application/json, text/event-stream"}
with TestClient(app, base_url="http://127.0.0.1:8000") as client:
    answer = client.post("/mcp", json=initialize, headers=accept)
    assert answer.status_code == 200 and ("id: 0~" in answer.text or "%3A0~" in answer.text), answer.text
    headers = {**accept, "Mcp-Session-Id": answer.headers["mcp-session-id"], "Last-Event-ID": "x"}
    assert client.get("/mcp", headers=headers).status_code == 400"""

#: By a text that is in one block alone: what comes before the block and what comes after it.
PROGRAMS = {
    'client.operation("import/42")': ("", "assert rows == [1, 2, 3] and Reprise().streams.show(op.stream).status == 'ended'"),
    "echo hello": ("", "assert result.stdout == 'hello\\nbye\\n' and event.type == 'end'"),
    "async with client.follow": (
        f"{ALONE}import asyncio\njob_id = client.start('echo hello').id\nasync def main():\n",
        "    assert event.type == 'end'\nasyncio.run(main())",
    ),
    "SQLiteCursor": (
        f"""{ALONE}import sqlite3
client.start("echo hello", id="build")
with sqlite3.connect("state.db") as db:
    db.execute("CREATE TABLE lines (text TEXT)")
db.close()
""",
        """for event in client.follow("build", cursors=SQLiteCursor("state.db", "build")):
    raise AssertionError("an event comes again")
assert "hello" in sqlite3.connect("state.db").execute("SELECT group_concat(text) FROM lines").fetchone()[0]""",
    ),
    "producer.publish(": (
        f"""{ALONE}rows = ["one", "two"]
client.streams.create("numbers")
for _ in range(2):  # the second time after a kill
""",
        """
assert [event.data for event in client.streams.follow("numbers")][:2] == rows""",
    ),
    "server.streamable_http_app(": ("import uvicorn\nuvicorn.run = lambda app, port: None\n", SESSION),
    ".http_app(": ("", SESSION),
    "from mcp.server.fastmcp": ("", SESSION),
}


def test_every_block_is_run() -> None:
    for text in PROGRAMS:
        assert sum(text in block for block in BLOCKS) == 1, f"{text!r} is in another number of blocks than one"
    assert len(PROGRAMS) == len(BLOCKS)


@pytest.mark.parametrize("text", PROGRAMS)
def test_program(own_server: Server, tmp_path: pathlib.Path, text: str) -> None:
    before, after = PROGRAMS[text]
    block = next(block for block in BLOCKS if text in block)
    if before.rstrip().split("\n")[-1].startswith(("async def", "for")):
        block = textwrap.indent(block, "    ")
    program = tmp_path / "program.py"
    program.write_text(f"{before}{block}\n{after}\n", encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "REPRISE_URL": own_server.url,
        "REPRISE_TOKEN": own_server.token,
    }
    python = interpreter("sdk1") if "mcp.server.fastmcp" in text else sys.executable
    done = subprocess.run(
        [python, program],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{program.read_text()}\n{done.stderr}"
