"""What the classes of the answers have in common."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar

from .events import parse_time

T = TypeVar("T")

Object = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """The base class of all answers. What is null or missing is an empty text, 0, False, an empty collection or None."""

    raw: Object = field(repr=False, compare=False)

    @classmethod
    def _read(cls: type[T], object: Object) -> T:
        values: Object = {"raw": dict(object)}
        for one in fields(cls):  # type: ignore[arg-type]
            value = object.get(one.name)
            if value is None:
                continue
            if one.type == "datetime | None":
                value = parse_time(value)
            elif "of" in one.metadata:
                value = [one.metadata["of"]._read(item) for item in value]
            values[one.name] = value
        return cls(**values)


class Window(TypedDict):
    """The cursors of the kept events: just before the first, and just after the last."""

    earliest: str
    tail: str


class Quota(TypedDict):
    """The usage and the limit of one quota, for example "running" or "bytes". The limit is None if there is none. `of` names
    its owner, "principal" or "tenant", or is "server" for a limit that all share."""

    quota: str
    of: str
    used: int
    limit: int | None
