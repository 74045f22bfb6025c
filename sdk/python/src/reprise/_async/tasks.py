"""Tasks of clients of the Model Context Protocol, and the servers that share a store."""

from __future__ import annotations

from .. import _requests, _wire
from ..models import Listing, Replica, Task
from .http import AsyncTransport


class AsyncTasks:
    """`client.tasks`: one's own and, with the scope "admin", those of one's tenant."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, limit: int | None = None, cursor: str = "") -> Listing[Task]:
        """Returns one page of tasks, newest first."""
        answer = await self._transport.call(_requests.listing("tasks", limit, cursor))
        return Listing([Task._read(task) for task in answer["tasks"]], answer["next_cursor"])

    async def show(self, id: str) -> Task:
        """Returns a task."""
        request = _wire.Request(f"show task {id}", "GET", _wire.named_path("tasks", id))
        return Task._read(await self._transport.call(request))

    async def cancel(self, id: str) -> None:
        """Asks the tool of a task to stop, and does not wait for it. Has no effect on a task that has ended."""
        path = _wire.named_path("tasks", id, "/cancel")
        await self._transport.call(_wire.Request(f"cancel task {id}", "POST", path, empty=True))


class AsyncReplicas:
    """`client.replicas`: the servers that share the store, for principals with the scope "admin"."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(self, *, limit: int | None = None, cursor: str = "") -> Listing[Replica]:
        """Returns one page of servers, by id, with what each of them does."""
        answer = await self._transport.call(_requests.listing("replicas", limit, cursor))
        return Listing([Replica._read(replica) for replica in answer["replicas"]], answer["next_cursor"])
