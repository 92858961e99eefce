"""From a request to its answer: one straight line of checks in the documented order (docs/errors.md), then the handler.

Rate of the address, route, method, token, rate of the token, scope, media type, size, form. The verb checks what comes after those.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from starlette.types import Message, Receive, Scope, Send

from sublet.accounts.model import Registrant
from sublet.errors import (
    InsufficientScope,
    NotFound,
    RateLimited,
    Refusal,
    TokenInvalid,
    TokenMissing,
    Unavailable,
    validation_failed,
)
from sublet.http.access_log import Answered
from sublet.http.afterwards import Afterwards
from sublet.http.bodies import NoBody
from sublet.http.deadlines import Deadlines
from sublet.http.endpoints import DOCS_PATH, Call, Context, Endpoint, takes_body
from sublet.http.errors import (
    JSON_TYPE,
    InternalError,
    MethodNotAllowed,
    accepted_request_id,
    render_refusal,
)
from sublet.http.header_fields import HeaderFields
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
    client_address,
    limit_headers,
    network_key,
    trusted_addresses,
)
from sublet.http.members import Reading, invalid_request, read_members, read_query
from sublet.http.whole_answer import send_answer
from sublet.ids import new_request_id
from sublet.log_lines import REQUEST_ID
from sublet.secret import Secret

log = structlog.get_logger()
DRAIN_MAX_BYTES = 16 * 1024 * 1024
DRAIN_SECONDS = 2.0
ANSWER_SECONDS = 30.0
"""How long the checks and the handler may take, beside the wait for a publication: longer than anything that they wait for by itself."""


@dataclass(slots=True)
class _Request:
    """What is known of a request while it goes through the checks, for its answer's headers and its line in the log."""

    scope: Scope
    receive: Receive
    fields: HeaderFields
    request_id: str
    endpoint: str = "unknown"
    user_id: int | None = None
    body_read: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    async def receive_body(self) -> Message:
        """Return the next part of the body, and remember whether it was the last one."""
        message = await self.receive()
        self.body_read = not message.get("more_body", False)
        return message


