"""The debug log: requests, answers, states of loops, and causes of waits, but no token.

It goes to the logger "reprise" of the standard library, and to standard error if REPRISE_LOG of the environment is "debug".
"""

from __future__ import annotations

import logging
import os

log = logging.getLogger("reprise")

if os.environ.get("REPRISE_LOG") == "debug":
    _handler = logging.StreamHandler()
    _handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    log.addHandler(_handler)
    log.setLevel(logging.DEBUG)
