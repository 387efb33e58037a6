"""A session in another process: the same calls, answered by the service of the warehouse."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.health import Health
from headrace.looking.group_info import GroupInfo
from headrace.model.errors import EngineError
from headrace.service import wire
from headrace.service.endpoint import Endpoint, find

if TYPE_CHECKING:
    import pyarrow as pa

START_S = 180.0
"""A service that has just been started answers when Spark is up."""

LOOK_S = 60.0


def connect(warehouse: str | Path) -> RemoteSession | None:
    """The service of a warehouse, or None when none is up; waits for one that is just starting.

    A file that was left behind is no service: its process is gone, nobody listens, or somebody else does.
    """
    endpoint = find(warehouse)
    if endpoint is None:
        return None
    session = RemoteSession(endpoint)
    try:
        session.hello = wire.build(wire.Hello, session.get("/v1/hello", START_S))
    except EngineError as error:
        if error.code in ("NO_TOKEN", "SERVICE_GONE", "NOT_A_SERVICE"):
            return None
        raise
    return session


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    kind: str
    body: bytes


class RemoteSession:
    """Implements `Served` over HTTP. Errors of the other side are raised here as what they were there."""

    hello: wire.Hello

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def follow(self, warehouse: str | Path) -> bool:
        """Ask whoever runs the warehouse from now on; whether that is another process than before."""
        if find(warehouse) in (None, self.endpoint):
            return False
        other = connect(warehouse)
        if other is None:
            return False
        self.endpoint, self.hello = other.endpoint, other.hello
        return True

    def query(self, name: str) -> RemoteQuery:
        return RemoteQuery(self, name)

    def queries(self) -> list[wire.Query]:
        return [wire.build(wire.Query, item) for item in self.get("/v1/queries")]

    def streams(self) -> list[wire.Stream]:
        return [wire.build(wire.Stream, item) for item in self.get("/v1/streams")]

    def groups(self) -> list[GroupInfo]:
        return [wire.build(GroupInfo, item) for item in self.get("/v1/groups")]

    def explain(self) -> str:
        return str(self.get("/v1/explain")["text"])

    def metrics(self) -> wire.Metrics:
        return wire.build(wire.Metrics, self.get("/v1/metrics"))

    def health(self) -> Health:
        return wire.build(Health, self.get("/v1/health"))

    def execute(self, statement: str) -> str | pa.Table:
        reply = self.send("POST", "/v1/statements", {"statement": statement}, None)
        return wire.table_from(reply.body) if reply.kind == wire.ARROW else str(_json(reply)["text"])

    def get(self, path: str, timeout: float | None = LOOK_S) -> Any:
        return _json(self.send("GET", path, None, timeout))

    def post(self, path: str) -> Any:
        return _json(self.send("POST", path, None, None))

    def send(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> Reply:
        connection = http.client.HTTPConnection(self.endpoint.host, self.endpoint.port, timeout=timeout)
        headers = {
            "Authorization": f"Bearer {self.endpoint.token}",
            "Accept": f"{wire.ARROW}, application/json",
            "Content-Type": "application/json",
        }
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            kind = response.headers.get_content_type()
            reply = Reply(response.status, kind, response.read())
        except TimeoutError:
            raise EngineError(
                "SERVICE_SILENT",
                f"process {self.endpoint.pid}, which runs this warehouse, does not answer",
                detail=f"{self.endpoint.address} took the connection and said nothing for {timeout or 0:.0f} s",
                hint="look at its terminal, or end it",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(
                "SERVICE_GONE",
                f"process {self.endpoint.pid}, which ran this warehouse, does not answer any more",
                detail=str(error) or type(error).__name__,
                hint="start it again with `headrace run` or `headrace serve`",
            ) from None
        finally:
            connection.close()
        if reply.status >= 400:
            raise wire.error_in(_json(reply).get("error", {}))
        return reply


class RemoteQuery:
    """Implements `QueryHandle` over HTTP."""

    def __init__(self, session: RemoteSession, name: str) -> None:
        self._session, self._path = session, f"/v1/queries/{quote(name, safe='')}"

    def explain(self) -> str:
        return str(self._session.get(f"{self._path}/explain", None)["text"])

    def status(self) -> wire.Status:
        return wire.build(wire.Status, self._session.get(f"{self._path}/status"))

    def newest(self, limit: int, after: int | None) -> wire.Newest:
        asked = f"limit={limit}" if after is None else f"limit={limit}&after={after}"
        return wire.newest_from(self._session.send("GET", f"{self._path}/rows?{asked}").body)

    def audit(self) -> wire.Audit:
        return wire.build(wire.Audit, self._session.post(f"{self._path}/audit"))


def _json(reply: Reply) -> Any:
    try:
        found = json.loads(reply.body)
    except ValueError:
        found = None
    if found is None or (reply.status >= 400 and "error" not in found):
        raise EngineError(
            "NOT_A_SERVICE", "what answers there is not Headrace", detail=f"status {reply.status}"
        )
    return found
