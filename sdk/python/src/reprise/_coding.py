"""The content codings that a proxy may use without being asked."""

from __future__ import annotations

import zlib
from typing import Any

#: How zlib is told the format: gzip, zlib, and deflate without a header.
_GZIP, _ZLIB, _RAW = 31, 15, -15


class Inflater:
    """Decodes the bytes of one answer in gzip or deflate, and returns what was flushed without waiting for more."""

    def __init__(self, coding: str) -> None:
        self._gzip = coding != "deflate"
        self._head = b""  # of deflate: the first two bytes show the format
        self._z: Any = zlib.decompressobj(_GZIP) if self._gzip else None

    def decode(self, chunk: bytes) -> bytes:
        """The next bytes. Raises zlib.error."""
        if self._z is None:
            self._head = chunk = self._head + chunk
            if len(chunk) < 2:
                return b""
            is_zlib = chunk[0] & 0x0F == 8 and int.from_bytes(chunk[:2], "big") % 31 == 0
            self._z = zlib.decompressobj(_ZLIB if is_zlib else _RAW)  # some servers omit the header
        parts = [self._z.decompress(chunk)]
        while self._gzip and self._z.eof:  # gzip has any number of members
            rest, self._z = self._z.unused_data, zlib.decompressobj(_GZIP)
            parts.append(self._z.decompress(rest))
        return b"".join(parts)
