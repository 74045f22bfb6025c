#!/usr/bin/env python3
"""Makes src/reprise/_sync of src/reprise/_async: the sync client is the async one without its async words.

tools/unasync.py           # writes the files
tools/unasync.py --check   # fails if they are not what would be written
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src" / "reprise" / "_async"
TARGET = SOURCE.with_name("_sync")

WORDS = {
    "AnyCursorStore": "CursorStore",
    "AsyncIterator": "Iterator",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_raw": "iter_raw",
    "async_check_loop": "check_loop",
    "async_finish": "finish",
    "async_in_turn": "in_turn",
    "async_off_loop": "off_loop",
    "async_sleep": "sleep",
    "async_wait_for": "wait_for",
    "asynccontextmanager": "contextmanager",
    "asyncio": "threading",
}
RULES = [
    (re.compile(r"\bseveral tasks\b"), "several threads"),
    (re.compile(r"AsyncGenerator\[(\w+), None\]"), r"Generator[\1, None, None]"),
    (re.compile(r"\b(async|await) "), ""),
    (re.compile(r"\b(" + "|".join(WORDS) + r")\b"), lambda m: WORDS[m[0]]),
    (re.compile(r"\bAsync([A-Z])"), r"\1"),
]
HEADER = "# Made by tools/unasync.py of ../_async/{}: change that file.\n"


def sync(path: pathlib.Path) -> str:
    """The sync form of one file."""
    if path.name == "__init__.py":
        return '"""The sync client, made by tools/unasync.py."""\n'
    text = path.read_text(encoding="utf-8")
    for pattern, by in RULES:
        text = pattern.sub(by, text)
    return HEADER.format(path.name) + text


def main() -> None:
    wanted = {path.name: sync(path) for path in sorted(SOURCE.glob("*.py"))}
    if sys.argv[1:] != ["--check"]:
        TARGET.mkdir(exist_ok=True)
        for name, text in wanted.items():
            (TARGET / name).write_text(text, encoding="utf-8")
        return
    there = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.py")}
    wrong = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    if wrong:
        sys.exit(f"These files of {TARGET} are not what tools/unasync.py makes: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