class Resource:
    """All methods of one path; an ASGI application, to which `paths` leads. Without methods nothing is there."""

    def __init__(self, context: Context, methods: Mapping[str, Endpoint], afterwards: Afterwards) -> None:
        self._context = context
        self._methods = methods
        self._trusted = trusted_addresses(context.settings.trusted_proxies)
        self._afterwards = afterwards
        self._deadlines = Deadlines(ANSWER_SECONDS + context.settings.publish_wait_ms / 1000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        started = time.perf_counter()
        headers = HeaderFields(scope["headers"])
        request_id = accepted_request_id(headers.get("x-request-id")) or new_request_id()
        request = _Request(scope, receive, headers, request_id)
        error = None
        # For all that is logged from here on. It is not taken back: each request runs in a context of its own.
        REQUEST_ID.set(request_id)
        try:
            status, body = await self._answer_in_time(request)
            request.headers["content-type"] = JSON_TYPE
        except Refusal as refusal:
            error = refusal.code
            status, body = await self._refuse(request, refusal)
        except Exception:
            log.exception("fault", path=scope["path"])
            error = InternalError.code
            status, body = await self._refuse(
                request,
                InternalError(
                    "Something went wrong here; it is logged under this request id. Tell the operator."
                ),
            )
        body += b"\n"  # so that a terminal's prompt starts on a line of its own
        request.headers["content-length"] = str(len(body))
        request.headers["x-request-id"] = request_id
        await send_answer(scope, send, status, request.headers, body)
        seconds = time.perf_counter() - started
        answered = Answered(
            scope["method"],
            scope["path"],
            request.endpoint,
            status,
            round(seconds * 1000, 1),
            request_id,
            request.user_id,
            error,
        )
        self._afterwards.tell(answered, seconds)

    async def _answer_in_time(self, request: _Request) -> tuple[int, bytes]:
        """Answer, or give up: what was given to the database to write may be written all the same.

        Raises:
            Unavailable: it took longer than `ANSWER_SECONDS` and the wait for a publication.
        """
        task = self._deadlines.begin()
        try:
            return await self._answer(request)
        except asyncio.CancelledError:
            if self._deadlines.end(task) or task.uncancel() > 0:  # somebody else ends it
                raise
            log.error("too_slow", endpoint=request.endpoint)  # noqa: TRY400 - the trace is that of the deadline
            raise Unavailable(
                "This took too long, and it isn't known whether it was done. Send the same again: with the same "
                "Idempotency-Key it is done once.",
                retry_after_seconds=1,
            ) from None
        finally:
            self._deadlines.end(task)

    async def _answer(self, request: _Request) -> tuple[int, bytes]:
        failing = await self._admit(request)
        endpoint = self._route(request)
        request.endpoint = endpoint.name
        registrant = await self._authenticate(request, failing)
        request.user_id = registrant.user.id
        counted = await self._count(request, endpoint, registrant)
        try:
            if endpoint.scope is not None and endpoint.scope not in registrant.token.scopes:
                raise InsufficientScope(
                    f"This token lacks the scope {endpoint.scope}. Use a token that has it, or ask the operator for one.",
                    details={"required_scope": endpoint.scope},
                )
            call = await self._read(request, endpoint, registrant)
            answer = await endpoint.handler(call)
        except Refusal:
            await self._count_as_write(request, counted, registrant)
            raise
        if answer.headers.items() >= REPLAYED.items():
            await self._count_as_write(request, counted, registrant)
        request.headers |= answer.headers
        return answer.status or endpoint.status, msgspec.json.encode(answer.body)

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
        """Count a request for the address and the network that it comes from, whatever its path and token.

        Return the policies and keys that a failed authentication counts against.
        """
        client = request.scope.get("client")
        address = client[0] if client else ""
        if self._trusted:
            address = client_address(address, request.fields.getlist("x-forwarded-for"), self._trusted)
        network = network_key(address)
        address = address_key(address)
        if network is None:
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
        """Return whom the token stands for. A valid one passes however many failed before: failures alone are limited."""
        values = request.fields.getlist("authorization")
        if not values:
            raise TokenMissing("Send the token in the header `Authorization: Bearer <API_TOKEN>`.")
        try:
            scheme, _, token = values[0].partition(" ")
            if len(values) > 1 or scheme.lower() != "bearer":
                raise TokenInvalid("Send the token once, in the header `Authorization: Bearer <API_TOKEN>`.")
            registrant = await self._context.authenticate(self._context.db, Secret(token.strip(" ")))
        except Refusal as refusal:
            if refusal.category is TokenInvalid.category:
                for policy, key in failing:
                    _refuse_more_failures(await self._context.limits.take(policy, key))
            raise
        self._context.note_use(registrant.token)
        return registrant

    async def _count(self, request: _Request, endpoint: Endpoint, registrant: Registrant) -> Allowance | None:
        allowance = await self._context.limits.take(endpoint.rate_class, str(registrant.token.id))
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
        """Count a request that created no ticket and no reply as a write instead; as a ticket where the token has no write left."""
        if counted is None or counted.policy != TICKET:
            return
        limits, key = self._context.limits, str(registrant.token.id)
        with suppress(Unavailable):  # the request has an answer already
            write = await limits.take(WRITE, key)
            if write is not None and write.allowed:
                request.headers |= limit_headers(limits.give_back(counted, key))

    async def _read(self, request: _Request, endpoint: Endpoint, registrant: Registrant) -> Call[Any, Any]:
        """Media type, size, form: everything malformed in body, query and headers is told at once."""
        members: dict[str, Any] = {}
        reading = Reading()
        body = None
        if takes_body(endpoint):
            raw = await read_body(request.fields, request.receive_body)
            if raw:
                members, reading.malformed = parse_object(raw)
            body = read_members(members, endpoint.body or NoBody, reading)
        query = read_query(request.scope.get("query_string", b""), endpoint.query, reading)
        key = read_key(request.fields, reading) if takes_body(endpoint) else None
        if reading.malformed:
            raise invalid_request(reading.malformed)
        if reading.missing:
            raise validation_failed(reading.missing, reading.missing.omitted)
        path = request.scope["path"]
        return Call(
            context=self._context,
            request_id=request.request_id,
            registrant=registrant,
            path=request.scope.get("path_params", {}),
            body=body,
            query=query,
            idempotency_key=key,
            fingerprint="" if key is None else fingerprint(endpoint.method, path, members),
            request_path=path,
            query_string=request.scope.get("query_string", b"").decode("ascii", "replace"),
        )

    async def _refuse(self, request: _Request, refusal: Refusal) -> tuple[int, bytes]:
        await _drain(request, refusal)
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


async def _drain(request: _Request, refusal: Refusal) -> None:
    """Take in a body that was not read, within bounds, so that the client gets to read the refusal instead of a reset."""
    fields = request.fields
    has_body = (fields.get("content-length") or "0") != "0" or "transfer-encoding" in fields
    if request.body_read or not has_body:
        return
    taken = 0
    try:
        if isinstance(refusal, BodyTooSlow) or "expect" in fields:
            taken = DRAIN_MAX_BYTES
        async with asyncio.timeout(DRAIN_SECONDS):
            while taken < DRAIN_MAX_BYTES:
                message = await request.receive_body()
                taken += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        pass
    request.headers["connection"] = "close"
