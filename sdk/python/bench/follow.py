#!/usr/bin/env python3
"""Follows a stream of 100,000 events with this client and with httpx-sse and json.loads, in turns, and prints the ratio.

bench/follow.py [EVENTS [ROUNDS]]        # needs REPRISE_URL and REPRISE_TOKEN
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import httpx
import httpx_sse

from reprise import AsyncReprise, Reprise

URL, TOKEN = os.environ["REPRISE_URL"], os.environ["REPRISE_TOKEN"]
TEXT = "a line of output as a build prints it, with some eighty characters in each\n"


def fill(client: Reprise, count: int) -> str:
    """A stream of count events, as the output of a command has them."""
    name = f"bench-{secrets.token_hex(4)}"
    client.streams.create(name, retention={"max_events": count + 1, "max_bytes": 1 << 30})
    producer = client.producer(name)
    for first in range(0, count, 1000):
        producer.publish_many([("stdout", {"n": n, "line": TEXT}) for n in range(first, min(first + 1000, count))])
    producer.end()
    return name


def ours(name: str) -> int:
    count = 0
    with Reprise() as client:
        for event in client.streams.follow(name):
            count += event.data is not None
    return count


def ours_async(name: str) -> int:
    async def run() -> int:
        count = 0
        async with AsyncReprise() as client:
            async for event in client.streams.follow(name):
                count += event.data is not None
        return count

    return asyncio.run(run())


def theirs(name: str) -> int:
    count = 0
    with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, verify=False) as client:
        with httpx_sse.connect_sse(client, "GET", f"{URL}/v1/streams/{name}/events") as source:
            for event in source.iter_sse():
                count += "data" in json.loads(event.data)
    return count


def theirs_async(name: str) -> int:
    async def run() -> int:
        count = 0
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, verify=False) as client:
            async with httpx_sse.aconnect_sse(client, "GET", f"{URL}/v1/streams/{name}/events") as source:
                async for event in source.aiter_sse():
                    count += "data" in json.loads(event.data)
        return count

    return asyncio.run(run())


def cpu(work: Callable[[str], int], name: str, count: int) -> tuple[float, float]:
    """The CPU time of this process, and the time that has passed."""
    begun, wall = time.process_time(), time.perf_counter()
    assert work(name) == count
    return time.process_time() - begun, time.perf_counter() - wall


def main() -> None:
    count, rounds = [int(text) for text in [*sys.argv[1:], "100000", "5"][:2]]
    with Reprise() as client:
        name = fill(client, count)
    print("| client | events/s of CPU | events/s | times httpx-sse (CPU) |\n|---|---|---|---|")
    for kind, our, their in (("sync", ours, theirs), ("async", ours_async, theirs_async)):
        times: dict[str, list[tuple[float, float]]] = {"reprise": [], "httpx-sse": []}
        for _ in range(rounds):
            times["reprise"].append(cpu(our, name, count))
            times["httpx-sse"].append(cpu(their, name, count))
        ratios = [b[0] / a[0] for a, b in zip(times["reprise"], times["httpx-sse"], strict=True)]
        for who, taken in times.items():
            busy, wall = (count / statistics.median(t[i] for t in taken) for i in (0, 1))
            ratio = f"{statistics.median(ratios):.2f}" if who == "reprise" else ""
            print(f"| {who}, {kind} | {busy:,.0f} | {wall:,.0f} | {ratio} |", flush=True)
    tracemalloc.start()
    ours(name)
    most = tracemalloc.get_traced_memory()[1] / 1024
    print(f"\nThe most memory that a follow of {count:,} events had at a time: {most:,.0f} KiB")


if __name__ == "__main__":
    main()
