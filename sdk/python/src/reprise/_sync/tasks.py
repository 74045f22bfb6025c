# Made by tools/unasync.py of ../_async/tasks.py: change that file.
"""Tasks of clients of the Model Context Protocol, and the servers that share a store."""

from __future__ import annotations

from .. import _requests, _wire
from ..models import Listing, Replica, Task
from .http import Transport


class Tasks:
    """`client.tasks`: one's own and, with the scope "admin", those of one's tenant."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, limit: int | None = None, cursor: str = "") -> Listing[Task]:
        """Returns one page of tasks, newest first."""
        answer = self._transport.call(_requests.listing("tasks", limit, cursor))
        return Listing([Task._read(task) for task in answer["tasks"]], answer["next_cursor"])

    def show(self, id: str) -> Task:
        """Returns a task."""
        request = _wire.Request(f"show task {id}", "GET", _wire.named_path("tasks", id))
        return Task._read(self._transport.call(request))

    def cancel(self, id: str) -> None:
        """Asks the tool of a task to stop, and does not wait for it. Has no effect on a task that has ended."""
        path = _wire.named_path("tasks", id, "/cancel")
        self._transport.call(_wire.Request(f"cancel task {id}", "POST", path, empty=True))


class Replicas:
    """`client.replicas`: the servers that share the store, for principals with the scope "admin"."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, limit: int | None = None, cursor: str = "") -> Listing[Replica]:
        """Returns one page of servers, by id, with what each of them does."""
        answer = self._transport.call(_requests.listing("replicas", limit, cursor))
        return Listing([Replica._read(replica) for replica in answer["replicas"]], answer["next_cursor"])
