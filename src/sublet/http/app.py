"""The ASGI applications: the API with its documentation, and the status pages, which every process serves."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache

from msgspec import Struct
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from sublet.config import Settings, abuse_contact, contact_url
from sublet.db import Database, Replication, Tx, find_replication
from sublet.errors import MethodNotAllowed, NotFound, Refusal, Unavailable
from sublet.http.dispatch import Resource
from sublet.http.docs_page import Document
from sublet.http.errors import internal_error, render_refusal
from sublet.http.head import request_id_of
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.metrics import METRICS_TYPE, Metrics
from sublet.operations.call import Context
from sublet.operations.operation import BASE_PATH, DOCS_PATH, OPENAPI_PATH, Operation
from sublet.processes.store import check_readable

FIRST_PREFIX = "/subdomains"
"""The router tries paths in order. Paths with this prefix come first, because most requests are for
subdomains.
"""
SECURITY_TXT_PATH = "/.well-known/security.txt"
SECURITY_TXT_VALID_FOR = timedelta(days=30)
"""The time until the file expires. Each answer has a new date; RFC 9116, section 2.5.5, recommends less than
a year.
"""
RefusalPage = Callable[[Request, Refusal], Awaitable[Response]]
"""Returns a refusal as a page."""


class StatusSources(Struct, frozen=True):
    """The objects that the status pages read.

    `readiness` has the checks of `/readyz` besides the database, by name.
    """

    db: Database
    metrics: Metrics
    stopping: asyncio.Event
    readiness: Mapping[str, Callable[[], bool]]


def build_app(
    context: Context,
    public_url: str,
    document: Callable[[], Document],
    operations: Sequence[Operation],
    *,
    console_routes: Sequence[Route] = (),
    refusal_page: RefusalPage | None = None,
) -> ASGIApp:
    """Return the application of an API process.

    `public_url` is the service's URL for clients, `document` builds the OpenAPI document.

    `refusal_page` answers refused requests of browsers outside the API. Without it browsers get JSON too.
    """

    @cache
    def text() -> str:
        return json.dumps(document(), ensure_ascii=False, separators=(",", ":"))

    async def openapi(_request: Request) -> Response:
        return Response(await asyncio.to_thread(text), media_type="application/json")

    async def show_security_txt(request: Request) -> Response:
        text = security_txt(context.settings, public_url, context.db.now())
        if not text:
            return _refusal_response(request, NotFound("The operator has published no contact."))
        return PlainTextResponse(text)

    pages = [
        Route(OPENAPI_PATH, openapi, methods=["GET"]),
        Route(SECURITY_TXT_PATH, show_security_txt, methods=["GET"]),
        *_status_routes(StatusSources(context.db, context.metrics, context.stopping, context.readiness)),
        *console_routes,
    ]
    unknown_path: ASGIApp = Resource(context, {}, public_url)
    if refusal_page is not None:
        unknown_path = _page_or_default(unknown_path, refusal_page)
    # `Resource` answers its own exceptions, so only the pages need Starlette's exception handlers.
    default = _application(pages, unknown_path, refusal_page)
    by_surface: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_surface[operation.surface.prefix].append(operation)
    routers = {
        prefix: _router(
            context,
            found,
            public_url,
            Resource(context, {}, public_url, found[0].surface) if prefix else default,
        )
        for prefix, found in by_surface.items()
    }
    return _by_prefix(routers, routers.pop("", default))


def _router(
    context: Context, operations: Sequence[Operation], public_url: str, unknown_path: ASGIApp
) -> Router:
    """Return the router of a surface's operations."""
    by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
    for operation in operations:
        by_path[operation.full_path][operation.method] = operation
    resources = [
        Route(path, Resource(context, by_path[path], public_url))
        for path in sorted(by_path, key=lambda each: not each.startswith(BASE_PATH + FIRST_PREFIX))
    ]
    return Router(resources, redirect_slashes=False, default=unknown_path)


def build_status_app(sources: StatusSources) -> ASGIApp:
    """Return an application that serves only the status pages, for a process without the API."""

    async def unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refusal_response(
            Request(scope), NotFound("There is nothing at this path. Check the path.")
        )
        await refused(scope, receive, send)

    return _application(_status_routes(sources), unknown_path)


