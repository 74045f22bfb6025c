"""On trio the async client would work until the first drop. It refuses at once."""

from __future__ import annotations

import pytest
import trio
from scripted import Scripted, block, end, stream

from reprise import AsyncReprise, Reprise


def test_the_async_client_refuses_trio_and_says_what_works() -> None:
    made_before = AsyncReprise("http://127.0.0.1:1", "secret")

    async def main() -> list[int]:
        with pytest.raises(RuntimeError, match="trio"):
            AsyncReprise("http://127.0.0.1:1", "secret")
        with pytest.raises(RuntimeError, match="trio"):
            await made_before.show("x")
        with pytest.raises(RuntimeError, match="trio"):
            async for _ in made_before.follow("x"):
                pass

        def follow() -> list[int]:
            with Reprise(server.url, "secret") as client:  # in a thread, through a drop
                return [event.seq for event in client.streams.follow("s")]

        return await trio.to_thread.run_sync(follow)

    with Scripted(stream(block(1)), stream(block(1), end(2))) as server:
        assert trio.run(main) == [1, 2]
