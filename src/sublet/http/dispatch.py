"""From a request to its answer: checks in the documented order (docs/errors.md), then the handler.

Head, rates of the address and its network, route, method, token or session, its networks or origin, their rate, scope, media type, size, form. The
verb does the other checks.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import structlog
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from sublet.accounts.authenticate import authenticate_session
from sublet.accounts.model import Registrant
from sublet.errors import (
    InsufficientRole,
    InsufficientScope,
    InvalidRequest,
    NotFound,
    RateLimited,
    Refusal,
    SessionInvalid,
    SessionRequired,
    TokenInvalid,
    TokenMissing,
    TokenRestricted,
    Unavailable,
    ValidationFailed,
    validation_failed,
)
from sublet.http.bodies import NoBody
from sublet.http.client import Client, Clients, is_from_site, origin_refused
from sublet.http.conditional import entity_tag, is_not_modified
from sublet.http.endpoints import (
    DOCS_PATH,
    WRITE_METHODS,
    Answer,
    Call,
    Context,
    Endpoint,
    Visit,
    has_entity_tag,
    takes_body,
    takes_idempotency_key,
    takes_if_match,
)
from sublet.http.errors import (
    JSON_TYPE,
    InternalError,
    MethodNotAllowed,
    UriTooLong,
    accepted_request_id,
    render_refusal,
)
from sublet.http.idempotency import REPLAYED, fingerprint, read_key
from sublet.http.json_body import BodyTooSlow, parse_object, read_body
from sublet.http.limits import (
    ADDRESS,
    FAILED_AUTHENTICATION,
    FAILED_OF_NETWORK,
    NETWORK,
    TICKET,
    WRITE,
    Allowance,
    address_key,
    limit_headers,
)
from sublet.http.members import Reading, invalid_request, read_members, read_query
from sublet.http.organization_header import read_organization
from sublet.http.security_headers import ENCODED
from sublet.http.session_cookie import CLEARED, read_cookie
from sublet.ids import new_request_id
from sublet.secret import Secret

log = structlog.get_logger()
ANSWER_SECONDS = 30.0
"""The timeout of a change, besides the wait for its publication. It is longer than any timeout within it."""
URI_MAX_BYTES = 16 * 1024
"""The longest path and query together; RFC 9110, section 4.1, recommends at least 8,000 bytes."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{0,5})?")
"""A host name, an address or nothing, with or without a port (RFC 9110, section 7.2). Names of containers have underscores."""


@dataclass(slots=True)
class _Request:
    """A request on its way through the checks, and what its answer and its log line need."""

    scope: Scope
    receive: Receive
    fields: Headers
    client: Client
    request_id: str
    endpoint: str = "unknown"
    user_id: int | None = None
    body_read: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    parts: AsyncIterator[bytes] | None = None
    logged_path: str = ""

    async def receive_body(self) -> Message:
        """Return the next part of the body, and remember whether it was the last one."""
        message = await self.receive()
        self.body_read = not message.get("more_body", False)
        return message


