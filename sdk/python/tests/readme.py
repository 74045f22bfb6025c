"""Runs the first program of README.md and the examples that need nothing else, with the Python that REPRISE_PYTHON names,
against a server of their own."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from conftest import Server

HERE = pathlib.Path(__file__).resolve().parent.parent
python = os.environ.get("REPRISE_PYTHON", sys.executable)

with tempfile.TemporaryDirectory() as folder:
    server = Server(os.environ["REPRISE_BIN"], pathlib.Path(folder) / "data")
    try:
        environment = {**os.environ, "REPRISE_URL": server.url, "REPRISE_TOKEN": server.token}
        found = re.search(r"```python\n(.*?)```", (HERE / "README.md").read_text(encoding="utf-8"), re.S)
        assert found is not None
        programs = {"README.md": (["-c", found[1]], "hello"), "run.py": ([str(HERE / "examples/run.py"), "echo", "hi"], "hi\n")}
        for name, (arguments, want) in programs.items():
            done = subprocess.run([python, *arguments], env=environment, stdout=subprocess.PIPE, text=True, timeout=300)
            assert done.returncode == 0 and want in done.stdout, f"{name}: exit code {done.returncode}, {done.stdout!r}"
            print(f"{name} runs")
    finally:
        server.stop()
