"""The checks before an operation that the API and the console share, in the order of docs/errors.md.

The checks are the rate limits of address and network, the session, the rate limit of the credential, the
scope, the gate, the form of the request, and the timeout. `dispatch.py` applies the checks to requests of the
API, `sublet.web` to forms of the console.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
import structlog
from starlette.datastructures import Headers

from sublet.accounts.authenticate import authenticate_session
from sublet.accounts.model import Registrant
from sublet.accounts.sessions import require_recent_sign_in
from sublet.errors import (
    Category,
    FieldErrors,
    InsufficientRole,
    InsufficientScope,
    Refusal,
    SessionInvalid,
    SessionRequired,
    TokenMissing,
    TokenRestricted,
    Unavailable,
    ValidationFailed,
    validation_failed,
)
from sublet.http.read_structs import Reading, invalid_request, read_members, read_query
from sublet.operations.call import Answer, Call, Context, OpenCall
from sublet.operations.client import CLEARED_COOKIE, Client, address_key
from sublet.operations.idempotency import REPLAYED, fingerprint
from sublet.operations.operation import FOR_OTHER_SESSIONS, Operation
from sublet.operations.rate_limiter import (
    ADDRESS,
    FAILED_AUTHENTICATION,
    FAILED_OF_NETWORK,
    NETWORK,
    TICKET,
    WRITE,
    Allowance,
    limit_headers,
)
from sublet.operations.shapes import NoBody
from sublet.secret import Secret
from sublet.sign_in.sessions import CURRENT

log = structlog.get_logger()
ANSWER_SECONDS = 30.0
"""The timeout of an operation that writes, without its wait for the publication. All timeouts inside it are
shorter.
"""
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
FailureLimits = list[tuple[str, str]]
"""The rate limits, as policies and keys, that a failed authentication counts against."""


class SentRequest(msgspec.Struct, kw_only=True):
    """A request to an operation, without its credentials.

    `path` is the whole path, `parameters` are the path parameters. `fields` are the headers of the request;
    the checks add the headers of the answer to `headers`. `counted_as` is the rate limit key of a request
    without a credential. `counted_classes` are the rate classes of reads that a page has counted already: all
    reads of a page count once.
    """

    fields: Headers
    client: Client
    request_id: str
    path: str
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    query_string: bytes = b""
    sent_members: dict[str, Any] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    counted_as: str = ""
    counted_classes: set[str] | None = None

    async def members(self) -> tuple[dict[str, Any], FieldErrors]:
        """Return the members of the body, and an error for each duplicate member."""
        return self.sent_members, FieldErrors()


class Calls:
    """Checks requests, then runs their operations."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._timeout_seconds = ANSWER_SECONDS + context.settings.publish_wait_ms / 1000
        self._idle = timedelta(hours=context.settings.session_idle_hours)

    async def count_request(self, client: Client, headers: dict[str, str]) -> FailureLimits:
        """Count a request against the limits of its address and network.

        Return the limits that a failed authentication counts against.

        Raises:
            RateLimited: a limit is exceeded.
        """
        network, address = client.network, address_key(client.address)
        if not network:
            return [(FAILED_AUTHENTICATION, address)]
        for policy, key in ((ADDRESS, address), (NETWORK, network)):
            await self.context.rate_limiter.count(policy, key, headers)
        return [(FAILED_AUTHENTICATION, address), (FAILED_OF_NETWORK, network)]

    async def authenticate_session(
        self,
        client: Client,
        headers: dict[str, str],
        failure_limits: FailureLimits,
        organization_id: int | None,
    ) -> Registrant:
        """Return the registrant of the session in the cookie, who acts for the organization with
        `organization_id` unless it is None.

        Not checked: that a page of this service sent the request.

        Raises, in this order:
            TokenMissing: there is no cookie.
            RateLimited: the session is invalid, and too many authentications failed.
            SessionInvalid: the cookie's secret is wrong, or the session has ended.
            OrganizationNotFound: the user isn't a member of the organization.
            AccountSuspended: the session acts for an organization, and its user is suspended.
        """
        secret = client.session_secret()
        if secret is None:
            raise TokenMissing(
                "The request has no token. Send it in the header `Authorization: Bearer <API_TOKEN>`."
            )
        try:
            return await authenticate_session(self.context.db, secret, self._idle, organization_id)
        except SessionInvalid:
            headers["set-cookie"] = CLEARED_COOKIE
            await self.count_failure(failure_limits)
            raise

    async def authenticate_token(
        self, client: Client, text: str, failure_limits: FailureLimits
    ) -> Registrant:
        """Return the registrant of a token, and record its use.

        Only failed authentications count, so a valid token is always accepted.

        Raises, in this order:
            RateLimited: the token is invalid, and too many authentications failed.
            TokenInvalid, TokenRevoked, TokenExpired, AccountSuspended, Unavailable: raised by `authenticate`.
            TokenRestricted: the token may not be used from the client's address.
        """
        try:
            registrant = await self.context.authenticate(self.context.db, Secret(text))
        except Refusal as refusal:
            if refusal.category is Category.UNAUTHENTICATED:
                await self.count_failure(failure_limits)
            raise
        if not registrant.restrictions.allows_address(client.address):
            raise TokenRestricted(
                f"This token may not be used from {client.address or 'this address'}. Send it from one of "
                "its networks, or use another token.",
                details={"restriction": "networks"},
            )
        self.context.record_use(registrant, client.address)
        return registrant

    async def count_failure(self, failure_limits: FailureLimits) -> None:
        """Count a failed authentication.

        Raises:
            RateLimited: too many authentications failed.
        """
        for policy, key in failure_limits:
            await self.context.rate_limiter.count(policy, key)

    async def answer(self, operation: Operation, registrant: Registrant, sent: SentRequest) -> Answer[Any]:
        """Return the answer of an operation to a registrant.

        Raises:
            Refusal: a refusal of `all_refusals`, from the rate limit of the credential on.
        """
        counted = await self._count(sent, operation, registrant)
        try:
            _authorize(operation, registrant)
            await self._check_gate(operation, registrant, sent)
            call = await self._read(sent, operation, registrant)
            answer = await self._run(operation, call)
        except Refusal:
            await self._count_as_write(sent, counted, registrant)
            raise
        if answer.headers.items() >= REPLAYED.items():
            await self._count_as_write(sent, counted, registrant)
        sent.headers |= answer.headers
        return answer

    async def admit(self, operation: Operation, registrant: Registrant, sent: SentRequest) -> None:
        """Count a request as an operation, and check the operation's scope and the user's role.

        Raises:
            Refusal: a refusal of `answer` before the gate.
        """
        await self._count(sent, operation, registrant)
        _authorize(operation, registrant)

    async def answer_open(
        self, operation: Operation, sent: SentRequest, failure_limits: FailureLimits
    ) -> Answer[Any]:
        """Return the answer of an operation that needs no token.

        `ValidationFailed` counts as a failed authentication, because it may follow a guess.
        """
        parts = await _read_parts(sent, operation)
        call = OpenCall(self.context, sent.request_id, parts.body, sent.client, sent.parameters)
        try:
            answer = await self._run(operation, call)
        except ValidationFailed:
            await self.count_failure(failure_limits)
            raise
        sent.headers |= answer.headers
        return answer

    async def _run(self, operation: Operation, call: Call[Any, Any] | OpenCall[Any]) -> Answer[Any]:
        """Run an operation.

        Those that write have a timeout, because they may wait for locks. Reads have the timeouts of the
        database.

        Raises:
            Unavailable: the timeout expired. A write that the database has accepted still takes effect.
        """
        if operation.reads:
            read: msgspec.Struct | Answer[Any] = await self.context.db.read(operation.function, call)
            return read if isinstance(read, Answer) else Answer(read)
        answer: Answer[Any]
        if not operation.takes_body:
            answer = await operation.function(call)
            return answer
        try:
            async with asyncio.timeout(self._timeout_seconds) as timeout:
                answer = await operation.function(call)
                return answer
        except TimeoutError:
            if not timeout.expired():
                raise
            log.error("too_slow", endpoint=operation.name)  # noqa: TRY400 - a traceback would show only the timeout
            raise Unavailable(
                "This took too long, so its outcome is unknown. Check the result before you try again.",
                retry_after_seconds=1,
            ) from None

    async def _count(
        self, sent: SentRequest, operation: Operation, registrant: Registrant
    ) -> Allowance | None:
        if sent.counted_classes is not None and not operation.takes_body:
            if operation.rate_class in sent.counted_classes:
                return None
            sent.counted_classes.add(operation.rate_class)
        key = sent.counted_as or _rate_limit_key(operation.rate_class, registrant)
        allowance = await self.context.rate_limiter.count(operation.rate_class, key, sent.headers)
        if allowance is not None:
            sent.headers |= limit_headers(allowance)
        return allowance

    async def _count_as_write(
        self, sent: SentRequest, counted: Allowance | None, registrant: Registrant
    ) -> None:
        """Count a ticket request that created no ticket or reply as a write instead, if the write limit
        allows one more.
        """
        if counted is None or counted.policy.name != TICKET:
            return
        limiter = self.context.rate_limiter
        with suppress(Unavailable):  # a failure here must not replace the request's answer
            write = await limiter.take(WRITE, _rate_limit_key(WRITE, registrant))
            if write is not None and write.allowed:
                sent.headers |= limit_headers(limiter.release(counted, _rate_limit_key(TICKET, registrant)))

    async def _check_gate(self, operation: Operation, registrant: Registrant, sent: SentRequest) -> None:
        """Raise unless the operation's gate lets the request pass. Tokens pass (`accounts/sessions.py`).

        Raises, in this order:
            SessionInvalid: the session ended after the request was authenticated.
            SignInRequired: the session's last sign-in is too old, or its method isn't sufficient.
        """
        gate, session = operation.gate, registrant.session
        if gate is None or session is None or not gate.is_before_body:
            return
        if gate.checked == FOR_OTHER_SESSIONS and sent.parameters["id"] in (CURRENT, str(session.id)):
            return
        actor = registrant.actor(sent.request_id)
        await self.context.db.read(require_recent_sign_in, actor, any_method=gate.any_method)

    async def _read(self, sent: SentRequest, operation: Operation, registrant: Registrant) -> Call[Any, Any]:
        """Return the call that an operation gets.

        A refusal lists all malformed fields of body, query and headers.
        """
        parts = await _read_parts(sent, operation)
        if_match = sent.fields.getlist("if-match") if operation.takes_if_match else []
        return Call(
            context=self.context,
            request_id=sent.request_id,
            registrant=registrant,
            path=sent.parameters,
            body=parts.body,
            query=parts.query,
            idempotency_key=parts.idempotency_key,
            fingerprint=""
            if parts.idempotency_key is None
            else fingerprint(
                operation.method,
                sent.path,
                parts.members,
                registrant.restrictions,
                None if registrant.account is None else registrant.account.id,
            ),
            status=operation.status,
            request_path=sent.path,
            query_string=sent.query_string.decode("ascii", "replace"),
            client=sent.client,
            if_match=",".join(if_match) if if_match else None,
        )


