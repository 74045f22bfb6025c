#!/usr/bin/env python3
"""Writes docs/api-python.md from the sources: what the package exports, with its docstrings and comments.

tools/api.py           # writes the file
tools/api.py --check   # fails if it is not what would be written
"""

import ast
import inspect
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
SOURCE = HERE / "src" / "reprise"
TARGET = HERE.parent.parent / "docs" / "api-python.md"

HEAD = """# API of the client for Python

Made by `tools/api.py` in `sdk/python` from the sources: change those. How it is used is in
[its README](../sdk/python/README.md).
`AsyncReprise` and what belongs to it have the same methods as coroutines, and `aclose` for `close`.
"""


def exported() -> dict[str, str]:
    """The modules of what the package exports, by name."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    names: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.name: node.module for alias in node.names}
    return {name: module for name, module in names.items() if "_async" not in module} | {"EventStore": "mcp.__init__"}


def public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The docstring as Markdown: what is indented in it is code or a list of parameters."""
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    return re.sub(r"(?m)^(\w+(?:, \w+)*): (.*(?:\n {4}.*)*)", lambda m: f"- `{m[1]}`: {' '.join(m[2].split())}", text)


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self").removeprefix("cls, ").removeprefix("cls")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"{'' if node.name == '__init__' else node.name}({arguments}){returns}"


def method(owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    kinds = {ast.unparse(decorator) for decorator in node.decorator_list}
    if "overload" in kinds:
        return ""
    if "property" in kinds:
        text = f"{node.name}: {ast.unparse(node.returns)}" if node.returns else node.name
    else:
        text = owner + signature(node) if node.name == "__init__" else signature(node)
    about = docstring(node)
    return f"**`{text}`**\n" + (f"\n{about}\n" if about else "")


def members(node: ast.ClassDef, lines: list[str]) -> str:
    """The annotated members, each with the comment above it."""
    rows = []
    for one in node.body:
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name) or not public(one.target.id):
            continue
        comment: list[str] = []
        at = one.lineno - 2
        while lines[at].strip().startswith("#:"):
            comment.insert(0, lines[at].strip()[2:].strip())
            at -= 1
        about = " ".join(comment)
        rows.append(f"- `{one.target.id}: {ast.unparse(one.annotation)}`" + (f": {about}" if about else ""))
    return "\n".join(rows) + "\n" if rows else ""


def describe(name: str, module: str) -> str:
    path = SOURCE / (module.replace(".", "/") + ".py")
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            parts = [f"### {name}" + (f"({bases})" if bases else "") + "\n", docstring(node) + "\n"]
            parts.append(members(node, text.split("\n")))
            functions = [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
            parts += [method(name, one) for one in functions if public(one.name) and docstring(one) + one.name != "__init__"]
            return "\n".join(part for part in parts if part.strip())
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name and node.value:
            return f"### {name}\n\n`{ast.unparse(node.value)}`\n"
    sys.exit(f"{path} has no class {name}")


def page() -> str:
    names = exported()
    order = sorted(
        names, key=lambda name: (name != "Reprise", not names[name].startswith("_sync"), names[name] == "mcp.__init__", name)
    )
    return HEAD + "".join(f"\n{describe(name, names[name])}" for name in order)


def main() -> None:
    text = page()
    if sys.argv[1:] != ["--check"]:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        sys.exit("docs/api-python.md is not what the sources make: run tools/api.py in sdk/python.")


if __name__ == "__main__":
    main()
