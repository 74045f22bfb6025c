"""What a checker of types says about programs. mypy fails if a line that it must refuse is accepted: its comment is unused."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from conftest import Server

from reprise import AsyncProducer, AsyncReprise, Producer, Reprise


class Note(TypedDict):
    n: int


def test_a_producer_has_the_type_of_its_data(server: Server) -> None:
    with Reprise(server.url, server.token) as client:
        client.streams.create("typed")
        notes: Producer[Note] = client.producer("typed")
        notes.publish("note", {"n": 1})
        notes.publish("note", b"bytes")
        notes.publish_many([("note", {"n": 2})])
        notes.publish("note", {"m": 1})  # type: ignore[arg-type]
        notes.publish("note", "text")  # type: ignore[arg-type]
        notes.publish_many([("note", 7)])  # type: ignore[list-item]
        anything = client.producer("typed")
        anything.publish("note", {"any": ["value"]})
        wider: Producer[object] = anything
        narrower: Producer[Note] = wider
        assert narrower.publish("note", {"n": 3}).last == 8

    async def main() -> None:
        async with AsyncReprise(server.url, server.token) as client:
            notes: AsyncProducer[Note] = client.producer("typed")
            await notes.publish("note", {"n": 4})
            await notes.publish("note", 4)  # type: ignore[arg-type]

    asyncio.run(main())
