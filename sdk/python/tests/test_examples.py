"""The examples that need more than the client: FastAPI, LangChain, and a server of OpenAI's API, which is scripted here."""

from __future__ import annotations

import asyncio
import http.server
import importlib
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import Server, free_port, until

from reprise import Reprise

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


def environment(server: Server, **more: str) -> dict[str, str]:
    source = str(EXAMPLES.parent / "src")
    return {**os.environ, "PYTHONPATH": source, "REPRISE_URL": server.url, "REPRISE_TOKEN": server.token, **more}


class Model(http.server.BaseHTTPRequestHandler):
    """A model that asks for one command, and then says whether it has passed."""

    wanted = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/chat/completions" and asked["tools"][0]["function"]["name"] == "shell"
        last = asked["messages"][-1]
        message: dict[str, Any] = {"role": "assistant", "content": "The build has passed."}
        if last["role"] == "tool" and "exit code 0" not in last["content"]:
            message["content"] = "The build has failed."
        if last["role"] == "user":
            call = {"name": "shell", "arguments": json.dumps({"command": self.wanted})}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
            }
        body = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[str]:
    """The URL of the model."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{one.server_address[1]}/v1"
        one.shutdown()
        thread.join()


def test_agent_that_is_killed_in_mid_call_runs_its_tool_once(server: Server, model: str, tmp_path: pathlib.Path) -> None:
    runs, go = tmp_path / "runs", tmp_path / "go"
    Model.wanted = f"echo run >>{runs}; echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo done"
    state = tmp_path / f"talk-{secrets.token_hex(4)}.json"
    command = [sys.executable, str(EXAMPLES / "agent.py"), str(state), "Run the build."]
    settings = environment(server, OPENAI_BASE_URL=model)
    first = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE)
    try:
        until(runs.exists, 60, "the tool does not run")
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=30)
    second = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    lines = [second.stdout.readline()]
    go.touch()
    rest, _ = second.communicate(timeout=60)
    assert second.returncode == 0 and (lines[0] + rest).rstrip().endswith("The build has passed.")
    assert runs.read_text() == "run\n"


def test_fastapi_streams_output(server: Server, tmp_path: pathlib.Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "warning", "fastapi_app:app"]
    app = subprocess.Popen(command, cwd=EXAMPLES, env=environment(server))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:

            def answers() -> bool:
                try:
                    return http.get("/openapi.json").status_code == 200
                except httpx.TransportError:
                    return False

            until(answers, 60, "the example does not start")
            name = secrets.token_hex(4)
            job = http.post(f"/jobs/{name}").json()
            assert http.post(f"/jobs/{name}").json()["id"] == job["id"]
            go = tmp_path / "go"
            with Reprise(server.url, server.token) as client:
                client.start(f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo done", id=f"job.{name}-held")
            with http.stream("GET", f"/jobs/{name}-held/output") as answer:
                chunks = answer.iter_raw()
                assert next(chunks) == b"begun\n"
                go.touch()
                assert b"".join(chunks) == b"done\n"
            assert http.get(f"/jobs/{name}/output").content == b"step 1\nstep 2\nstep 3\n"
            assert http.get(f"/jobs/{name}/output", params={"offset": 14}).content == b"step 3\n"
            assert http.get("/jobs/nobody/output").status_code == 404
            assert http.get(f"/jobs/{name}").json() == {
                "outcome": "exited",
                "exit_code": 0,
                "stdout": "step 1\nstep 2\nstep 3\n",
            }
            assert "event: end" in http.get(job["events"], headers={"Accept": "text/event-stream"}).text
    finally:
        app.terminate()
        app.wait(timeout=60)


def test_langchain_tool_runs_once_for_a_call(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_URL", server.url)
    monkeypatch.setenv("REPRISE_TOKEN", server.token)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module("langchain_tool")
    id = secrets.token_hex(4)
    call = {"type": "tool_call", "id": id, "name": "shell", "args": {"command": "echo $$; exit 3"}}

    async def twice() -> list[str]:
        async with example.client:
            return [(await example.shell.ainvoke(call)).content for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first == second and first.startswith("exit code 3\n")
    with Reprise(server.url, server.token) as client:
        assert client.show(f"langchain.{id}").outcome == "exited"