class Resource:
    """All methods of one path, as an ASGI application. Without methods it answers 404."""

    def __init__(self, context: Context, methods: Mapping[str, Endpoint], public_url: str) -> None:
        self._context = context
        self._clients = Clients(context.settings, public_url)
        self._methods = methods
        # A parameter of a path that needs no token may be a secret, which the log must not have.
        self._path = next((each.path for each in methods.values() if each.is_open), "")
        self._timeout_seconds = ANSWER_SECONDS + context.settings.publish_wait_ms / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and record it. Faults are logged and answered without details."""
        started = time.perf_counter()
        fields = Headers(scope=scope)
        request_id = accepted_request_id(fields.get("x-request-id")) or new_request_id()
        client = self._clients.find(scope, fields)
        request = _Request(
            scope, receive, fields, client, request_id, logged_path=self._path or scope["path"]
        )
        error = None
        bind_contextvars(request_id=request_id)  # each request runs in a task and context of its own
        try:
            status, body = await self._answer(request)
            request.headers["content-type"] = JSON_TYPE
        except Refusal as refusal:
            error = refusal.code
            status, body = _render(request, refusal)
        except Exception:
            log.exception("fault", path=request.logged_path)
            error = InternalError.code
            status, body = _render(
                request,
                InternalError(
                    "Something went wrong here; it is logged under this request id. Tell the operator."
                ),
            )
        request.headers["x-request-id"] = request_id
        # The newline is for terminals: their prompt starts on a line of its own.
        response: Response
        if request.parts is not None:
            response = StreamingResponse(_ended_by_newline(request.parts), status, request.headers)
        else:
            response = Response(body and body + b"\n", status, request.headers)
        response.raw_headers += ENCODED
        await response(scope, receive, send)
        seconds = time.perf_counter() - started
        self._context.metrics.count(request.endpoint, status, seconds)
        log.info(
            "request",
            method=scope["method"],
            path=request.logged_path,
            endpoint=request.endpoint,
            status=status,
            duration_ms=round(seconds * 1000, 1),
            user_id=request.user_id,
            error=error,
        )

    async def _answer(self, request: _Request) -> tuple[int, bytes]:
        _check_head(request)
        failing = await self._admit(request)
        endpoint = self._route(request)
        request.endpoint = endpoint.name
        if endpoint.is_open:
            return await self._answer_visit(request, endpoint, failing)
        registrant = await self._authenticate(request, failing)
        request.user_id = registrant.user.id
        counted = await self._count(request, endpoint, registrant)
        try:
            _check_scope(endpoint, registrant)
            call = await self._read(request, endpoint, registrant)
            answer = await (
                self._change_in_time(endpoint, call) if takes_body(endpoint) else endpoint.handler(call)
            )
        except Refusal:
            await self._count_as_write(request, counted, registrant)
            raise
        if answer.headers.items() >= REPLAYED.items():
            await self._count_as_write(request, counted, registrant)
        request.headers |= answer.headers
        if answer.parts is not None and request.scope["method"] != "HEAD":
            request.parts = answer.parts
        body = msgspec.json.encode(answer.body)
        if has_entity_tag(endpoint):
            tag = request.headers["etag"] = entity_tag(body)
            if is_not_modified(request.fields, tag):
                return 304, b""
        return answer.status or endpoint.status, body

    async def _answer_visit(
        self, request: _Request, endpoint: Endpoint, failing: list[tuple[str, str]]
    ) -> tuple[int, bytes]:
        """Answer a request that needs no token. An invalid one counts as a failed authentication: it may be a guess."""
        _, body, _, _ = await self._read_parts(request, endpoint)
        path = request.scope.get("path_params", {})
        visit = Visit(self._context, request.request_id, body, request.client, path)
        try:
            answer = await endpoint.handler(visit)
        except ValidationFailed:
            await self._count_failure(failing)
            raise
        request.headers |= answer.headers
        return endpoint.status, msgspec.json.encode(answer.body)

    async def _change_in_time(self, endpoint: Endpoint, call: Call[Any, Any]) -> Answer:
        """Run a handler that writes, which may wait for locks. Reads have the timeouts of the database.

        Raises:
            Unavailable: the timeout is over. What the database already accepted is still written.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds) as timeout:
                return await endpoint.handler(call)
        except TimeoutError:
            if not timeout.expired():
                raise
            log.error("too_slow", endpoint=endpoint.name)  # noqa: TRY400 - a trace would show only the timeout
            raise Unavailable(
                "This took too long, and it isn't known whether it was done. Send the same again: with the same "
                "Idempotency-Key it is done once.",
                retry_after_seconds=1,
            ) from None

    def _route(self, request: _Request) -> Endpoint:
        method = request.scope["method"]
        if not self._methods:
            raise NotFound(f"There is nothing at this path. See the documentation at {DOCS_PATH}.")
        endpoint = self._methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allow = sorted({*self._methods, *(["HEAD"] if "GET" in self._methods else [])})
            raise MethodNotAllowed(
                f"This path takes other methods. Use one of {', '.join(allow)}.", details={"allow": allow}
            )
        return endpoint

    async def _admit(self, request: _Request) -> list[tuple[str, str]]:
        """Count a request toward the limits of its address and network.

        Return the policies and keys that count a failed authentication.
        """
        network, address = request.client.network, address_key(request.client.address)
        if not network:
            return [(FAILED_AUTHENTICATION, address)]
        for policy, key in ((ADDRESS, address), (NETWORK, network)):
            allowance = await self._context.limits.take(policy, key)
            if allowance is not None and not allowance.allowed:
                request.headers |= limit_headers(allowance)
                raise RateLimited(
                    f"More than {allowance.limit} requests from this {policy} in a minute; wait {allowance.reset_seconds} s.",
                    retry_after_seconds=allowance.reset_seconds,
                )
        return [(FAILED_AUTHENTICATION, address), (FAILED_OF_NETWORK, network)]

    async def _authenticate(self, request: _Request, failing: list[tuple[str, str]]) -> Registrant:
        """Return the registrant of the token, which may be used from here. Only failures are limited, so a valid token is always accepted.

        A request with `Authorization` ignores the cookie of a session.
        """
        values = request.fields.getlist("authorization")
        organization_id = read_organization(request.fields, is_of_session=not values)
        if not values:
            return await self._authenticate_session(request, failing, organization_id)
        try:
            scheme, _, token = values[0].partition(" ")
            if len(values) > 1 or scheme.lower() != "bearer":
                raise TokenInvalid("Send the token once, in the header `Authorization: Bearer <API_TOKEN>`.")
            registrant = await self._context.authenticate(self._context.db, Secret(token.strip(" ")))
        except Refusal as refusal:
            if refusal.category is TokenInvalid.category:
                await self._count_failure(failing)
            raise
        if not registrant.restrictions.allows_address(request.client.address):
            raise TokenRestricted(
                f"This token may not be used from {request.client.address or 'this address'}. Use it from its networks, or use another token.",
                details={"restriction": "networks"},
            )
        self._context.note_use(registrant, request.client.address)
        return registrant

    async def _authenticate_session(
        self, request: _Request, failing: list[tuple[str, str]], organization_id: int | None
    ) -> Registrant:
        """Return the registrant of the session in the cookie. A change has to come from a page of ours."""
        secret = read_cookie(request.fields)
        if secret is None:
            raise TokenMissing("Send the token in the header `Authorization: Bearer <API_TOKEN>`.")
        idle = timedelta(hours=self._context.settings.session_idle_hours)
        try:
            registrant = await authenticate_session(self._context.db, secret, idle, organization_id)
        except SessionInvalid:
            request.headers["set-cookie"] = CLEARED
            await self._count_failure(failing)
            raise
        if request.scope["method"] in WRITE_METHODS and not is_from_site(request.fields, request.client.site):
            raise origin_refused(request.client.site)
        self._context.note_use(registrant, request.client.address)
        return registrant

    async def _count_failure(self, failing: list[tuple[str, str]]) -> None:
        for policy, key in failing:
            _refuse_more_failures(await self._context.limits.take(policy, key))

    async def _count(self, request: _Request, endpoint: Endpoint, registrant: Registrant) -> Allowance | None:
        allowance = await self._context.limits.take(endpoint.rate_class, registrant.credential)
        if allowance is None:
            return None
        request.headers |= limit_headers(allowance)
        if not allowance.allowed:
            raise RateLimited(
                f"More than {allowance.limit} requests of this kind in a minute; wait {allowance.reset_seconds} s.",
                retry_after_seconds=allowance.reset_seconds,
            )
        return allowance

    async def _count_as_write(
        self, request: _Request, counted: Allowance | None, registrant: Registrant
    ) -> None:
        """Count a request that created no ticket and no reply as a write instead, unless the token has no write left."""
        if counted is None or counted.policy != TICKET:
            return
        limits, key = self._context.limits, registrant.credential
        with suppress(Unavailable):  # the request has an answer already
            write = await limits.take(WRITE, key)
            if write is not None and write.allowed:
                request.headers |= limit_headers(limits.give_back(counted, key))

    async def _read(self, request: _Request, endpoint: Endpoint, registrant: Registrant) -> Call[Any, Any]:
        """Check media type, size and form. The refusal lists everything malformed in body, query and headers."""
        members, body, query, key = await self._read_parts(request, endpoint)
        path = request.scope["path"]
        if_match = request.fields.getlist("if-match")
        return Call(
            context=self._context,
            request_id=request.request_id,
            registrant=registrant,
            path=request.scope.get("path_params", {}),
            body=body,
            query=query,
            idempotency_key=key,
            fingerprint=""
            if key is None
            else fingerprint(
                endpoint.method,
                path,
                members,
                registrant.restrictions,
                None if registrant.account is None else registrant.account.id,
            ),
            request_path=path,
            query_string=request.scope.get("query_string", b"").decode("ascii", "replace"),
            client=request.client,
            if_match=",".join(if_match) if if_match and takes_if_match(endpoint) else None,
        )

    async def _read_parts(
        self, request: _Request, endpoint: Endpoint
    ) -> tuple[dict[str, Any], Any, Any, str | None]:
        """Return the members of the body, body and query as Structs, and the `Idempotency-Key`."""
        members: dict[str, Any] = {}
        reading = Reading()
        body = None
        if takes_body(endpoint):
            raw = await read_body(request.fields, request.receive_body)
            if raw:
                members, reading.malformed = parse_object(raw)
            body = read_members(members, endpoint.body or NoBody, reading)
        query = read_query(request.scope.get("query_string", b""), endpoint.query, reading)
        key = read_key(request.fields, reading) if takes_idempotency_key(endpoint) else None
        if reading.malformed:
            raise invalid_request(reading.malformed)
        if reading.missing:
            raise validation_failed(reading.missing, reading.missing.omitted)
        return members, body, query, key