def _rate_limit_key(rate_class: str, registrant: Registrant) -> str:
    """Return the key of a request: its token or session, or for tickets its user, because people must read
    what all tokens send.
    """
    return f"user-{registrant.user.id}" if rate_class == TICKET else registrant.rate_limit_key


class _Parts(NamedTuple):
    """The parts of a request.

    `members` is the parsed JSON body; `body` is the Struct made from it, `query` that of the query string.
    """

    members: dict[str, Any]
    body: Any
    query: Any
    idempotency_key: str | None


async def _read_parts(sent: SentRequest, operation: Operation) -> _Parts:
    """Return the parts of a request.

    A refusal lists all malformed fields (400), or else all invalid ones (422).
    """
    members: dict[str, Any] = {}
    reading = Reading()
    body = None
    if operation.takes_body:
        members, reading.malformed = await sent.members()
        body = read_members(members, operation.body or NoBody, reading)
    query = None
    if not operation.surface.ignores_query:
        query = read_query(sent.query_string, operation.query, reading)
    key = read_key(sent.fields, reading) if operation.takes_idempotency_key else None
    if reading.malformed:
        raise invalid_request(reading.malformed)
    if reading.invalid:
        raise validation_failed(reading.invalid, reading.invalid.omitted)
    return _Parts(members, body, query, key)


