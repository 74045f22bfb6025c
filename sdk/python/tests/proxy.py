"""A TCP proxy that cuts connections."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable


class Proxy:
    """Forwards to a port of this machine, and cuts each connection after as many bytes of the answers as `cut` says (None:
    not at all), by FIN or, if `reset`, by RST. `connections` is how many there were and `cuts` how many were cut."""

    def __init__(self, port: int, cut: Callable[[], int | None], reset: bool = False) -> None:
        self._upstream, self._cut, self._reset = port, cut, reset
        self._lock = threading.Lock()
        self.connections = self.cuts = 0
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cuts all connections and takes no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join()

    def cut_all(self) -> None:
        """Cuts all connections."""
        with self._lock:
            for one in self._open:
                _shut(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                budget = self._cut()
                thread = threading.Thread(target=self._serve, args=(client, budget))
                self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket, budget: int | None) -> None:
        with client:
            try:
                upstream = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:
                return
            with upstream:
                with self._lock:
                    self._open |= {client, upstream}
                back = threading.Thread(target=_pump_back, args=(client, upstream))
                back.start()
                was_cut = _pump(upstream, client, budget)
                with self._lock:
                    self._open -= {client, upstream}
                    self.cuts += was_cut
                _shut(upstream)
                if was_cut and self._reset:
                    _shut(client, socket.SHUT_RD)  # the close resets only when nobody reads any more
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    _shut(client)
                back.join()


def _pump(source: socket.socket, sink: socket.socket, budget: int | None = None) -> bool:
    """Copies bytes; true if the budget was used up."""
    while budget is None or budget > 0:
        try:
            chunk = source.recv(65536 if budget is None else min(budget, 65536))
            sink.sendall(chunk)
        except OSError:
            chunk = b""
        if not chunk:
            return False
        if budget is not None:
            budget -= len(chunk)
    return True


def _pump_back(client: socket.socket, upstream: socket.socket) -> None:
    _pump(client, upstream)
    _shut(upstream)


def _shut(one: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(how)
