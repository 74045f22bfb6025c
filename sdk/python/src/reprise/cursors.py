"""Stores for the position of a reader, from which a program continues after it was killed."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from ._track import is_cursor_text
from .events import Event

__all__ = ["AnyCursorStore", "AsyncCursorStore", "CursorStore", "FileCursor", "MemoryCursor", "SQLiteCursor"]


class CursorStore(Protocol):
    """Stores the cursor of one reader of one stream.

    A loop calls the methods one at a time and never while its body runs, but not always from the same thread.
    """

    def load(self) -> str:
        """Returns the cursor that was saved last, or "" if there is none."""
        ...

    def save(self, cursor: str) -> None:
        """Saves cursor. After it has returned, a process that is killed and started again loads this cursor."""
        ...


class AsyncCursorStore(Protocol):
    """A CursorStore for AsyncReprise whose methods are coroutines."""

    def load(self) -> Awaitable[str]:
        """Returns the cursor that was saved last, or "" if there is none."""
        ...

    def save(self, cursor: str) -> Awaitable[None]:
        """Saves cursor."""
        ...


AnyCursorStore: TypeAlias = CursorStore | AsyncCursorStore


class MemoryCursor:
    """Stores a cursor in memory, for loops that follow each other within one process."""

    def __init__(self, cursor: str = "") -> None:
        self.cursor: str = cursor

    def load(self) -> str:
        return self.cursor

    def save(self, cursor: str) -> None:
        self.cursor = cursor


class FileCursor:
    """Stores a cursor in a file, as one line of text.

    A save writes the file's name + ".tmp" and renames it, and syncs both the file and its directory, so that the file always
    has either the old cursor or the new one. Two processes must not use one file at the same time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.fspath(path)

    def load(self) -> str:
        """Raises ValueError for a file without a valid cursor, because starting over silently would repeat everything."""
        try:
            with open(self.path, "rb") as file:
                text = file.read(4096).decode("ascii", "replace")
        except FileNotFoundError:
            return ""
        if not text.endswith("\n") or not is_cursor_text(text[:-1]):
            raise ValueError(f"the file {self.path} holds no cursor")
        return text[:-1]

    def save(self, cursor: str) -> None:
        temporary = self.path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "w", encoding="ascii", newline="\n") as file:
            file.write(cursor + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        if os.name == "posix":
            fd = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


class SQLiteCursor:
    """Keeps cursors in a table of a SQLite database, and moves one in the same transaction as what an event has caused:

        cursors = SQLiteCursor("state.db", "build")
        for event in client.follow("build", cursors=cursors):
            with cursors.transaction(event) as db:
                db.execute("INSERT INTO lines VALUES (?)", (event.text,))

    A program that is killed at any moment and started again has each event in its tables once. `name` tells the readers
    in one database apart. It is safe for concurrent use; a transaction excludes others.
    """

    def __init__(self, database: str | os.PathLike[str], name: str = "default") -> None:
        self.name = name
        self._lock = threading.RLock()
        self._saved = ""
        self._db = sqlite3.connect(database, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS reprise_cursors (name TEXT PRIMARY KEY, cursor TEXT NOT NULL) WITHOUT ROWID"
            )
        except BaseException:
            self._db.close()
            raise

    def load(self) -> str:
        with self._lock:
            row = self._db.execute("SELECT cursor FROM reprise_cursors WHERE name = ?", (self.name,)).fetchone()
            self._saved = row[0] if row else ""
            return self._saved

    def save(self, cursor: str) -> None:
        with self._lock:
            if cursor != self._saved:  # a transaction may have saved it already
                self._put(cursor)
                self._saved = cursor

    @contextmanager
    def transaction(self, event: Event) -> Iterator[sqlite3.Connection]:
        """Returns the database inside a transaction that also moves the cursor past event. It is rolled back if the body
        raises."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._put(event.cursor)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._saved = event.cursor

    def _put(self, cursor: str) -> None:
        self._db.execute(
            "INSERT INTO reprise_cursors VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET cursor = excluded.cursor",
            (self.name, cursor),
        )

    def close(self) -> None:
        """Closes the database."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> SQLiteCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
