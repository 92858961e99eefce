"""The types of the route table: the endpoint, the call of its handler, and the answer."""

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
from sublet.http.gates import Gate
from sublet.http.metrics import Metrics
from sublet.http.publication_wait import PublicationWaiter
from sublet.http.rate_limiter import RateLimiter
from sublet.platform_domains.model import PlatformDomain
from sublet.secret import Secret
from sublet.subdomains.quota import default_quota, withheld_modes

BASE_PATH = "/api/v1"
"""The path of `{base_url}` (spec, part 9: one base path). Every endpoint under it needs a credential and answers JSON."""
DOCS_PATH, OPENAPI_PATH = "/docs", "/openapi.json"
"""The paths of the documentation, which are outside of `BASE_PATH` because they need no token."""
LAST_USED_PRECISION = timedelta(hours=1)
"""The precision of `last_used_at` of tokens and sessions."""
WRITE_METHODS = ("POST", "PUT", "PATCH", "DELETE")

BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")
StructT = TypeVar("StructT", bound=msgspec.Struct)


def _refuse_deletion(_tx: Tx, _actor: Actor, _confirm: str | None) -> Outcome:
    raise Unavailable(
        "This process can't delete users. Ask the operator to delete the user.", retry_after_seconds=60
    )


def _refuse_organization_deletion(_tx: Tx, _actor: Actor, _id: str, _confirm: str | None) -> Outcome:
    raise Unavailable(
        "This process can't delete organizations. Ask the operator to delete it.", retry_after_seconds=60
    )


@dataclass(frozen=True, slots=True)
class Context:
    """The objects that all requests of a process share.

    `authenticate` returns the registrant of a token. `running_keys` has the user id and `Idempotency-Key` of each request that this process is
    handling. `stopping` is set when the process stops, and `/readyz` then answers 503.
    """

    settings: Settings
    db: Database
    authenticate: Callable[[Database, Secret], Awaitable[Registrant]]
    rate_limiter: RateLimiter
    metrics: Metrics
    publication_waiter: PublicationWaiter
    running_keys: set[tuple[int, str]] = field(default_factory=set)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    readiness: dict[str, Callable[[], bool]] = field(default_factory=dict)
    """The checks of `/readyz` for the other parts of this process, by name. The database is checked in any case."""
    used_tokens: dict[int, Use] = field(default_factory=dict)
    """The last use of each token whose stored `last_used_at` is outdated, by id. Stored at intervals, so that a read needs no write."""
    used_sessions: dict[int, Use] = field(default_factory=dict)
    """The last use of each session whose stored `last_used_at` is outdated, by id."""
    name_servers: Callable[[PlatformDomain], Sequence[ParentServer]] = lambda _: ()
    """Returns the name servers of a platform domain's zone. The API queries other name servers only through `checker`."""
    checker: Checker | None = None
    """Checks delegations; None if the setting `health_checks` is off."""
    querying: Counter[int] = field(default_factory=Counter)
    """The number of requests that are querying name servers, by user id."""
    delete_user: Callable[[Tx, Actor, str | None], Outcome] = field(default=_refuse_deletion)
    """Deletes the acting user. `service/` passes the verb in, because this layer may not import `registry/`."""
    delete_organization: Callable[[Tx, Actor, str, str | None], Outcome] = field(
        default=_refuse_organization_deletion
    )
    """Deletes an organization of the acting user. `service/` passes the verb in, too."""

    def record_use(self, registrant: Registrant, address: str) -> None:
        """Record the use of a token or session from an address, if its stored use is older than `LAST_USED_PRECISION`."""
        credential = registrant.token or registrant.session
        if credential is None:
            return
        now = utc_now()
        if credential.last_used_at is None or now - credential.last_used_at > LAST_USED_PRECISION:
            used = self.used_sessions if registrant.token is None else self.used_tokens
            used[credential.id] = Use(now, address.partition("%")[0] or None)


