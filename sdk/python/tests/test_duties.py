"""Webhooks, schedules and quotas."""

from __future__ import annotations

import http.server
import pathlib
import threading
from collections.abc import Iterator

import pytest
from conftest import Server, until
from test_calls import Caller

from reprise import ProblemError, Reprise


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest, binary: str, tmp_path: pathlib.Path) -> Iterator[Caller]:
    server = Server(binary, tmp_path / "data", "--webhook-allow", "127.0.0.0/8")
    with Caller(request.param, server.url, server.token) as caller:
        yield caller
    server.stop()


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a receiver of webhooks, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", bodies
        server.shutdown()
        thread.join()


def test_a_webhook_is_made_tested_rotated_and_removed(call: Caller, receiver: tuple[str, list[bytes]]) -> None:
    url, bodies = receiver
    hooks = call.client.webhooks
    made = call(hooks.create, url, source="streams", prefix="jobs/", types=["note"])
    assert made.secret.startswith("whsec_") and made.secret not in repr(made)
    assert (made.source, made.prefix, made.types, made.disabled) == ("streams", "jobs/", ["note"], None)
    answer = call(hooks.test, made.id)
    assert (answer.status, answer.error) == (204, "") and b'"webhook.test"' in bodies.pop()
    call(call.client.streams.create, "jobs/1")
    producer = call.client.producer("jobs/1")
    call(producer.publish, "other", 1)
    call(producer.publish, "note", {"n": 2})
    until(lambda: bodies, 60, "no message")
    assert b'"n":2' in bodies[0] and len(bodies) == 1
    assert call(hooks.rotate, made.id).secret not in ("", made.secret)
    shown = call(hooks.show, made.id)
    assert shown.secret == "" and len(shown.secrets) == 2 and shown.created == made.created
    assert call(hooks.enable, made.id).disabled is None
    assert [hook.id for hook in call(hooks.list)] == [made.id]
    call(hooks.remove, made.id)
    assert call(hooks.list) == []


def test_a_schedule_starts_executions_until_it_is_disabled(call: Caller) -> None:
    schedules = call.client.schedules
    made = call(schedules.create, "@every 1s", ["echo", "hi"], overlap="allow", session="ticks", timeout=10)
    assert made.execution["argv"] == ["echo", "hi"] and made.execution["timeout"] == "10s"
    assert made.next is not None and made.created is not None and made.next > made.created
    until(lambda: call(schedules.show, made.id).slots, 60, "nothing was started")
    slot = call(schedules.show, made.id).slots[0]
    assert slot["outcome"] == "started"
    assert call(call.client.show, slot["execution"]).session == "ticks"
    disabled = call(schedules.disable, made.id)
    assert disabled.disabled["reason"] and disabled.next is None
    assert call(schedules.enable, made.id).next is not None
    assert [schedule.id for schedule in call(schedules.list)] == [made.id]
    call(schedules.remove, made.id)
    with pytest.raises(ProblemError) as gone:
        call(schedules.show, made.id)
    assert gone.value.code == "not_found"
    with pytest.raises(ProblemError):
        call(schedules.create, "every now and then", "true")


def test_quotas_are_shown_and_those_of_a_key_are_replaced(call: Caller) -> None:
    key = call(call.client.keys.create, "ci", ["read"], limits={"running": 3})
    assert call(call.client.keys.limit, key.id, {"readers": 2}).limits == {"readers": 2}
    with Reprise(call.client.url, key.key) as other:
        seen = other.quotas()
    shown = call(call.client.quotas, tenant=seen.tenant, principal=seen.principal)
    for quotas in (seen, shown):
        own = {quota["quota"]: quota for quota in quotas.quotas if quota["of"] == "principal"}
        assert own["readers"]["limit"] == 2 and own["readers"]["used"] == 0
        assert own["running"]["limit"] is None
    assert call(call.client.quotas, tenant=seen.tenant).principal == ""
