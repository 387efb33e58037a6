"""A service while it is up: a socket on loopback, an HTTP server in a thread, and the endpoint file that names them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import headrace
from headrace.model.errors import EngineError
from headrace.service import endpoint, wire
from headrace.service.endpoint import Endpoint
from headrace.service.face import Served

HOST = "127.0.0.1"
GRACE_S = 10
"""How long requests that are under way may take when the service stops."""


class Service:
    """A socket that is open already, and the server on it once there is a session.

    Clients that come in between wait in the socket's queue. So a command that is typed while Spark still starts is
    answered as soon as Spark is there.
    """

    def __init__(self, warehouse: str, command: str, port: int) -> None:
        self.warehouse, self._socket = warehouse, _listen(port)
        host, bound = self._socket.getsockname()
        self.endpoint = Endpoint(host, bound, os.getpid(), endpoint.new_token(), command)
        self._stop: Callable[[], None] = self._socket.close

    def start(self, session: Served, on_statement: Callable[[str], None] = lambda text: None) -> None:
        """Answer requests from now on."""
        import uvicorn

        from headrace.service.api import make_app

        path = str(Path(self.warehouse).absolute())
        known = self.endpoint
        hello = wire.Hello(wire.API_VERSION, headrace.__version__, known.pid, path, known.command)
        config = uvicorn.Config(
            make_app(session, hello, known.token, on_statement),
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(
            target=server.run, args=([self._socket],), name="headrace-service", daemon=True
        )
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join()
            self._socket.close()

        self._stop = stop

    def stop(self) -> None:
        """Let nobody find it any more, finish what is under way, within the grace, and close the socket.

        Harmless when stopped.
        """
        endpoint.withdraw(self.warehouse, self.endpoint)
        stop, self._stop = self._stop, lambda: None
        stop()


@contextmanager
def published(warehouse: str, command: str, port: int = 0) -> Iterator[Service]:
    """A service that other commands can find, for the length of the block; `port` 0 takes a free one."""
    service = Service(warehouse, command, port)
    try:
        endpoint.publish(warehouse, service.endpoint)
        yield service
    finally:
        service.stop()


def _listen(port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen(128)
    except (OSError, OverflowError) as error:
        found.close()
        raise EngineError(
            "PORT_TAKEN",
            f"port {port} on {HOST} cannot be used",
            detail=str(error),
            hint="name another with --port, or leave it out to take a free one",
        ) from error
    return found
