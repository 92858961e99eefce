"""Answer requests of the API: check each in the documented order (docs/errors.md), then call its function.

The order is: head, rate limits of address and network, path, method, token or session, networks of the token
or origin of the session's request, rate limit of the credential, scope, gate, media type, size, form. The
verb does the other checks.
"""

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import structlog
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from sublet.accounts.model import Registrant
from sublet.errors import (
    FieldErrors,
    InternalError,
    MethodNotAllowed,
    NotFound,
    Refusal,
    TokenInvalid,
)
from sublet.http.calls import Calls, FailureLimits, SentRequest
from sublet.http.errors import (
    JSON_TYPE,
    internal_error,
    names_media_type,
    refusal_headers,
    render_refusal,
    status_of,
)
from sublet.http.head import Clients, check_head, read_organization, request_id_of
from sublet.http.read_body import (
    BodyTooSlow,
    is_declared_as,
    parse_object,
    parse_text,
    read_body,
)
from sublet.http.request_log import LoggedRequest, choose_request_log
from sublet.http.security_headers import ENCODED_SECURITY_HEADERS
from sublet.operations.call import Context
from sublet.operations.client import is_from_site, origin_refusal
from sublet.operations.conditional import entity_tag, is_not_modified
from sublet.operations.operation import API, DOCS_PATH, WRITE_METHODS, Operation, Surface, TextForm
from sublet.secret import without_codes

log = structlog.get_logger()


class _Request(SentRequest, kw_only=True):
    """A request during its checks, with the values for its answer and its log line."""

    scope: Scope
    receive: Receive
    endpoint: str = "unknown"
    text: TextForm | None = None
    user_id: int | None = None
    body_read: bool = False
    parts: AsyncIterator[bytes] | tuple[()] | None = None
    logged_path: str = ""

    async def members(self) -> tuple[dict[str, Any], FieldErrors]:
        """Read the body; return its members, and an error for each duplicate member."""
        text = self.text
        text_type = None if text is None else text.media_type
        raw = await read_body(self.fields, self._receive_body, text_type=text_type)
        if raw and text is not None and is_declared_as(self.fields["content-type"], text_type):
            return {text.member: parse_text(raw)}, FieldErrors()
        return parse_object(raw) if raw else ({}, FieldErrors())

    async def _receive_body(self) -> Message:
        message = await self.receive()
        self.body_read = not message.get("more_body", False)
        return message