def _check_head(request: _Request) -> None:
    """Check what two readers of a request's head could understand differently.

    uvicorn doesn't show whether the request line had an absolute URI; the proxy handles those.

    Raises, in this order:
        UriTooLong: path and query are longer than `URI_MAX_BYTES`.
        InvalidRequest: another version of HTTP than 1.0 and 1.1; a missing, repeated or malformed `Host`; `Transfer-Encoding` in
            HTTP/1.0; an empty segment or a control character in the path.
    """
    scope, path = request.scope, request.scope["path"]
    version = scope["http_version"]
    hosts = request.fields.getlist("host")
    if len(scope["raw_path"]) + len(scope["query_string"]) >= URI_MAX_BYTES:
        raise UriTooLong(f"Path and query are too long. Send {URI_MAX_BYTES} bytes at most.")
    if version not in ("1.0", "1.1"):
        raise InvalidRequest("Send the request in HTTP/1.1.")
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        raise InvalidRequest("HTTP/1.1 needs one header Host. Send it once.")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise InvalidRequest("Send the header Host as a host name or an address, with or without a port.")
    if version == "1.0" and "transfer-encoding" in request.fields:
        raise InvalidRequest("HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or use HTTP/1.1.")
    if "//" in path:
        raise InvalidRequest("The path has an empty segment (`//`). Remove it.")
    if _CONTROL.search(path):
        raise InvalidRequest("The path has a control character. Remove it.")


