# Made by tools/unasync.py of ../_async/duties.py: change that file.
"""Webhooks and schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from .. import _requests, _wire
from ..errors import ProblemError
from ..models import Schedule, Webhook, WebhookAnswer
from .http import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import StartOptions


class Webhooks:
    """`client.webhooks`: signed messages to a URL, at the end of executions or for events of streams."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Webhook]:
        """Returns the webhooks of the tenant, newest first."""
        answer = self._transport.call(_wire.Request("list webhooks", "GET", "/v1/webhooks"))
        return [Webhook._read(hook) for hook in answer["webhooks"]]

    def create(
        self,
        url: str,
        *,
        source: Literal["executions", "streams"] = "executions",
        stream: str = "",
        prefix: str = "",
        types: Sequence[str] = (),
        secret: str = "",
    ) -> Webhook:
        """Makes a webhook. `secret` of the answer signs the messages and cannot be retrieved later.

        The request is not sent again once it may have arrived, because that could make a second webhook.

        stream: the one stream whose events are sent, with the source "streams".
        prefix: the beginning of the names of streams, or of the sessions of executions. Default: all.
        types: the event types of streams that are sent. Default: all.
        secret: "whsec_" and base64 of 24 to 64 bytes. Default: a new one.
        """
        members = {"url": url, "source": source, "stream": stream, "prefix": prefix, "types": [*types], "secret": secret}
        body = {name: value for name, value in members.items() if value}
        request = _wire.json_request("make a webhook", "POST", "/v1/webhooks", body)
        request.once = True
        return Webhook._read(self._transport.call(request))

    def show(self, id: str) -> Webhook:
        """Returns a webhook with its progress, without its secret."""
        return Webhook._read(self._transport.call(_request("show webhook", "GET", "webhooks", id)))

    def test(self, id: str) -> WebhookAnswer:
        """Sends one message of the type "webhook.test" and returns the receiver's answer."""
        request = _request("test webhook", "POST", "webhooks", id, "/test")
        request.once = True
        return WebhookAnswer._read(self._transport.call(request))

    def rotate(self, id: str) -> Webhook:
        """Replaces the secret. The previous one signs as well for 24 hours. The request is not sent again once it may have
        arrived."""
        request = _request("rotate webhook", "POST", "webhooks", id, "/rotate")
        request.once = True
        return Webhook._read(self._transport.call(request))

    def enable(self, id: str) -> Webhook:
        """Enables a disabled webhook, which continues after its last message and from now on belongs to the caller."""
        return Webhook._read(self._transport.call(_request("enable webhook", "POST", "webhooks", id, "/enable")))

    def remove(self, id: str) -> None:
        """Removes a webhook and its unsent messages."""
        _remove(self._transport, _request("remove webhook", "DELETE", "webhooks", id))


class Schedules:
    """`client.schedules`: commands that start at given times."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[Schedule]:
        """Returns the schedules of the tenant, newest first."""
        answer = self._transport.call(_wire.Request("list schedules", "GET", "/v1/schedules"))
        return [Schedule._read(schedule) for schedule in answer["schedules"]]

    def create(
        self,
        cron: str,
        command: Sequence[str] | str | None = None,
        *,
        zone: str = "UTC",
        overlap: Literal["skip", "allow"] = "skip",
        missed: Literal["skip", "once"] = "skip",
        **options: Unpack[StartOptions],
    ) -> Schedule:
        """Makes a schedule. The command and the options are those of `start`, without ids and keys.

        The request is not sent again once it may have arrived, because that could make a second schedule.

        cron: minute, hour, day of the month, month and day of the week, as in crontab; or "@hourly", "@daily", "@weekly",
            "@monthly", "@yearly", or "@every" and a duration.
        zone: the time zone, for example "Europe/Berlin".
        overlap: what happens at a time at which an earlier execution still runs.
        missed: what happens to times that pass while no server runs: they are skipped, or the newest one is started.
        """
        body = {"cron": cron, "zone": zone, "overlap": overlap, "missed": missed}
        request = _wire.json_request(
            "make a schedule", "POST", "/v1/schedules", {**body, "execution": _requests.execution(command, options)}
        )
        request.once = True
        return Schedule._read(self._transport.call(request))

    def show(self, id: str) -> Schedule:
        """Returns a schedule with its next time and what became of its last ones."""
        return Schedule._read(self._transport.call(_request("show schedule", "GET", "schedules", id)))

    def disable(self, id: str) -> Schedule:
        """Disables a schedule. Running executions continue."""
        return Schedule._read(self._transport.call(_request("disable schedule", "POST", "schedules", id, "/disable")))

    def enable(self, id: str) -> Schedule:
        """Enables a disabled schedule, which from now on belongs to the caller."""
        return Schedule._read(self._transport.call(_request("enable schedule", "POST", "schedules", id, "/enable")))

    def remove(self, id: str) -> None:
        """Removes a schedule. Its executions stay."""
        _remove(self._transport, _request("remove schedule", "DELETE", "schedules", id))


def _request(op: str, method: str, kind: str, id: str, rest: str = "") -> _wire.Request:
    return _wire.Request(f"{op} {id}", method, _wire.named_path(kind, id, rest))


def _remove(transport: Transport, request: _wire.Request) -> None:
    request.empty = True
    try:
        transport.call(request)
    except ProblemError as error:
        if error.code != "not_found" or error.tries < 2:  # otherwise an earlier attempt has removed it
            raise
