"""A program that shows an answer of 4,000 pieces while it is written, of 20,000 in the nightly tier. It is killed after every
400 pieces and goes on with its cursor file; its connections are cut, and the server is killed twice."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
import threading

import pytest
from conftest import Server, until
from proxy import Proxy

from reprise import Reprise

EACH = 400  # pieces between two kills
KEPT = 3_000  # a program that forgets its cursor finds that the first pieces are gone

PROGRAM = """
import pathlib, sys, reprise
url, token, folder = sys.argv[1:]
path = pathlib.Path(folder, "out")
path.touch()
shown = path.read_text()
shown = shown[: shown.rfind("\\n") + 1]  # the last line may be incomplete
last = shown.count("\\n")
with open(path, "a") as out, reprise.Reprise(url, token, min_wait=0.01) as client:
    out.truncate(len(shown))
    cursors = reprise.FileCursor(folder + "/cursor")
    for event in client.streams.follow("answer", cursors=cursors, on_gap="raise"):
        if event.type == "piece" and event.data > last:  # those since the last save of the cursor come again
            out.write(f"{event.data}\\n")
            out.flush()
"""


def lines(path: pathlib.Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_kills(own_server: Server, tmp_path: pathlib.Path, pytestconfig: pytest.Config) -> None:
    kills = 50 if pytestconfig.getoption("--full") else 10
    chance = random.Random(5)
    out = tmp_path / "out"
    with (
        Reprise(own_server.url, own_server.token, min_wait=0.01) as writer,
        Proxy(own_server.port, lambda: chance.randrange(500, 30_000)) as proxy,
    ):
        writer.streams.create("answer", retention={"max_events": KEPT})
        producer = writer.producer("answer")

        def write(first: int) -> None:
            for start in range(first, first + EACH, 50):
                producer.publish_many([("piece", number) for number in range(start, start + 50)])

        command = [sys.executable, "-c", PROGRAM, proxy.url, own_server.token, str(tmp_path)]
        for kill in range(kills):
            writing = threading.Thread(target=write, args=(kill * EACH + 1,))
            program = subprocess.Popen(command)
            writing.start()
            if kill in (kills // 3, 2 * kills // 3):
                own_server.kill()
                own_server.start()
            wanted = kill * EACH + chance.randrange(1, EACH + 1)

            def reached(program: subprocess.Popen[bytes] = program, wanted: int = wanted) -> bool:
                return lines(out) >= wanted or program.poll() is not None

            until(reached, 120, f"the program does not come to piece {wanted}")
            assert program.poll() is None, "the program has ended by itself"
            program.kill()
            program.wait()
            writing.join()
        producer.end()
        subprocess.run(command, check=True, timeout=120)
        assert out.read_text() == "".join(f"{number}\n" for number in range(1, kills * EACH + 1))
        assert proxy.cuts >= kills
