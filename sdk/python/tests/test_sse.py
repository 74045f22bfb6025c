"""The decoder, by the HTML standard, section 9.2, and against a decoder that knows no shortcuts."""

from __future__ import annotations

import random
import re

import pytest

from reprise._sse import Decoder, Frame, TooLong


def _frame(id: str | None, type: str, data: str | None) -> Frame:
    return id, type, data


VECTORS: list[tuple[str, bytes, list[Frame]]] = [
    ("a block", b"id: 1\nevent: a\ndata: x\n\n", [_frame("1", "a", "x")]),
    ("CR", b"id: 1\revent: a\rdata: x\r\r", [_frame("1", "a", "x")]),
    ("CR LF", b"id: 1\r\nevent: a\r\ndata: x\r\n\r\n", [_frame("1", "a", "x")]),
    ("mixed", b"id: 1\r\nevent: a\rdata: x\n\r\ndata: y\n\n", [_frame("1", "a", "x"), _frame(None, "message", "y")]),
    ("BOM", b"\xef\xbb\xbfdata: x\n\n", [_frame(None, "message", "x")]),
    ("a BOM in the middle", b"\n\xef\xbb\xbfdata: x\n\ndata: y\n\n", [_frame(None, "message", "y")]),
    ("two data lines", b"data: a\ndata:b\ndata\ndata:  c\n\n", [_frame(None, "message", "a\nb\n\n c")]),
    ("NUL in the id", b"id: a\0b\ndata: x\n\n", [_frame(None, "message", "x")]),
    ("NUL in the data", b"id: 1\nevent: a\ndata: a\0b\n\n", [_frame("1", "a", "a\0b")]),
    ("a bare id", b"id: 7\n\n", [_frame("7", "message", None)]),
    ("an empty id", b"id\ndata: x\n\n", [_frame("", "message", "x")]),
    ("an event field alone", b"event: a\n\ndata: x\n\n", [_frame(None, "message", "x")]),
    ("comments", b": c\ndata: x\n:d\n:\n\n:\n\n", [_frame(None, "message", "x")]),
    ("unknown fields", b"foo: bar\ndatax: 1\n data: 2\ndata: x\n\n", [_frame(None, "message", "x")]),
    ("not complete", b"id: 1\nevent: a\ndata: x\n", []),
    ("invalid UTF-8", b"\nid: 1\nevent: a\ndata: a\xffb\xc3\n\n", [_frame("1", "a", "a�b�")]),
    (
        "line breaks of Unicode",
        "\nid: 1\nevent: a\ndata: a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n\n".encode(),
        [_frame("1", "a", "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg")],
    ),
    ("empty values", b"\nid: \nevent: \ndata: \n\n", [_frame("", "message", "")]),
    ("spaces", b"\nid:  1\nevent:  a\ndata:  x\n\n", [_frame(" 1", " a", " x")]),
    ("retry", b"retry: 20\nretry: 5x\nretry: -1\nretry:\n\n", []),
]


def frames(*chunks: bytes) -> list[Frame]:
    decoder = Decoder()
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


@pytest.mark.parametrize(("name", "text", "want"), VECTORS, ids=[v[0] for v in VECTORS])
def test_vectors_split_at_every_two_places(name: str, text: bytes, want: list[Frame]) -> None:
    assert frames(text) == want
    assert frames(*(text[i : i + 1] for i in range(len(text)))) == want
    for i in range(len(text) + 1):
        for j in range(i, len(text) + 1):
            assert frames(text[:i], text[i:j], text[j:]) == want, (text[:i], text[i:j], text[j:])


def reference(text: bytes) -> list[Frame]:
    """The standard's algorithm, on a whole text."""
    found: list[Frame] = []
    data: list[bytes]
    id, type, data = None, "", []
    *lines, _ = re.split(rb"\r\n|\r|\n", text.removeprefix(b"\xef\xbb\xbf"))
    for line in lines:
        if not line:
            if data or id is not None:
                joined = b"\n".join(data).decode("utf-8", "replace") if data else None
                found.append(_frame(id, type or "message", joined))
            id, type, data = None, "", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            type = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode("utf-8", "replace")
    return found


def test_random_texts_as_the_reference() -> None:
    chance = random.Random(1)
    pieces = [b"id: 1\nevent: a\ndata: x\n\n", b"id", b"data", b"event", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"x",
              b"\0", b"\xff", b"\xef\xbb\xbf", b"retry: 3\n", b": c\n", "\u2028".encode()]  # fmt: skip
    for _ in range(3000):
        text = b"".join(chance.choices(pieces, k=chance.randrange(1, 30)))
        cuts = sorted(chance.randrange(len(text) + 1) for _ in range(3))
        chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        # A CR at the very end is a line end at once; the reference sees it so as well.
        assert frames(*chunks) == reference(text), (text, chunks)


def test_retry_counts_at_once() -> None:
    decoder = Decoder()
    assert list(decoder.feed(b"retry: 1500\n")) == []
    assert decoder.retry == 1.5
    list(decoder.feed(b"retry: " + b"9" * 5000 + b"\n"))
    assert decoder.retry == 10**12


def test_comment_is_told_as_soon_as_its_line_has_come() -> None:
    told: list[int] = []
    decoder = Decoder(on_comment=lambda: told.append(1))
    list(decoder.feed(b":\n"))
    assert told == [1]


def test_long_lines_and_many_lines() -> None:
    long = b"x" * (5 << 20)
    text = b"\nid: 1\nevent: a\ndata: " + long + b"\n\n"
    assert frames(*(text[i : i + 65536] for i in range(0, len(text), 65536))) == [_frame("1", "a", long.decode())]
    many = b"".join(b"data: line %d\n" % i for i in range(5120)) + b"\n"
    assert frames(many)[0][2] == "\n".join(f"line {i}" for i in range(5120))


LONG = b"x" * 2000
TOO_LONG = [
    b"data: " + LONG,
    b"data: " + LONG + b"\n",
    b"data: xxxxxxxx\n" * 200,
    b"\nid: 1\nevent: a\ndata: " + LONG + b"\n\n",
]


@pytest.mark.parametrize("text", TOO_LONG)
def test_bound(text: bytes) -> None:
    for size in (7, 100_000):
        decoder = Decoder(max_bytes=1000)
        with pytest.raises(TooLong):
            for i in range(0, len(text), size):
                list(decoder.feed(text[i : i + size]))