def _authorize(operation: Operation, registrant: Registrant) -> None:
    """Raise unless the credential and the user's role in the organization allow an operation.

    Raises, in this order:
        SessionRequired: the operation is for sessions only.
        InsufficientScope, InsufficientRole: raised by `refuse_without_scope`.
    """
    if operation.needs_session and registrant.session is None:
        raise SessionRequired(
            "This request needs a session, not a token. Sign in with a browser, and send the request from "
            "there."
        )
    if operation.scope is not None:
        refuse_without_scope(registrant, operation.scope)


def refuse_without_scope(registrant: Registrant, scope: str) -> None:
    """Raise unless the credential and the user's role in the organization have a scope.

    Raises, in this order:
        InsufficientScope: the token lacks the scope.
        InsufficientRole: the token is for an organization, and the user's role there doesn't allow it.
    """
    if scope in registrant.restrictions.scopes:
        return
    if registrant.token is not None and scope not in registrant.token.scopes:
        raise InsufficientScope(
            f"This token lacks the scope {scope}. Create a token with this scope by POST /tokens, or sign "
            "in with a browser.",
            details={"required_scope": scope},
        )
    raise InsufficientRole(
        f"Your role in {registrant.organization.name} is {registrant.role}, which doesn't allow this. Ask "
        "an owner to change your role.",
        details={"role": registrant.role, "required_scope": scope},
    )


def read_key(headers: Headers, reading: Reading) -> str | None:
    """Return the `Idempotency-Key`, or None without the header.

    Add an error to `reading` if the key is malformed.
    """
    values = headers.getlist("idempotency-key")
    if not values:
        return None
    if len(values) > 1 or not _KEY.fullmatch(values[0]):
        sentence = "must be sent once, with 1 to 255 visible ASCII characters"
        reading.malformed.add("Idempotency-Key", "value_invalid", sentence)
        return None
    return values[0]