def _application(
    routes: Sequence[Route], default: ASGIApp, refusal_page: RefusalPage | None = None
) -> ASGIApp:
    """Return the application of these routes.

    Each answer gets the security headers and the request id, unless it sets them itself.
    """

    async def refuse_method(request: Request, error: Exception) -> Response:
        """Return the refusal of a method that the path doesn't take, as a page or as JSON."""
        allow = sorted((getattr(error, "headers", None) or {}).get("Allow", "GET").split(", "))
        refusal = MethodNotAllowed(
            f"This path doesn't take this method. Use one of {', '.join(allow)}.", details={"allow": allow}
        )
        if refusal_page is not None and _wants_page(request):
            return await refusal_page(request, refusal)
        return _refusal_response(request, refusal)

    app = Starlette(exception_handlers={HTTPException: refuse_method, Exception: _answer_exception})
    app.router = Router(routes, redirect_slashes=False, default=default)
    return _with_headers(app)


def _with_headers(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("x-request-id", request_id_of(Headers(scope=scope)))
            await send(message)

        await app(scope, receive, send_with_headers if scope["type"] == "http" else send)

    return answer


def _status_routes(sources: StatusSources) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def readyz(_request: Request) -> Response:
        checks = {"database": True, **{name: check() for name, check in sources.readiness.items()}}
        more: dict[str, object] = {}
        try:
            if (replication := await sources.db.read(_read_replication)) is not None:
                more["postgresql"] = replication.members()
        except Unavailable:
            checks["database"] = False
        if (problem := sources.db.problem()) is not None:
            checks["database"], more["reason"] = False, problem.message
        elif (failure := sources.db.write_failure()) is not None:
            checks["database"], more["reason"] = False, failure
        ready = all(checks.values()) and not sources.stopping.is_set()
        return JSONResponse({"ok": ready, "checks": checks, **more}, status_code=200 if ready else 503)

    async def metrics(_request: Request) -> Response:
        return Response(sources.metrics.render(), media_type=METRICS_TYPE)

    pages = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
    return [Route(path, page, methods=["GET"]) for path, page in pages.items()]


def security_txt(settings: Settings, public_url: str, now: datetime) -> str:
    """Return the file security.txt (RFC 9116): whom to write to about a security problem of the service.

    The contacts are the abuse contact and the imprint. Without one it is empty.

    Addresses of pages must be https (section 2.5.4), so others are left out.
    """
    contacts = dict.fromkeys(map(contact_url, (abuse_contact(settings), settings.site_imprint_url)))
    usable = [each for each in contacts if each.startswith(("mailto:", "https://"))]
    if not usable:
        return ""
    lines = [f"Contact: {each}" for each in usable]
    lines.append(f"Expires: {(now + SECURITY_TXT_VALID_FOR).strftime('%Y-%m-%dT00:00:00Z')}")
    if public_url.startswith("https://"):
        lines.append(f"Canonical: {public_url}{SECURITY_TXT_PATH}")
    return "".join(f"{each}\n" for each in lines)


def _read_replication(tx: Tx) -> Replication | None:
    check_readable(tx)
    return find_replication(tx)


def _by_prefix(apps: Mapping[str, ASGIApp], default: ASGIApp) -> ASGIApp:
    """Return an application that calls the one for the path's prefix, or else `default`."""
    by_prefix = [(f"{prefix}/", app) for prefix, app in apps.items()]

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        path = f"{scope.get('path', '')}/"
        app = next((app for prefix, app in by_prefix if path.startswith(prefix)), default)
        await app(scope, receive, send)

    return choose


def _page_or_default(default: ASGIApp, refusal_page: RefusalPage) -> ASGIApp:
    """Return an application for unknown paths that sends a page to browsers outside the API, and calls
    `default` for other requests.
    """

    async def unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if _wants_page(request):
            refusal = NotFound("There is nothing at this address. Check its spelling.")
            await (await refusal_page(request, refusal))(scope, receive, send)
        else:
            await default(scope, receive, send)

    return unknown_path


def _wants_page(request: Request) -> bool:
    """True if a browser loads a page.

    False for all requests to the API, because browsers get JSON there too.
    """
    return "text/html" in request.headers.get("accept", "").lower() and not request.url.path.startswith(
        BASE_PATH
    )


async def _answer_exception(request: Request, _error: Exception) -> Response:
    """Return the answer to an unexpected exception of a page, without details.

    Starlette then raises the exception, so that uvicorn logs it.
    """
    request_id = request_id_of(request.headers)
    bind_contextvars(request_id=request_id)
    return _refusal_response(request, internal_error(request_id), request_id)


def _refusal_response(request: Request, refusal: Refusal, request_id: str | None = None) -> Response:
    accept = request.headers.get("accept", "")
    request_id = request_id or request_id_of(request.headers)
    status, headers, body = render_refusal(refusal, request_id, accept, DOCS_PATH)
    return Response(body, status_code=status, headers={**headers, "x-request-id": request_id})
