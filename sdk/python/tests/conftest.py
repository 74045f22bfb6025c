"""Real servers for the tests: the binary that REPRISE_BIN names, or one that is built for the run."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import socket
import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="all SDKs of MCP, and fifty kills: the nightly tier")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        items[:] = [item for item in items if item not in nightly]
        config.hook.pytest_deselected(items=nightly)


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of `reprise`."""
    if given := os.environ.get("REPRISE_BIN"):
        return given
    path = tmp_path_factory.mktemp("bin") / "reprise"
    subprocess.run(["go", "build", "-o", path, "./cmd/reprise"], cwd=ROOT, check=True, timeout=600)
    return str(path)


def free_port() -> int:
    """A port that nothing listens on, and that no outgoing connection gets while its server is not there."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


class Server:
    """A server process on one port and one data directory, which can be killed and started again."""

    def __init__(self, binary: str, folder: pathlib.Path, *flags: str) -> None:
        self.port, self.folder, self.binary = free_port(), folder, binary
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(folder), "--stop-executions",
                         "--log-level", "warn", "--heartbeat", "1s", *flags]  # fmt: skip
        self._log = folder.with_suffix(".log")
        self.start()

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until(self._answers, 120, f"the server does not start; see {self._log}")

    def _answers(self) -> bool:
        try:
            return httpx.get(self.url + "/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def until(condition: object, seconds: float, message: str) -> None:
    """Waits until a condition is met."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, message
        time.sleep(0.01)


@pytest.fixture(scope="session")
def server(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share which do not kill it."""
    one = Server(binary, tmp_path_factory.mktemp("server") / "data")
    yield one
    one.stop()


@pytest.fixture
def own_server(binary: str, tmp_path: pathlib.Path) -> Iterator[Server]:
    """A server that a test may kill."""
    one = Server(binary, tmp_path / "data")
    yield one
    one.stop()
