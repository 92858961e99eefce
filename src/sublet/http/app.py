"""The ASGI applications: the API with its documentation, and the status pages, which every process serves."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from sublet.db import Database, Replication, Tx, find_replication
from sublet.errors import NotFound, Refusal, Unavailable
from sublet.http.dispatch import Resource
from sublet.http.docs_page import Document
from sublet.http.endpoints import BASE_PATH, DOCS_PATH, OPENAPI_PATH, Context, Endpoint
from sublet.http.errors import MethodNotAllowed, accepted_request_id, internal_error, render_refusal
from sublet.http.metrics import METRICS_TYPE, Metrics
from sublet.http.routes import ENDPOINTS, OPEN_ENDPOINTS
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.ids import new_request_id
from sublet.processes.store import check_readable

FIRST_PATHS = "/subdomains"
"""The router tries its paths in order. Paths that begin with this come first, because most requests are for them."""
Page = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, Refusal], Awaitable[Response]]
"""Answers a refusal."""


@dataclass(frozen=True, slots=True)
class Status:
    """The sources of the status pages. `readiness` has a check for each other part of the process, by its name."""

    db: Database
    metrics: Metrics
    stopping: asyncio.Event
    readiness: Mapping[str, Callable[[], bool]]


def build_app(
    context: Context,
    public_url: str,
    document: Document,
    endpoints: Sequence[Endpoint] = (*ENDPOINTS, *OPEN_ENDPOINTS),
    *,
    more: Sequence[Route] = (),
    refuse: Refuse | None = None,
) -> ASGIApp:
    """Return the application of an API process. `public_url` is where clients reach it, `document` the OpenAPI document.

    `more` are the routes of the console. Its `refuse` answers browsers outside the API.
    """
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in endpoints:
        by_path[endpoint.full_path][endpoint.method] = endpoint
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    async def openapi(_request: Request) -> Response:
        return Response(text, media_type="application/json")

    pages = [
        _page_route(OPENAPI_PATH, openapi),
        *_status_routes(Status(context.db, context.metrics, context.stopping, context.readiness)),
        *more,
    ]
    resources = [
        Route(path, Resource(context, by_path[path], public_url))
        for path in sorted(by_path, key=lambda each: not each.startswith(BASE_PATH + FIRST_PATHS))
    ]
    unknown_path: ASGIApp = Resource(context, {}, public_url)
    if refuse is not None:
        unknown_path = _page_or_default(unknown_path, refuse)
    # Only pages need Starlette's exception handlers: `Resource` turns its own exceptions into answers.
    return Router(resources, redirect_slashes=False, default=_application(pages, unknown_path, refuse))


def build_status_app(status: Status) -> Starlette:
    """Return the application of a process without the API, which serves only the status pages."""

    async def unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refusal_response(Request(scope), NotFound("There is nothing at this path. Check it."))
        await refused(scope, receive, send)

    return _application(_status_routes(status), unknown_path)


def _application(routes: Sequence[Route], default: ASGIApp, refuse: Refuse | None = None) -> Starlette:
    async def refuse_method(request: Request, error: Exception) -> Response:
        """Answer Starlette's refusal of a method on one of the pages."""
        allow = sorted((getattr(error, "headers", None) or {}).get("Allow", "GET").split(", "))
        refusal = MethodNotAllowed(
            f"This path takes other methods. Use one of {', '.join(allow)}.", details={"allow": allow}
        )
        if refuse is not None and _wants_page(request):
            return await refuse(request, refusal)
        return _refusal_response(request, refusal)

    app = Starlette(exception_handlers={HTTPException: refuse_method, Exception: _answer_exception})
    app.router = Router(routes, redirect_slashes=False, default=default)
    return app


def _status_routes(status: Status) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def readyz(_request: Request) -> Response:
        checks = {"database": True, **{name: check() for name, check in status.readiness.items()}}
        more: dict[str, object] = {}
        try:
            if (replication := await status.db.read(_read_replication)) is not None:
                more["postgresql"] = replication.members()
        except Unavailable:
            checks["database"] = False
        if (problem := status.db.problem()) is not None:
            checks["database"], more["reason"] = False, problem.message
        ready = all(checks.values()) and not status.stopping.is_set()
        return JSONResponse({"ok": ready, "checks": checks, **more}, status_code=200 if ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(status.metrics.render(), media_type=METRICS_TYPE)

    pages = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
    return [_page_route(path, page) for path, page in pages.items()]


def _read_replication(tx: Tx) -> Replication | None:
    check_readable(tx)
    return find_replication(tx)


def _page_route(path: str, page: Page) -> Route:
    """Return the route of a page, and add the headers of every answer, except those that the page sets itself."""

    async def with_headers(request: Request) -> Response:
        response = await page(request)
        response.headers["x-request-id"] = _request_id(request)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return Route(path, with_headers, methods=["GET"])


def _page_or_default(default: ASGIApp, refuse: Refuse) -> ASGIApp:
    """Return an application for unknown paths: a page for browsers outside the API, `default` for other requests."""

    async def unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if _wants_page(request):
            refusal = NotFound("There is nothing at this address. Check its spelling.")
            await (await refuse(request, refusal))(scope, receive, send)
        else:
            await default(scope, receive, send)

    return unknown_path


def _wants_page(request: Request) -> bool:
    """True for a browser that loads a page; its requests to the API are answered like those of programs."""
    return "text/html" in request.headers.get("accept", "").lower() and not request.url.path.startswith(
        BASE_PATH
    )


async def _answer_exception(request: Request, _error: Exception) -> Response:
    """Return the answer to an unexpected exception of a page, without details. Starlette raises it again, and uvicorn logs it."""
    request_id = _request_id(request)
    bind_contextvars(request_id=request_id)
    return _refusal_response(request, internal_error(request_id), request_id)


def _refusal_response(request: Request, refusal: Refusal, request_id: str | None = None) -> Response:
    accept = request.headers.get("accept", "")
    request_id = request_id or _request_id(request)
    status, headers, body = render_refusal(refusal, request_id, accept, DOCS_PATH)
    return Response(
        body, status_code=status, headers={**headers, **SECURITY_HEADERS, "x-request-id": request_id}
    )


def _request_id(request: Request) -> str:
    return accepted_request_id(request.headers.get("x-request-id")) or new_request_id()
