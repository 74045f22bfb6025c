"""Who merely listens at the address of this machine's server is never sent the token that lies in its file."""

from __future__ import annotations

import http.server
import json
import pathlib
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from both import KINDS
from conftest import Server
from test_calls import Caller

from reprise import NetworkError, UnprovenError
from reprise._proof import answer

TOKEN = "the-token-of-this-machine"
Prove = Callable[["Squatter", str], "tuple[int, str]"]


class Squatter(http.server.ThreadingHTTPServer):
    """Answers challenges by a function, and everything else with an empty list; it keeps what it was sent."""

    daemon_threads = True

    def __init__(self, prove: Prove) -> None:
        self.prove, self.sent = prove, list[str]()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        squatter = self.server
        assert isinstance(squatter, Squatter)
        squatter.sent.append(f"{self.path} {self.headers.get('Authorization')}")
        status, text = 200, '{"executions":[],"next_cursor":""}'
        if self.path.startswith("/v1/proof"):
            status, text = squatter.prove(squatter, parse_qs(urlsplit(self.path).query)["challenge"][0])
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def squatting(prove: Prove) -> Iterator[Squatter]:
    with Squatter(prove) as squatter:
        thread = threading.Thread(target=squatter.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield squatter
        finally:
            squatter.shutdown()
            thread.join()


def knowing(token: str) -> Prove:
    return lambda squatter, challenge: (200, json.dumps({"proof": answer(token, challenge, squatter.address)}))


@pytest.fixture
def state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder in which a server of this machine has left its token."""
    (tmp_path / "reprise").mkdir()
    (tmp_path / "reprise" / "token").write_text(TOKEN + "\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("REPRISE_TOKEN", raising=False)
    return tmp_path


def passed_on(real: str) -> Prove:
    """Asks the real server, which listens elsewhere, and passes its answer on."""

    def prove(_: Squatter, challenge: str) -> tuple[int, str]:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{real}/v1/proof?challenge={challenge}", timeout=60) as response:
            return response.status, response.read().decode()

    return prove


@pytest.mark.parametrize("kind", KINDS)
def test_squatters_never_see_the_token(kind: str, state: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # loopback is asked directly
    with squatting(knowing(TOKEN)) as real:
        with Caller(kind, real.url, None, give_up=0.0) as call:
            call(call.client.list)
            call(call.client.list)
        assert [line.split("?")[0].split()[0] for line in real.sent] == ["/v1/proof", "/v1/executions", "/v1/executions"]
        assert all(line.endswith("Bearer " + TOKEN) for line in real.sent[1:])
        proofs: list[Prove] = [
            lambda _, challenge: (200, '{"proof":"x"}'),
            lambda _, challenge: (200, json.dumps({"proof": challenge})),
            lambda _, challenge: (200, '{"proof":"\\ud800"}'),
            lambda _, challenge: (200, "[" * 10_000),
            lambda _, challenge: (200, " " * 100_000),
            lambda _, challenge: (404, '{"code":"not_found"}'),
            knowing("another-token"),
            passed_on(real.url),
        ]
        for number, prove in enumerate(proofs):
            with squatting(prove) as squatter, Caller(kind, squatter.url, None, give_up=60.0) as call:
                for _ in range(2):
                    with pytest.raises(UnprovenError) as raised:
                        call(call.client.list)
                    assert raised.value.code == "unproven" and not raised.value.retryable
                assert len(squatter.sent) == 2, f"squatter {number} was sent {squatter.sent}"
                assert all(line.startswith("/v1/proof") and line.endswith(" None") for line in squatter.sent)
        with squatting(lambda _, challenge: (503, "")) as squatter, Caller(kind, squatter.url, None, give_up=0.0) as call:
            with pytest.raises(NetworkError) as passing:
                call(call.client.list)
            assert passing.value.retryable and passing.value.unsent
        monkeypatch.delenv("HTTP_PROXY")  # which would be asked for a token that was given
        with squatting(knowing("another-token")) as named, Caller(kind, named.url, "given", give_up=0.0) as call:
            call(call.client.list)
            assert named.sent == ["/v1/executions Bearer given"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_server_proves_itself(kind: str, server: Server, state: pathlib.Path) -> None:
    (state / "reprise" / "token").write_text(server.token)
    for host in ("127.0.0.1", "localhost"):
        with Caller(kind, f"http://{host}:{server.port}", None) as call:
            assert call(call.client.run, ["echo", "proven"]).stdout == b"proven\n"
