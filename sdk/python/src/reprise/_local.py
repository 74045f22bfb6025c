"""Local files that are read and written in parts."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import IO

from .errors import FileChangedError

#: What is read for a checksum at a time.
_BLOCK = 1 << 20


class Source:
    """The source of an upload: bytes, or a local file."""

    def __init__(self, local: bytes | bytearray | memoryview | str | os.PathLike[str]) -> None:
        self.mode = ""
        self._file: IO[bytes] | None = None
        if isinstance(local, (bytes, bytearray, memoryview)):
            self._bytes = bytes(local)
            self.size, self.sha256 = len(self._bytes), hashlib.sha256(self._bytes).hexdigest()
            return
        self._file = open(local, "rb")
        status = os.fstat(self._file.fileno())
        self.size, self.mode = status.st_size, f"{status.st_mode & 0o777:04o}"
        self.sha256 = sum_of(self._file, self.size)

    def read(self, start: int, length: int) -> bytes:
        """The bytes from start on. Raises FileChangedError if there are fewer."""
        if self._file is None:
            return self._bytes[start : start + length]
        self._file.seek(start)
        piece = self._file.read(length)
        if len(piece) < length:
            raise FileChangedError("the file has become shorter while it was read")
        return piece

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def sum_of(file: IO[bytes], size: int) -> str:
    """The SHA-256 of the first size bytes of a file."""
    file.seek(0)
    sum, left = hashlib.sha256(), size
    while block := file.read(min(left, _BLOCK)):
        sum.update(block)
        left -= len(block)
    return sum.hexdigest()


class Part:
    """The hidden file next to a local one that collects the download of one version."""

    def __init__(self, local: str | os.PathLike[str], path: str, etag: str) -> None:
        self._local = pathlib.Path(local)
        if self._local.is_dir():
            raise IsADirectoryError(f"{self._local} is a directory")
        name = hashlib.sha256("\0".join((self._local.name, path, etag)).encode()).hexdigest()[:16]
        self._path = self._local.with_name(f".reprise-{name}.part")
        self._file = open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        self.size = os.fstat(self._file.fileno()).st_size

    def begin_anew(self) -> None:
        self._file.truncate(0)
        self.size = 0

    def write(self, bytes: bytes) -> None:
        self._file.seek(self.size)
        self._file.write(bytes)
        self.size += len(bytes)

    def sha256(self) -> str:
        return sum_of(self._file, self.size)

    def finish(self, mode: str, overwrite: bool) -> None:
        """Renames the complete file to its final name."""
        self._file.flush()
        os.chmod(self._path, int(mode or "644", 8) & 0o777)
        os.fsync(self._file.fileno())
        self.close()
        if overwrite:
            self._path.replace(self._local)
            return
        os.link(self._path, self._local)
        self._path.unlink()

    def close(self) -> None:
        """Keeps the received bytes for another attempt."""
        self._file.close()

    def remove(self) -> None:
        self.close()
        self._path.unlink(missing_ok=True)
