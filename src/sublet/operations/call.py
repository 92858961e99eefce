"""What an operation gets and gives: the call, the objects that all calls share, and the answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

import msgspec

from sublet.accounts.model import Registrant
from sublet.accounts.store import Use
from sublet.audit import Actor
from sublet.config import Settings
from sublet.db import Database, utc_now
from sublet.dns.parent_servers import ParentServer, ServedWaiter
from sublet.health.checker import Checker
from sublet.metrics import Metrics
from sublet.operations.client import Client
from sublet.operations.publication_wait import PublicationWaiter
from sublet.operations.rate_limiter import RateLimiter
from sublet.platform_domains.model import PlatformDomain
from sublet.secret import Secret
from sublet.subdomains.quota import default_quota, withheld_modes

LAST_USED_PRECISION = timedelta(hours=1)
"""The precision of `last_used_at` of tokens and sessions."""

BodyT = TypeVar("BodyT")
QueryT = TypeVar("QueryT")
StructT = TypeVar("StructT", bound=msgspec.Struct)


class Context(msgspec.Struct, frozen=True):
    """The objects that all requests of a process share.

    `authenticate` returns the registrant of a token. `running_keys` has the user id and `Idempotency-Key` of
    each request that this process is handling. `stopping` is set when the process stops, and `/readyz` then
    answers 503.
    """

    settings: Settings
    db: Database
    authenticate: Callable[[Database, Secret], Awaitable[Registrant]]
    rate_limiter: RateLimiter
    metrics: Metrics
    publication_waiter: PublicationWaiter
    running_keys: set[tuple[int, str]] = msgspec.field(default_factory=set)
    stopping: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    readiness: dict[str, Callable[[], bool]] = msgspec.field(default_factory=dict)
    """The checks of `/readyz` for the other parts of this process, by name. The database is checked in any
    case.
    """
    used_tokens: dict[int, Use] = msgspec.field(default_factory=dict)
    """The last use of each token whose stored `last_used_at` is outdated, by id. Stored at intervals, so that
    a read needs no write.
    """
    used_sessions: dict[int, Use] = msgspec.field(default_factory=dict)
    """The last use of each session whose stored `last_used_at` is outdated, by id."""
    update_secret: Secret | None = None
    """The secret from which the secrets of update keys are derived; None if the service doesn't accept DNS
    UPDATE.
    """
    name_servers: Callable[[PlatformDomain], Sequence[ParentServer]] = lambda _: ()
    """Returns the name servers of a platform domain's zone. The API queries other name servers only through
    `checker`.
    """
    served_waiter: ServedWaiter = msgspec.field(default_factory=ServedWaiter)
    checker: Checker | None = None
    """Checks delegations; None if the setting `health_checks` is off."""
    querying: Counter[int] = msgspec.field(default_factory=Counter)
    """The number of requests that are querying name servers, by user id."""

    @property
    def update_server(self) -> str:
        """The address for DNS UPDATE as registrants reach it, host:port; empty if the service doesn't accept
        DNS UPDATE.
        """
        settings = self.settings
        return "" if self.update_secret is None else settings.update_address or settings.update_listen

    def record_use(self, registrant: Registrant, address: str) -> None:
        """Record the use of a token or session from an address, if its stored use is older than
        `LAST_USED_PRECISION`.
        """
        credential = registrant.token or registrant.session
        if credential is None:
            return
        now = utc_now()
        if credential.last_used_at is None or now - credential.last_used_at > LAST_USED_PRECISION:
            used = self.used_sessions if registrant.token is None else self.used_tokens
            used[credential.id] = Use(now, address.partition("%")[0] or None)


class Call(NamedTuple, Generic[BodyT, QueryT]):
    """A request with a credential, as its operation gets it after the checks.

    `path` has the path parameters, percent-decoded. `fingerprint` identifies method, path and body, if
    `idempotency_key` isn't None.
    """

    context: Context
    request_id: str
    registrant: Registrant
    path: Mapping[str, str]
    body: BodyT
    query: QueryT
    idempotency_key: str | None
    fingerprint: str
    status: int
    """The declared status of a success."""
    request_path: str
    query_string: str
    client: Client
    if_match: str | None = None
    """The header `If-Match`; None if it wasn't sent or the operation doesn't take it."""

    def actor(self) -> Actor:
        """Return the actor that the audit names."""
        return self.registrant.actor(self.request_id, self.client.address_without_zone)

    def default_free_quota(self) -> int:
        """Return the free quota of a holder for whom the operator has set none."""
        return default_quota(self.context.settings, self.registrant.holder, self.context.db.now())

    def withheld_modes(self) -> dict[str, datetime]:
        """Return the modes in which the holder may not register names yet, each with the instant from which
        it may.
        """
        return withheld_modes(self.context.settings, self.registrant.holder, self.context.db.now())


class OpenCall(NamedTuple, Generic[BodyT]):
    """A request without a credential, as its operation gets it after the checks.

    `path` has the path parameters, percent-decoded.
    """

    context: Context
    request_id: str
    body: BodyT
    client: Client
    path: Mapping[str, str]


class Answer(msgspec.Struct, Generic[StructT], frozen=True):
    """The answer of an operation: its Struct, more headers, and a status if it differs from the declared one.

    `parts` streams a long answer as octets; `body` is then its beginning.
    """

    body: StructT
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    status: int | None = None
    parts: AsyncIterator[bytes] | None = None
