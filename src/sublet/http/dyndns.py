"""dyndns2 at `/nic/update` (docs/changing-addresses.md): what home routers speak, as calls of the API.

The request has a token as the password of HTTP basic authentication (RFC 7617). The answer has a line for
each host. Clients read the word in it, and some only with the status 200, so only a failed authentication, a
fault and a malformed request have another status.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from structlog.contextvars import bind_contextvars

from sublet.accounts.find import refuse_suspended
from sublet.accounts.model import Registrant
from sublet.errors import Category, InternalError, MethodNotAllowed, Refusal, TokenMissing
from sublet.http.calls import Calls, FailureLimits, SentRequest
from sublet.http.errors import internal_error, refusal_headers, status_of
from sublet.http.head import Clients, check_head, request_id_of
from sublet.http.request_log import LoggedRequest, choose_request_log
from sublet.operations.call import Context
from sublet.operations.client import Client, origin_refusal
from sublet.operations.operation import Operation
from sublet.operations.rate_limiter import DYNDNS
from sublet.structs import replace
from sublet.subdomains.records.dyndns import (
    BADAUTH,
    GOOD,
    NOCHG,
    Addresses,
    InvalidUpdate,
    Update,
    find_updates,
    parse_addresses,
    parse_hosts,
    word_of,
)

PATH = "/nic/update"
log = structlog.get_logger()


class _Asked(NamedTuple):
    """A request that was authenticated."""

    registrant: Registrant
    client: Client
    request_id: str


class Dyndns:
    """Answers requests of dyndns2 by calls of the operation that changes records."""

    def __init__(self, context: Context, public_url: str, operations: Sequence[Operation]) -> None:
        self._context = context
        self._calls = Calls(context)
        self._clients = Clients(context.settings, public_url)
        self._change = next(each for each in operations if each.name == "change_records")
        self._request = replace(self._change, rate_class=DYNDNS)
        self._log_request = choose_request_log(context.settings)

    def routes(self) -> list[Route]:
        """Return the route of the protocol's path."""
        return [Route(PATH, self._respond, methods=["GET", "POST"])]

    async def _respond(self, request: Request) -> Response:
        started = time.perf_counter()
        request_id = request_id_of(request.headers)
        bind_contextvars(request_id=request_id)
        client = self._clients.find(request.scope, request.headers)
        error = None
        try:
            response: Response = PlainTextResponse(await self._answer(request, client, request_id))
        except Refusal as refusal:
            error, response = refusal.code, _refused(refusal)
        except Exception:
            log.exception("fault", path=PATH)
            error, response = InternalError.code, _refused(internal_error(request_id))
        response.headers["x-request-id"] = request_id
        seconds = time.perf_counter() - started
        self._context.metrics.count("dyndns", response.status_code, seconds)
        self._log_request(
            LoggedRequest(
                method=request.method,
                path=PATH,
                endpoint="dyndns",
                status=response.status_code,
                duration_ms=round(seconds * 1000, 1),
                user_id=getattr(request.state, "user_id", None),
                error=error,
                request_id=request_id,
            )
        )
        return response

    async def _answer(self, request: Request, client: Client, request_id: str) -> str:
        check_head(request.scope, request.headers)
        if request.method == "HEAD":
            raise MethodNotAllowed("Use GET or POST.", details={"allow": ["GET", "POST"]})
        failure_limits = await self._calls.count_request(client, {})
        # A browser adds a password that it has stored to requests that pages of other sites make it send.
        if client.fields.get("sec-fetch-site") not in (None, "none", "same-origin"):
            raise origin_refusal(client.site)
        registrant = await self._authenticate(request, client, failure_limits)
        request.state.user_id = registrant.user.id
        asked = _Asked(registrant, client, request_id)
        await self._calls.admit(self._request, registrant, _sent(asked, PATH))
        refuse_suspended(registrant.user)
        refuse_suspended(registrant.holder)
        fields = dict(parse_qsl(request.url.query))
        try:
            hosts = parse_hosts(fields.get("hostname", ""))
            addresses = parse_addresses((fields.get("myip", ""), fields.get("myipv6", "")), client.address)
        except InvalidUpdate as invalid:
            return f"{invalid}\n"
        actor = registrant.actor(request_id, client.address_without_zone)
        updates = await self._context.db.read(find_updates, actor, hosts)
        lines = await asyncio.gather(*(self._update(asked, each, addresses) for each in updates))
        return "".join(f"{line}\n" for line in lines)

    async def _authenticate(
        self, request: Request, client: Client, failure_limits: FailureLimits
    ) -> Registrant:
        values = request.headers.getlist("authorization")
        if not values:
            raise TokenMissing("Send a token as the password of HTTP basic authentication.")
        return await self._calls.authenticate_token(client, _read_password(values), failure_limits)

    async def _update(self, asked: _Asked, update: Update, addresses: Addresses) -> str:
        """Return the line of one host."""
        if update.refusal is not None:
            return word_of(update.refusal, of_host=True)
        shown = ",".join(addresses.values())
        if update.is_stored(addresses):
            return f"{NOCHG} {shown}"
        sent = _sent(asked, self._change.full_path.replace("{fqdn}", update.fqdn))
        sent.parameters = {"fqdn": update.fqdn}
        sent.sent_members = {"records": update.members(addresses)}
        try:
            await self._calls.answer(self._change, asked.registrant, sent)
        except Refusal as refusal:
            return word_of(refusal, of_host=True)
        return f"{GOOD} {shown}"


def _read_password(values: Sequence[str]) -> str:
    """Return the password of HTTP basic authentication; empty if the header is malformed or repeated."""
    scheme, _, encoded = values[0].partition(" ")
    if len(values) > 1 or scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _sent(asked: _Asked, path: str) -> SentRequest:
    return SentRequest(fields=Headers(), client=asked.client, request_id=asked.request_id, path=path)


def _refused(refusal: Refusal) -> Response:
    """Return the answer to a request that is refused as a whole."""
    word = word_of(refusal, of_host=False)
    headers = refusal_headers(refusal)
    status = 200
    if word == BADAUTH:
        status, headers["www-authenticate"] = 401, 'Basic realm="Sublet", charset="UTF-8"'
    elif refusal.category in (Category.UNAVAILABLE, Category.FAULT, Category.MALFORMED):
        status = status_of(type(refusal))
    return PlainTextResponse(f"{word}\n", status, headers)