async def _ended_by_newline(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield part
    yield b"\n"


def _check_scope(endpoint: Endpoint, registrant: Registrant) -> None:
    """Raise unless the token or session, and the role of its user, allow an endpoint.

    Raises, in this order:
        SessionRequired: the endpoint is for sessions only.
        InsufficientScope: the token lacks the scope.
        InsufficientRole: the token is for an organization, and the user's role there doesn't allow it.
    """
    if endpoint.needs_session and registrant.session is None:
        raise SessionRequired("A token may not do this. Sign in with a browser, and do it there.")
    scope = endpoint.scope
    if scope is None or scope in registrant.restrictions.scopes:
        return
    if registrant.token is not None and scope not in registrant.token.scopes:
        raise InsufficientScope(
            f"This token lacks the scope {scope}. Use a token that has it, or ask the operator for one.",
            details={"required_scope": scope},
        )
    raise InsufficientRole(
        f"Your role in {registrant.organization.name} is {registrant.role}, which doesn't allow this. Ask an owner for another role.",
        details={"role": registrant.role, "required_scope": scope},
    )


def _render(request: _Request, refusal: Refusal) -> tuple[int, bytes]:
    """Return status and body of a refusal, and set its headers."""
    if isinstance(refusal, BodyTooSlow) or ("expect" in request.fields and not request.body_read):
        request.headers["connection"] = "close"  # the rest of the body would be read as the next request
    accept = ",".join(request.fields.getlist("accept"))
    status, headers, body = render_refusal(refusal, request.request_id, accept, DOCS_PATH)
    request.headers |= headers
    return status, body


def _refuse_more_failures(failures: Allowance | None) -> None:
    if failures is not None and not failures.allowed:
        raise RateLimited(
            "Too many attempts to authenticate from here failed. Check the token: a valid one is accepted at once.",
            retry_after_seconds=failures.reset_seconds,
        )