class Call(NamedTuple, Generic[BodyT, QueryT]):
    """A request with a credential, as its handler gets it after the checks.

    `path` has the path parameters, percent-decoded. `fingerprint` identifies method, path and body, if `idempotency_key` isn't None.
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
    """The header `If-Match`; None if it wasn't sent or the endpoint doesn't take it."""

    def actor(self) -> Actor:
        """Return the actor that the audit names."""
        return replace(self.registrant.actor(self.request_id), address=self.client.address_without_zone)

    def default_free_quota(self) -> int:
        """Return the free quota of a holder for whom the operator has set none."""
        return default_quota(self.context.settings, self.registrant.holder, self.context.db.now())

    def withheld_modes(self) -> dict[str, datetime]:
        """Return the modes in which the holder may not register names yet, each with the instant from which it may."""
        return withheld_modes(self.context.settings, self.registrant.holder, self.context.db.now())


class OpenCall(NamedTuple, Generic[BodyT]):
    """A request without a credential, as its handler gets it after the checks. `path` has the path parameters, percent-decoded."""

    context: Context
    request_id: str
    body: BodyT
    client: Client
    path: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer(Generic[StructT]):
    """The answer of a handler: a Struct of `response_structs.py`, more headers, and a status if it differs from the endpoint's.

    `parts` streams a long answer as octets; `body` is then its beginning.
    """

    body: StructT
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    parts: AsyncIterator[bytes] | None = None


Handler = Callable[[Any], Awaitable[Answer[Any]]]
"""A handler takes a `Call`, or an `OpenCall` if its endpoint `is_open`."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path, as part 4 of the spec lists it.

    `path` has `{parameters}`, and is relative to `BASE_PATH`. An endpoint that `is_open` needs no credential, and its path is relative to the
    root. `scope` is the scope that a token needs, None if any token will do. An endpoint that `needs_session` refuses tokens.
    `rate_class` is read, write, ticket, availability or health. `body` and `query` are the Structs of the request, None if it takes none.
    `answer` is the Struct of the answer with `status`. `refusals` are the handler's refusals, in the order of its checks.
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
    """False for a POST that only computes an answer, and changes no resource of the user."""
    gate: Gate | None = None
    """Whether a session needs a recent sign-in for the operation. None for a GET."""
    told: str = ""
    """The people who get a mail about the operation, for docs/gates.md."""
    has_etag: bool = False
    """True for GET of a single resource. The answer has an `ETag`, which is compared with `If-None-Match`."""

    @property
    def full_path(self) -> str:
        """The path relative to the root."""
        return self.path if self.is_open else BASE_PATH + self.path

    @property
    def takes_if_match(self) -> bool:
        """True if the handler compares `If-Match`, which it can refuse with `PreconditionFailed`."""
        return http_errors.PreconditionFailed in self.refusals


def takes_body(endpoint: Endpoint) -> bool:
    """True if the endpoint reads a body."""
    return endpoint.method in WRITE_METHODS


def takes_idempotency_key(endpoint: Endpoint) -> bool:
    """True if the endpoint reads `Idempotency-Key`. A key belongs to a user, so an open endpoint reads none."""
    return takes_body(endpoint) and not endpoint.is_open and endpoint.changes


def all_refusals(endpoint: Endpoint) -> tuple[type[Refusal], ...]:
    """Return every refusal that an endpoint may answer with, in the order in which they are checked.

    The refusals of an unknown path or method are not included, because they belong to no endpoint.
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
    if endpoint.gate is not None and endpoint.gate.is_before_body:
        found.append(errors.SignInRequired)
    if takes_body(endpoint):
        found += [http_errors.UnsupportedMediaType, http_errors.PayloadTooLarge, errors.InvalidJson]
    found += [errors.InvalidRequest]
    if takes_idempotency_key(endpoint):
        found += [http_errors.IdempotencyInProgress, http_errors.IdempotencyKeyReused]
    found += endpoint.refusals
    found += [http_errors.InternalError, errors.Unavailable]
    return tuple(dict.fromkeys(found))
