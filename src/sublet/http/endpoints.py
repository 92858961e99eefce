"""The types of the route table: an endpoint, the call of its handler, and the answer."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from sublet import errors
from sublet.accounts.model import Registrant, Token
from sublet.accounts.store import Use
from sublet.audit import Actor
from sublet.config import Settings
from sublet.db import Database, utc_now
from sublet.dns.parent_servers import ParentServer
from sublet.errors import Refusal
from sublet.health.checker import Checker
from sublet.http import errors as http_errors
from sublet.http.limits import Limits
from sublet.http.observe import Metrics
from sublet.http.settling import Settling
from sublet.platform_domains.model import PlatformDomain
from sublet.secret import Secret
from sublet.subdomains.quota import default_quota

BASE_PATH = "/api/v1"
"""`{base_url}` without scheme and host (spec, part 9: one single base path). All under it needs a token and is JSON."""
DOCS_PATH, OPENAPI_PATH = "/docs", "/openapi.json"
"""The documentation, outside of `BASE_PATH`: it needs no token."""
TOKEN_USE_GRAIN = timedelta(hours=1)
"""The precision of a token's `last_used_at`."""
WRITE_METHODS = ("POST", "PUT", "PATCH", "DELETE")

BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")


@dataclass(frozen=True, slots=True)
class Context:
    """The objects that all requests of a process share.

    `authenticate` finds who a token's text stands for. `running` holds the (user, Idempotency-Key) of requests under
    way in this process. `stopping` is set when the process stops: from then on `/readyz` answers 503.
    """

    settings: Settings
    db: Database
    authenticate: Callable[[Database, Secret], Awaitable[Registrant]]
    limits: Limits
    metrics: Metrics
    settling: Settling
    running: set[tuple[int, str]] = field(default_factory=set)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    readiness: dict[str, Callable[[], bool]] = field(default_factory=dict)
    """The checks of `/readyz` besides the database: the other parts of this process, by name."""
    used_tokens: dict[int, Use] = field(default_factory=dict)
    """The last use of tokens whose stored `last_used_at` is too old. Written in intervals, so that a read isn't a write."""
    name_servers: Callable[[PlatformDomain], Sequence[ParentServer]] = lambda _: ()
    """Returns the name servers of a platform domain's zone. The API asks no others, except through `checker`."""
    checker: Checker | None = None
    """Looks at delegations; None if `health_checks` is off."""
    asking: Counter[int] = field(default_factory=Counter)
    """The number of requests that are asking name servers, by user id."""

    def note_use(self, token: Token, address: str) -> None:
        """Remember that a token was used from an address, if its stored use is older than `TOKEN_USE_GRAIN`."""
        now = utc_now()
        if token.last_used_at is None or now - token.last_used_at > TOKEN_USE_GRAIN:
            self.used_tokens[token.id] = Use(now, address.partition("%")[0] or None)


class Call(NamedTuple, Generic[BodyT, QueryT]):
    """One request that passed all checks before its handler.

    `path` has the path parameters, percent-decoded. `fingerprint` is that of method, path and body for `idempotency_key`
    (None if the header wasn't sent; the fingerprint is then empty).
    """

    context: Context
    request_id: str
    registrant: Registrant
    path: Mapping[str, str]
    body: BodyT
    query: QueryT
    idempotency_key: str | None
    fingerprint: str
    request_path: str
    query_string: str
    if_match: str | None = None
    """The header `If-Match`, of an endpoint that takes it."""

    def actor(self) -> Actor:
        """Return the actor that the audit names."""
        return self.registrant.actor(self.request_id)

    def default_free_quota(self) -> int:
        """Return the free quota of this user if it has no own one."""
        return default_quota(self.context.settings, self.registrant.user, self.context.db.now())


class Visit(NamedTuple, Generic[BodyT]):
    """One request without a token that passed all checks before its handler.

    `network` is that of the client's address, for the limits of a network; empty on this machine itself. `public_url` is where clients reach
    the service.
    """

    context: Context
    request_id: str
    body: BodyT
    network: str
    public_url: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a handler: a Struct of `shapes`, further headers, and a status if it isn't the endpoint's."""

    body: msgspec.Struct
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None


Handler = Callable[[Any], Awaitable[Answer]]
"""Takes a `Call`, or a `Visit` if the endpoint `is_open`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path, as part 4 of the spec lists it.

    `path` has `{parameters}`, and is relative to `BASE_PATH`. If the endpoint `is_open`, it needs no token and is at the root. `scope` is what a token needs, None for any token. `rate_class` is read, write,
    ticket, availability or health. `body` and `query` are the Structs of the request (None: nothing is accepted), `answer` is that of the answer with
    `status`. `refusals` are those of the handler, in the order in which it checks.
    """

    method: str
    path: str
    name: str
    summary: str
    description: str
    scope: str | None
    rate_class: str
    answer: type[msgspec.Struct]
    handler: Handler
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    status: int = 200
    refusals: tuple[type[Refusal], ...] = ()
    is_open: bool = False
    changes: bool = True
    """False for a POST that computes an answer and changes no resource of the user."""

    @property
    def full_path(self) -> str:
        """The path from the root."""
        return self.path if self.is_open else BASE_PATH + self.path


def takes_body(endpoint: Endpoint) -> bool:
    """True if the endpoint reads a body."""
    return endpoint.method in WRITE_METHODS


def takes_idempotency_key(endpoint: Endpoint) -> bool:
    """True if the endpoint reads `Idempotency-Key`. Keys belong to a user, so one without a token reads none."""
    return takes_body(endpoint) and not endpoint.is_open and endpoint.changes


def has_entity_tag(endpoint: Endpoint) -> bool:
    """True for GET of one name, ticket or token: its answer has an `ETag`, and it reads `If-None-Match`."""
    return endpoint.method == "GET" and endpoint.path.endswith("}")


def takes_if_match(endpoint: Endpoint) -> bool:
    """True for a change of one name, ticket or token: it reads `If-Match`."""
    return takes_body(endpoint) and "{" in endpoint.path and endpoint.changes


def all_refusals(endpoint: Endpoint) -> tuple[type[Refusal], ...]:
    """Return every refusal an endpoint may answer with, in the order in which they are checked.

    Route and method come first and are not among them: those answers belong to a path, not to an endpoint.
    """
    found: list[type[Refusal]] = []
    if not endpoint.is_open:
        found += [
            errors.TokenMissing,
            errors.TokenInvalid,
            errors.TokenExpired,
            errors.TokenRevoked,
            errors.TokenRestricted,
        ]
    found.append(errors.RateLimited)
    if endpoint.scope is not None:
        found.append(errors.InsufficientScope)
    if takes_body(endpoint):
        found += [http_errors.UnsupportedMediaType, http_errors.PayloadTooLarge, errors.InvalidJson]
    found += [errors.InvalidRequest]
    if takes_idempotency_key(endpoint):
        found += [http_errors.IdempotencyInProgress, http_errors.IdempotencyKeyReused]
    found += endpoint.refusals
    found += [http_errors.InternalError, errors.Unavailable]
    return tuple(dict.fromkeys(found))
