"""The HTTP API over one session: statements, rows, explain, audit, health. It only translates.

Every request must carry the token of the endpoint file and a Host header of this machine. The first keeps other
accounts out. The second keeps out web pages that made a browser believe that their name is 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.model.errors import CatalogError, EngineError, HeadraceError, SqlError
from headrace.service import wire
from headrace.service.face import Served

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

LOCAL_NAMES = frozenset({"127.0.0.1", "localhost"})
LOOKING, WORKING = 2, 8
"""Threads for what only looks at memory, and for what runs SQL: health is answered while audits take their time."""


Limit = Annotated[int, Query(ge=1, le=1_000_000)]


class StatementBody(BaseModel):
    statement: str


def make_app(
    session: Served, hello: wire.Hello, token: str, on_statement: Callable[[str], None] = lambda text: None
) -> FastAPI:
    """The application. `on_statement` hears of every statement that was run without an error."""
    app = FastAPI(title="Headrace", version=hello.version, docs_url=None, redoc_url=None)
    looks, works = _Threads("look", LOOKING), _Threads("work", WORKING)
    app.add_middleware(Guard, token=token)
    _add_errors(app)
    _add_looks(app, session, hello, looks)
    _add_work(app, session, works, on_statement)
    return app


def _add_looks(app: FastAPI, session: Served, hello: wire.Hello, threads: _Threads) -> None:
    """What is answered from memory."""

    @app.get("/v1/hello")
    async def say_hello() -> Any:
        return wire.plain(hello)

    @app.get("/v1/health")
    async def health() -> Any:
        return await threads.run(lambda: wire.plain(session.health()))

    @app.get("/v1/metrics")
    async def metrics() -> Any:
        return await threads.run(lambda: wire.picked(wire.Metrics, session.metrics()))

    @app.get("/v1/streams")
    async def streams() -> Any:
        return await threads.run(lambda: [wire.stream_out(info) for info in session.streams()])

    @app.get("/v1/groups")
    async def groups() -> Any:
        return await threads.run(lambda: [wire.group_out(info) for info in session.groups()])


def _add_work(app: FastAPI, session: Served, threads: _Threads, on_statement: Callable[[str], None]) -> None:
    """What plans, or runs on Spark."""

    @app.post("/v1/statements")
    async def statements(body: StatementBody, request: Request) -> Response:
        result = await threads.run(lambda: session.execute(body.statement))
        on_statement(body.statement)
        return await threads.run(lambda: _answer(request, result))

    @app.get("/v1/queries")
    async def queries() -> Any:  # which may count rows of joins with Spark
        return await threads.run(lambda: [wire.query_out(info) for info in session.queries()])

    @app.get("/v1/explain")
    async def explain_all() -> Any:
        return {"text": await threads.run(session.explain)}

    @app.get("/v1/queries/{name:path}/explain")
    async def explain(name: str) -> Any:
        return {"text": await threads.run(lambda: session.query(name).explain())}

    @app.get("/v1/queries/{name:path}/status")
    async def status(name: str) -> Any:
        return await threads.run(lambda: wire.picked(wire.Status, session.query(name).status()))

    @app.get("/v1/queries/{name:path}/rows")
    async def rows(
        name: str, request: Request, limit: Limit = 100, after: Annotated[int | None, Query()] = None
    ) -> Response:
        found = await threads.run(lambda: session.query(name).newest(limit, after))
        extra = {"Headrace-Epoch": str(found.epoch)}
        return await threads.run(lambda: _answer(request, wire.with_epoch(found), extra))

    @app.post("/v1/queries/{name:path}/audit")
    async def audit(name: str) -> Any:
        return await threads.run(lambda: wire.audit_out(name, session.query(name).audit()))


def _answer(request: Request, result: str | pa.Table, extra: dict[str, str] | None = None) -> Response:
    """Text as JSON; a table as Arrow for those who accept it, else as JSON."""
    if isinstance(result, str):
        return JSONResponse({"text": result})
    if wire.ARROW in request.headers.get("accept", ""):
        return Response(wire.table_bytes(result), media_type=wire.ARROW, headers=extra)
    return JSONResponse(wire.table_json(result), headers=extra)


class _Threads:
    """A fixed set of threads: one that comes and goes would leave a thread behind in the JVM each time."""

    def __init__(self, name: str, count: int) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=f"headrace-api-{name}")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


# who may ask


class Guard:
    """Lets requests through that name this machine as their host and carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refused = self._refusal(headers)
        await (self._app if refused is None else refused)(scope, receive, send)

    def _refusal(self, headers: dict[bytes, bytes]) -> Response | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name, _, port = host.partition(":")
        if name not in LOCAL_NAMES or not (port == "" or port.isdigit()):
            return error_response(
                EngineError(
                    "BAD_HOST",
                    f"requests for the host {host or '(none)'} are not answered",
                    hint="ask 127.0.0.1; the service is for this machine only",
                ),
                403,
            )
        if not secrets.compare_digest(headers.get(b"authorization", b""), self._expected):
            return error_response(
                EngineError(
                    "NO_TOKEN",
                    "the request does not carry the service's token",
                    hint="send `Authorization: Bearer TOKEN` with the token of service.json in the warehouse",
                ),
                401,
            )
        return None


# errors


def error_response(error: HeadraceError, status: int | None = None) -> JSONResponse:
    return JSONResponse({"error": wire.error_out(error)}, status_code=status or _status(error))


def _status(error: HeadraceError) -> int:
    if error.code.endswith("_NOT_FOUND"):
        return 404
    if error.code.endswith("_EXISTS"):
        return 409
    return 400 if isinstance(error, SqlError | CatalogError) else 500


def _add_errors(app: FastAPI) -> None:
    """Whatever goes wrong is answered as code, message, detail and hint."""

    @app.exception_handler(HeadraceError)
    async def ours(request: Request, error: HeadraceError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return error_response(
            EngineError("BAD_REQUEST", "the request does not fit the API", detail=where), 422
        )

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}"
        return error_response(
            EngineError("NO_ROUTE", message, hint="docs/command-line.md lists the routes"), error.status_code
        )

    @app.exception_handler(Exception)
    async def foreign(request: Request, error: Exception) -> Response:
        first = (str(error).strip().splitlines() or [""])[0]
        return error_response(
            EngineError(
                "UNEXPECTED", f"{type(error).__name__}: {first}", hint="this is a bug; please report it"
            )
        )