class Resource:
    """The ASGI application of one path with its methods. Without methods it answers 404."""

    def __init__(
        self, context: Context, methods: Mapping[str, Operation], public_url: str, surface: Surface = API
    ) -> None:
        self._calls = Calls(context)
        self._context = context
        self._clients = Clients(context.settings, public_url)
        self._methods = methods
        self._surface = next((each.surface for each in methods.values()), surface)
        self._log_request = choose_request_log(context.settings)
        # A path parameter of an open operation may be a secret, so the log gets the path with the parameters'
        # names instead of their values. Of other paths, those with codes and those that don't exist are
        # logged without codes.
        self._logged_path = next((each.full_path for each in methods.values() if each.is_open), "")
        self._may_have_codes = not methods or any(
            without_codes(each.full_path) != each.full_path for each in methods.values()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, count it and log it.

        An unexpected exception is logged in full and answered without details.
        """
        started = time.perf_counter()
        fields = Headers(scope=scope)
        request_id = request_id_of(fields)
        request = _Request(
            scope=scope,
            receive=receive,
            fields=fields,
            client=self._clients.find(scope, fields),
            request_id=request_id,
            path=scope["path"],
            query_string=scope.get("query_string", b""),
            logged_path=self._logged_path or self._path_to_log(scope["path"]),
        )
        error = None
        # Each request has its own context, so the id needn't be unbound.
        bind_contextvars(request_id=request_id)
        try:
            status, body = await self._answer(request)
            request.headers.setdefault("content-type", self._surface.media_type)
        except Refusal as refusal:
            error = refusal.code
            status, body = _render(request, refusal, self._surface)
        except Exception:
            log.exception("fault", path=request.logged_path)
            error = InternalError.code
            status, body = _render(request, internal_error(request_id), self._surface)
        request.headers |= {"x-request-id": request_id, **self._surface.headers}
        # With a final newline the prompt of a terminal begins on a new line.
        response: Response
        if request.parts is not None:
            response = StreamingResponse(request.parts, status, request.headers)
        else:
            response = Response(body and body + b"\n", status, request.headers)
        response.raw_headers += ENCODED_SECURITY_HEADERS
        try:
            await response(scope, receive, send)
        except ClientDisconnect:  # no fault: the client has closed the connection during a streamed answer
            error = "client_disconnected"
        except Exception:
            # A part of a streamed answer failed. The server closes the connection, so the client sees that
            # the answer is incomplete.
            log.exception("fault", path=request.logged_path)
            error, status = InternalError.code, 500
        seconds = time.perf_counter() - started
        self._context.metrics.count(request.endpoint, status, seconds)
        self._log_request(
            LoggedRequest(
                method=scope["method"],
                path=request.logged_path,
                endpoint=request.endpoint,
                status=status,
                duration_ms=round(seconds * 1000, 1),
                user_id=request.user_id,
                error=error,
                request_id=request_id,
            )
        )

    def _path_to_log(self, path: str) -> str:
        return without_codes(path) if self._may_have_codes else path

    async def _answer(self, request: _Request) -> tuple[int, bytes]:
        check_head(request.scope, request.fields)
        failure_limits = await self._calls.count_request(request.client, request.headers)
        operation = self._route(request)
        request.endpoint = operation.name
        request.text = operation.text
        request.parameters = request.scope.get("path_params", {})
        if operation.is_open:
            answer = await self._calls.answer_open(operation, request, failure_limits)
        else:
            registrant = await self._authenticate(request, failure_limits)
            request.user_id = registrant.user.id
            answer = await self._calls.answer(operation, registrant, request)
        if answer.parts is not None:
            # The answer to HEAD has no length then, because only reading all parts would tell it.
            request.parts = () if request.scope["method"] == "HEAD" else _ended_by_newline(answer.parts)
        body = _encode(answer.body, operation, request)
        if operation.has_etag:
            tag = request.headers["etag"] = answer.headers.get("etag") or entity_tag(answer.body, body)
            if is_not_modified(request.fields.getlist("if-none-match"), tag):
                return 304, b""
        return answer.status or operation.status, body

    def _route(self, request: _Request) -> Operation:
        method = request.scope["method"]
        if not self._methods:
            raise NotFound(f"There is nothing at this path. See the documentation at {DOCS_PATH}.")
        operation = self._methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            allow = sorted({*self._methods, *(["HEAD"] if "GET" in self._methods else [])})
            raise MethodNotAllowed(
                f"This path doesn't take this method. Use one of {', '.join(allow)}.",
                details={"allow": allow},
            )
        return operation

    async def _authenticate(self, request: _Request, failure_limits: FailureLimits) -> Registrant:
        """Return the registrant of the token in `Authorization`, or of the session in the cookie if there is
        no `Authorization`.
        """
        values = request.fields.getlist("authorization")
        organization_id = read_organization(request.fields, is_of_session=not values)
        if not values:
            return await self._authenticate_session(request, failure_limits, organization_id)
        scheme, _, token = values[0].partition(" ")
        if len(values) > 1 or scheme.lower() != "bearer":
            await self._calls.count_failure(failure_limits)
            raise TokenInvalid(
                "The header Authorization is malformed or repeated. Send `Authorization: Bearer "
                "<API_TOKEN>` once."
            )
        return await self._calls.authenticate_token(request.client, token.strip(" "), failure_limits)

    async def _authenticate_session(
        self, request: _Request, failure_limits: FailureLimits, organization_id: int | None
    ) -> Registrant:
        """Return the registrant of the session in the cookie.

        Refuse a change that no page of this service sent.
        """
        registrant = await self._calls.authenticate_session(
            request.client, request.headers, failure_limits, organization_id
        )
        if request.scope["method"] in WRITE_METHODS and not is_from_site(request.fields, request.client.site):
            raise origin_refusal(request.client.site)
        self._context.record_use(registrant, request.client.address)
        return registrant


async def _ended_by_newline(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield part
    yield b"\n"


def _encode(body: msgspec.Struct, operation: Operation, request: _Request) -> bytes:
    """Return the body of an answer: JSON, or the text of a GET that may have one."""
    if operation.text is None or operation.takes_body:
        return msgspec.json.encode(body)
    request.headers["vary"] = "Accept"
    if names_media_type(",".join(request.fields.getlist("accept")), JSON_TYPE):
        return msgspec.json.encode(body)
    request.headers["content-type"] = f"{operation.text.media_type}; charset=utf-8"
    text: str = getattr(body, operation.text.member)
    return text.removesuffix("\n").encode()


def _render(request: _Request, refusal: Refusal, surface: Surface) -> tuple[int, bytes]:
    """Return status and body of a refusal in the form of a surface, and set its headers."""
    if isinstance(refusal, BodyTooSlow) or ("expect" in request.fields and not request.body_read):
        request.headers["connection"] = "close"  # uvicorn would read the rest of the body as the next request
    if surface.describe_refusal is not None:
        status = status_of(type(refusal))
        request.headers |= {"content-type": surface.media_type, **refusal_headers(refusal)}
        return status, msgspec.json.encode(surface.describe_refusal(status, refusal.message))
    accept = ",".join(request.fields.getlist("accept"))
    status, headers, body = render_refusal(refusal, request.request_id, accept, DOCS_PATH)
    request.headers |= headers
    return status, body
