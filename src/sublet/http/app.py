"""The application: the route table's paths, the documents, and what stands outside `{base_url}`."""

import json
from collections import defaultdict
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from sublet import __version__
from sublet.errors import NotFound, Refusal
from sublet.http.access_log import access_log
from sublet.http.afterwards import Afterwards
from sublet.http.dispatch import Resource
from sublet.http.docs_page import PAGE_HEADERS, render_page
from sublet.http.endpoints import BASE_PATH, DOCS_PATH, OPENAPI_PATH, Context, Endpoint
from sublet.http.errors import InternalError, MethodNotAllowed, accepted_request_id, render_refusal
from sublet.http.openapi import build_document
from sublet.http.paths import Paths
from sublet.http.routes import ENDPOINTS
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.http.status import Page, Status, status_pages
from sublet.ids import new_request_id


def build_app(context: Context, base_url: str, endpoints: Sequence[Endpoint] = ENDPOINTS) -> ASGIApp:
    """Return the ASGI application of a process; `base_url` is how clients reach `{base_url}`, for the documents."""
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in endpoints:
        by_path[endpoint.path][endpoint.method] = endpoint
    document = build_document(endpoints, base_url, __version__)
    page = render_page(document)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))

    async def openapi(_request: Request) -> Response:
        return Response(text, media_type="application/json")

    async def docs(_request: Request) -> Response:
        return HTMLResponse(page, headers=PAGE_HEADERS)

    routes = [
        Route(OPENAPI_PATH, _identified(openapi), methods=["GET"]),
        Route(DOCS_PATH, _identified(docs), methods=["GET"]),
        *_status_routes(Status(context.db, context.metrics, context.stopping, context.readiness)),
    ]
    afterwards = Afterwards(context.metrics, access_log(context.settings))
    paths = Paths(_application(routes, Resource(context, {}, afterwards)))
    for path, methods in by_path.items():
        paths.add(BASE_PATH + path, Resource(context, methods, afterwards))
    return paths


def build_status_app(status: Status) -> Starlette:
    """Return the ASGI application of a process without the API: the pages of `status` alone."""

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        refused = _refused(Request(scope), NotFound("There is nothing at this path. Check it."))
        await refused(scope, receive, send)

    return _application(_status_routes(status), nothing)


def _application(routes: Sequence[Route], default: ASGIApp) -> Starlette:
    app = Starlette(exception_handlers={HTTPException: _framework_refusal, Exception: _fault})
    app.router = Router(routes, redirect_slashes=False, default=default)
    return app


def _status_routes(status: Status) -> list[Route]:
    return [Route(path, _identified(page), methods=["GET"]) for path, page in status_pages(status).items()]


async def _framework_refusal(request: Request, error: Exception) -> Response:
    """Give what the framework refuses by itself (another method on one of the pages) our envelope too."""
    allow = sorted((getattr(error, "headers", None) or {}).get("Allow", "GET").split(", "))
    return _refused(
        request,
        MethodNotAllowed(
            f"This path takes other methods. Use one of {', '.join(allow)}.", details={"allow": allow}
        ),
    )


async def _fault(request: Request, _error: Exception) -> Response:
    """Show a fault of one of the pages blank; the framework raises it on, to be logged whole."""
    return _refused(request, InternalError("Something went wrong here; it is logged. Tell the operator."))


def _refused(request: Request, refusal: Refusal) -> Response:
    accept = request.headers.get("accept", "")
    request_id = _request_id(request)
    status, headers, body = render_refusal(refusal, request_id, accept, DOCS_PATH)
    return Response(
        body, status_code=status, headers={**headers, **SECURITY_HEADERS, "x-request-id": request_id}
    )


def _request_id(request: Request) -> str:
    return accepted_request_id(request.headers.get("x-request-id")) or new_request_id()


def _identified(page: Page) -> Page:
    """Return the page with the headers that every answer has; those of the route table get theirs in `dispatch`.

    Where the page has one of `SECURITY_HEADERS` itself, it keeps its own.
    """

    async def identified(request: Request) -> Response:
        response = await page(request)
        response.headers["x-request-id"] = _request_id(request)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return identified
