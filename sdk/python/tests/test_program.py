"""Programs that are killed and started again have each event once."""

from __future__ import annotations

import pathlib
import random
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest
from conftest import Server

from reprise import FileCursor, MemoryCursor, Reprise, SQLiteCursor

FILE = """
import sys, reprise
url, token, folder = sys.argv[1:]
out = open(folder + "/out", "a")
with reprise.Reprise(url, token) as client:
    for event in client.follow("killed-file", cursors=reprise.FileCursor(folder + "/cursor"), save_every=0):
        out.write(f"{event.seq}\\n")
        out.flush()
"""

SQLITE = """
import sys, reprise
url, token, folder = sys.argv[1:]
with reprise.Reprise(url, token) as client, reprise.SQLiteCursor(folder + "/state.db", "reader") as cursors:
    with cursors._db as db:
        db.execute("CREATE TABLE IF NOT EXISTS seen (seq INTEGER)")
    for event in client.follow("killed-sqlite", cursors=cursors):
        with cursors.transaction(event) as db:
            db.execute("INSERT INTO seen VALUES (?)", (event.seq,))
"""

PRODUCER = """
import sys, reprise
url, token, folder = sys.argv[1:]
with reprise.Reprise(url, token) as client:
    client.streams.create("numbers")
    producer = client.producer("numbers", id="importer")
    for number in range(400):  # from the first on: what has arrived is answered as a duplicate
        producer.publish("line", number, number=number)
    producer.end(number=400)
"""


def until_done(code: str, server: Server, folder: pathlib.Path, kills: int) -> None:
    """Runs a program, kills it by SIGKILL at random moments, and then lets it come to its end."""
    chance = random.Random(3)
    command = [sys.executable, "-c", code, server.url, server.token, str(folder)]
    for _ in range(kills):
        program = subprocess.Popen(command)
        time.sleep(chance.uniform(0.3, 0.9))
        program.kill()
        program.wait()
    subprocess.run(command, check=True, timeout=300)


def start(server: Server, id: str) -> None:
    with Reprise(server.url, server.token) as client:
        client.start("for i in $(seq 500); do echo $i; sleep 0.005; done", id=id)


def test_cursor_file(server: Server, tmp_path: pathlib.Path) -> None:
    start(server, "killed-file")
    until_done(FILE, server, tmp_path, 6)
    seqs = [int(line) for line in (tmp_path / "out").read_text().split()]
    # Output and cursor are not one: what was being handled when the program was killed may come once more, and nothing else.
    assert sorted(set(seqs)) == list(range(1, seqs[-1] + 1))
    assert len(seqs) - len(set(seqs)) <= 6


def test_sqlite(server: Server, tmp_path: pathlib.Path) -> None:
    start(server, "killed-sqlite")
    until_done(SQLITE, server, tmp_path, 6)
    with sqlite3.connect(tmp_path / "state.db") as db:
        seqs = [row[0] for row in db.execute("SELECT seq FROM seen ORDER BY rowid")]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) > 2
    db.close()


def test_producer(server: Server, tmp_path: pathlib.Path) -> None:
    until_done(PRODUCER, server, tmp_path, 4)
    with Reprise(server.url, server.token) as client:
        events = list(client.streams.follow("numbers"))
    assert [e.data for e in events[:-1]] == list(range(400))


def test_a_loop_begins_after_the_last_event_that_was_handled(server: Server, tmp_path: pathlib.Path) -> None:
    stores: list[Any] = [MemoryCursor(), FileCursor(tmp_path / "cursor"), SQLiteCursor(tmp_path / "state.db")]
    with Reprise(server.url, server.token) as client:
        id = client.run("echo a; echo b >&2", check=True).id
        for store in stores:
            first = []
            for event in client.follow(id, cursors=store):
                first.append(event.seq)
                if event.seq == 2:
                    break  # which leaves it unhandled
            rest = [event.seq for event in client.follow(id, cursors=store)]
            assert (first, rest) == ([1, 2], [2, 3, 4])
            assert list(client.follow(id, cursors=store)) == []
    stores[2].close()


def test_a_quiet_stream_is_saved_while_the_loop_waits(server: Server, tmp_path: pathlib.Path) -> None:
    class Store(MemoryCursor):
        def save(self, cursor: str) -> None:
            saves.append((time.monotonic(), cursor))
            if cursor == last:
                saved.touch()

    saves: list[tuple[float, str]] = []
    store, saved = Store(), tmp_path / "saved"
    with Reprise(server.url, server.token) as client:
        execution = client.start(f"echo a; until [ -e {saved} ]; do sleep 0.05; done", timeout=100)
        last, ended = "", 0.0
        for event in client.follow(execution.id, cursors=store, save_every=0.2):
            if event.type == "stdout":
                last = event.cursor
            ended = time.monotonic()
    moments = [moment for moment, cursor in saves if cursor == last]
    assert moments and moments[0] < ended, "the cursor was not saved before the next event came"
    assert len(saves) <= 4


def test_a_damaged_cursor_file_is_an_error(tmp_path: pathlib.Path) -> None:
    for text in ("", "1.ABC", "two words\n", "x\ny\n"):
        (tmp_path / "cursor").write_text(text)
        with pytest.raises(ValueError, match="holds no cursor"):
            FileCursor(tmp_path / "cursor").load()


def test_an_error_of_the_store_ends_the_loop(server: Server) -> None:
    class Full(MemoryCursor):
        def save(self, cursor: str) -> None:
            raise OSError("no space left")

    with Reprise(server.url, server.token) as client:
        id = client.run("echo a").id
        with pytest.raises(OSError, match="no space left"):
            list(client.follow(id, cursors=Full()))


def test_a_transaction_that_fails_leaves_the_cursor(server: Server, tmp_path: pathlib.Path) -> None:
    with Reprise(server.url, server.token) as client, SQLiteCursor(tmp_path / "state.db") as cursors:
        id = client.run("echo a").id
        with pytest.raises(ZeroDivisionError):
            for event in client.follow(id, cursors=cursors):
                with cursors.transaction(event):
                    _ = 1 / (2 - event.seq)
        assert [event.seq for event in client.follow(id, cursors=cursors)] == [2, 3]
