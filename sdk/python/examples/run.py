#!/usr/bin/env python3
"""A CLI script: runs a command on the server as if it were here, and exits as it did.

examples/run.py make test
"""

import sys

from reprise import Event, Reprise


def show(event: Event) -> None:
    if event.type in ("stdout", "stderr"):
        channel = sys.stdout if event.type == "stdout" else sys.stderr
        channel.buffer.write(event.bytes)
        channel.flush()


with Reprise() as client:
    result = client.run(sys.argv[1:], on_event=show)
sys.exit(result.returncode if result.returncode >= 0 else 128 - result.returncode)
