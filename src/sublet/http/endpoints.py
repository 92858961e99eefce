"""The types of the route table: an endpoint, the call of its handler, and the answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from sublet import errors
from sublet.accounts.model import Registrant
from sublet.accounts.store import Use
from sublet.audit import Actor
from sublet.config import Settings
from sublet.credits.model import Outcome
from sublet.db import Database, Tx, utc_now
from sublet.dns.parent_servers import ParentServer
from sublet.errors import Refusal, Unavailable
from sublet.health.checker import Checker
from sublet.http import errors as http_errors
from sublet.http.client import Client
from sublet.http.observe import Metrics
from sublet.http.rate_limiter import RateLimiter
from sublet.http.settling import Settling
from sublet.platform_domains.model import PlatformDomain
from sublet.secret import Secret
from sublet.subdomains.quota import default_quota, withheld_modes

BASE_PATH = "/api/v1"
"""`{base_url}` without scheme and host (spec, part 9: one single base path). All under it needs a token and is JSON."""
DOCS_PATH, OPENAPI_PATH = "/docs", "/openapi.json"
"""The documentation, outside of `BASE_PATH`: it needs no token."""
TOKEN_USE_GRAIN = timedelta(hours=1)
"""The precision of a token's `last_used_at`."""
WRITE_METHODS = ("POST", "PUT", "PATCH", "DELETE")

BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")


def _delete_nothing(_tx: Tx, _actor: Actor, _confirm: str | None) -> Outcome:
    raise Unavailable("This process deletes no users. Ask the operator.", retry_after_seconds=60)


@dataclass(frozen=True, slots=True)
class Context:
    """The objects that all requests of a process share.

    `authenticate` finds who a token's text stands for. `running` holds the (user, Idempotency-Key) of requests under
    way in this process. `stopping` is set when the process stops: from then on `/readyz` answers 503.
    """

    settings: Settings
    db: Database
    authenticate: Callable[[Database, Secret], Awaitable[Registrant]]
    rate_limiter: RateLimiter
    metrics: Metrics
    settling: Settling
    running: set[tuple[int, str]] = field(default_factory=set)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    readiness: dict[str, Callable[[], bool]] = field(default_factory=dict)
    """The checks of `/readyz` besides the database: the other parts of this process, by name."""
    used_tokens: dict[int, Use] = field(default_factory=dict)
    """The last use of tokens whose stored `last_used_at` is too old. Written in intervals, so that a read isn't a write."""
    used_sessions: dict[int, Use] = field(default_factory=dict)
    """The same of sessions."""
    name_servers: Callable[[PlatformDomain], Sequence[ParentServer]] = lambda _: ()
    """Returns the name servers of a platform domain's zone. The API asks no others, except through `checker`."""
    checker: Checker | None = None
    """Looks at delegations; None if `health_checks` is off."""
    asking: Counter[int] = field(default_factory=Counter)
    """The number of requests that are asking name servers, by user id."""
    delete_user: Callable[[Tx, Actor, str | None], Outcome] = field(default=_delete_nothing)
    """Deletes the acting user; the verb is of the registry as a whole, which this layer doesn't know."""

    def note_use(self, registrant: Registrant, address: str) -> None:
        """Remember that a token or session was used from an address, if its stored use is older than `TOKEN_USE_GRAIN`."""
        credential = registrant.token or registrant.session
        if credential is None:
            return
        now = utc_now()
        if credential.last_used_at is None or now - credential.last_used_at > TOKEN_USE_GRAIN:
            used = self.used_sessions if registrant.token is None else self.used_tokens
            used[credential.id] = Use(now, address.partition("%")[0] or None)


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
    client: Client
    if_match: str | None = None
    """The header `If-Match`, of an endpoint that takes it."""

    def actor(self) -> Actor:
        """Return the actor that the audit names."""
        return replace(self.registrant.actor(self.request_id), address=self.client.source)

    def default_free_quota(self) -> int:
        """Return the free quota of the holder if it has no own one."""
        return default_quota(self.context.settings, self.registrant.holder, self.context.db.now())

    def withheld_modes(self) -> dict[str, datetime]:
        """Return the modes in which the holder may not register names yet, and from when on each may be used."""
        return withheld_modes(self.context.settings, self.registrant.holder, self.context.db.now())


class Visit(NamedTuple, Generic[BodyT]):
    """One request without a token that passed all checks before its handler. `path` has the path parameters, percent-decoded."""

    context: Context
    request_id: str
    body: BodyT
    client: Client
    path: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a handler: a Struct of `shapes`, further headers, and a status if it isn't the endpoint's.

    `parts` are the octets of a long answer, of which `body` is the beginning; they are sent while they are made.
    """

    body: msgspec.Struct
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    parts: AsyncIterator[bytes] | None = None


Handler = Callable[[Any], Awaitable[Answer]]
"""Takes a `Call`, or a `Visit` if the endpoint `is_open`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path, as part 4 of the spec lists it.

    `path` has `{parameters}`, and is relative to `BASE_PATH`. If the endpoint `is_open`, it needs no token and is at the root. `scope` is what a token needs, None for any token. If it `needs_session`, a token won't do. `rate_class` is read, write,
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
    needs_session: bool = False
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
    """True for GET of one name, ticket, token or organization: its answer has an `ETag`, and it reads `If-None-Match`."""
    return endpoint.method == "GET" and endpoint.path.endswith("}")


def takes_if_match(endpoint: Endpoint) -> bool:
    """True for a change of one name, ticket, token or transfer: it reads `If-Match`. Sessions, passkeys and organizations have no tags."""
    return (
        takes_body(endpoint)
        and "{" in endpoint.path
        and not endpoint.is_open
        and not endpoint.needs_session
        and endpoint.changes
        and not endpoint.path.startswith("/organizations/")
    )


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
            errors.SessionInvalid,
            errors.OrganizationNotFound,
            errors.AccountSuspended,
            errors.TokenRestricted,
        ]
        if takes_body(endpoint):
            found.append(errors.OriginRefused)
    found.append(errors.RateLimited)
    if endpoint.needs_session:
        found.append(errors.SessionRequired)
    if endpoint.scope is not None:
        found += [errors.InsufficientScope, errors.InsufficientRole]
    if takes_body(endpoint):
        found += [http_errors.UnsupportedMediaType, http_errors.PayloadTooLarge, errors.InvalidJson]
    found += [errors.InvalidRequest]
    if takes_idempotency_key(endpoint):
        found += [http_errors.IdempotencyInProgress, http_errors.IdempotencyKeyReused]
    found += endpoint.refusals
    found += [http_errors.InternalError, errors.Unavailable]
    return tuple(dict.fromkeys(found))
