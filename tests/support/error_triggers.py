"""A trigger for each error code over HTTP.

A trigger is a context manager. It prepares users, names and coupons, yields a function that sends the refused
request, and cleans up. A test can thus compare the database before and after the request.
"""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import Any

import httpx
import psycopg
from sqlalchemy import func, literal_column, select, update

from sublet.credits.store import packages
from support.browsers import Browser, signed_in
from support.running_service import DS, Registrant, RunningService
from support.waiting import wait_until

Send = Callable[[], httpx.Response]
Provocation = Callable[[RunningService], Iterator[Send]]
BUSY_TIMEOUT_SECONDS = 1
SETTINGS: dict[str, Any] = {
    "rate_limits": True,
    "rate_limit_read_per_minute": 100_000,
    "rate_limit_write_per_minute": 100_000,
    "rate_limit_ticket_per_minute": 4,
    "rate_limit_failed_auth_per_minute": 100_000,
    "health_checks": True,
}
"""The settings that all triggers need. Only `rate_limited` exceeds these limits. Before the service starts, a
test must also set `sublet.db.sqlite.BUSY_TIMEOUT_SECONDS` to `BUSY_TIMEOUT_SECONDS`.
"""

_NUMBERS = itertools.count(1)
REFUSALS: dict[str, Provocation] = {}


def furnish(service: RunningService) -> None:
    """Add the platform domains and coupons that all triggers share."""
    service.add_domain("example.test")
    service.add_domain(
        "strict.test", "--nameservers-min", "2", "--nameservers-max", "3", "--label-length-min", "4"
    )
    service.add_domain("closed.test", "--closed")
    service.add_domain("checked.test", "--delegation-check", "require")
    service.add_domain("records.test", "--records", "on")


def new_user(service: RunningService, credit_count: int = 0, **options: str) -> Registrant:
    """Add a new user."""
    return service.add_user(f"user{next(_NUMBERS)}@example.org", credit_count=credit_count, **options)


def unused_name(domain: str = "example.test") -> str:
    """Return an unused name."""
    return f"name{next(_NUMBERS)}.{domain}"


def new_name(service: RunningService, user: Registrant, *records: dict[str, Any]) -> str:
    """Register an unused name that may have records, with these records."""
    fqdn = unused_name("records.test")
    service.register(user, fqdn, **({"records": list(records)} if records else {}))
    return fqdn


@contextmanager
def locked(service: RunningService) -> Iterator[None]:
    """Block registrations as another process could: by SQLite's write lock, or by a lock on PostgreSQL's
    table of names.
    """
    with _other_hand(service) as hand:
        hand.execute("LOCK TABLE subdomains IN SHARE MODE" if _is_postgresql(service) else "BEGIN IMMEDIATE")
        try:
            yield
        finally:
            hand.execute("ROLLBACK")


@contextmanager
def away(service: RunningService) -> Iterator[None]:
    """Block all writes: by SQLite's write lock, or by closing PostgreSQL's connections
    and refusing new ones.
    """
    if not _is_postgresql(service):
        with locked(service):
            yield
        return
    server, _, name = service.settings.database_url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as hand:
        hand.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        hand.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            hand.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def _is_postgresql(service: RunningService) -> bool:
    return service.settings.database_url.startswith("postgresql")


@contextmanager
def _other_hand(service: RunningService) -> Iterator[Any]:
    """Open a connection to the service's database."""
    url = service.settings.database_url
    if _is_postgresql(service):
        with psycopg.connect(url) as connection:
            yield connection
        return
    with closing(
        sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    ) as connection:
        yield connection


def _refused(function: Provocation) -> Provocation:
    REFUSALS[function.__name__] = function
    return function


def by_new_user(
    method: str,
    path: str,
    body: dict[str, Any] | None = None,
    *,
    credit_count: int = 0,
    holding: list[str] | None = None,
) -> Provocation:
    """Return a trigger whose request a new user sends.

    A registration is of an unused name. With `holding` the user has registered a name with these nameservers,
    which `{fqdn}` in the path stands for.
    """

    def provocation(service: RunningService) -> Iterator[Send]:
        user, fqdn = new_user(service, credit_count=credit_count), unused_name()
        if holding is not None:
            service.register(user, fqdn, nameservers=holding)
        sent = body
        if body is not None and (method, path) == ("POST", "/subdomains"):
            sent = {key: value for key, value in {"fqdn": fqdn, **body}.items() if value is not None}
        yield lambda: service.call(user, method, path.format(fqdn=fqdn), sent)

    return provocation


_PLUS: dict[str, Any] = {"registration_mode": "plus"}
_HOST = "ns1.provider.example"
REFUSALS |= {
    "invalid_request": by_new_user("POST", "/subdomains", {"fqdn": 1}),
    "invalid_cursor": by_new_user("GET", "/payments?cursor=abc"),
    "method_not_allowed": by_new_user("PATCH", "/subdomains"),
    "payload_too_large": by_new_user("POST", "/support/tickets", {"subject": "a", "message": "x" * 65_536}),
    "payment_confirmation_required": by_new_user("POST", "/subdomains", _PLUS, credit_count=10),
    "insufficient_credits": by_new_user("POST", "/subdomains", {**_PLUS, "confirm": True}, credit_count=9),
    "price_changed": by_new_user(
        "POST", "/subdomains", {**_PLUS, "confirm": True, "max_credits": 9}, credit_count=10
    ),
    "registration_mode_not_allowed": by_new_user("POST", "/subdomains", {"registration_mode": "admin"}),
    "session_required": by_new_user("GET", "/sessions"),
    "registration_closed": by_new_user("POST", "/subdomains", {"fqdn": "name.closed.test"}),
    "platform_domain_not_found": by_new_user("POST", "/subdomains", {"fqdn": "a.missing.test"}),
    "not_found": by_new_user("POST", "/subdomain", {}),
    "nameserver_required": by_new_user("POST", "/subdomains/{fqdn}/retry", holding=[]),
    "retry_not_available": by_new_user("POST", "/subdomains/{fqdn}/retry", holding=[_HOST]),
    "renewal_not_available": by_new_user("POST", "/subdomains/{fqdn}/renew", holding=[]),
    "conflict": by_new_user("POST", "/subdomains/{fqdn}/restore", holding=[]),
    "validation_failed": by_new_user(
        "POST", "/subdomains", {"nameservers": [_HOST, "-"], "ds_records": [DS, "0 0"]}
    ),
    # No query is sent for a name under .example.
    "delegation_broken": by_new_user(
        "POST", "/subdomains", {"fqdn": "name.checked.test", "nameservers": [_HOST]}
    ),
}


# Malformed


@_refused
def invalid_json(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    headers = {"authorization": f"Bearer {user.token}", "content-type": "application/json"}
    yield lambda: service.client.post(service.base_url + "/subdomains", content=b'{"fqdn":', headers=headers)


@_refused
def unsupported_media_type(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    headers = {"authorization": f"Bearer {user.token}"}
    yield lambda: service.client.post(
        service.base_url + "/subdomains", data={"fqdn": unused_name()}, headers=headers
    )


# Authentication


@_refused
def token_missing(service: RunningService) -> Iterator[Send]:
    yield lambda: service.call(None, "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def token_invalid(service: RunningService) -> Iterator[Send]:
    token = new_user(service).token
    typo = token[:-1] + ("a" if token[-1] != "a" else "b")
    yield lambda: service.call(typo, "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def token_expired(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    # The command line uses the real clock. The service's clock may be ahead of it.
    days = str(service.clock.ahead.days + 1)
    issued = service.operator("token", "issue", user.email, "--name", "short", "--expires-in-days", days)
    assert service.call(issued["token"], "GET", "/me").status_code == 200
    service.clock.pass_time(days=1)
    yield lambda: service.call(issued["token"], "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def token_revoked(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    issued = service.operator("token", "issue", user.email, "--name", "lost")
    assert service.call(issued["token"], "GET", "/me").status_code == 200
    service.operator("token", "revoke", str(issued["id"]))
    yield lambda: service.call(issued["token"], "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def insufficient_scope(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    token = service.issue_token(user.email, "subdomains:read")
    yield lambda: service.call(token, "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def insufficient_role(service: RunningService) -> Iterator[Send]:
    owner, viewer = new_user(service), new_user(service)
    organization = service.call(owner, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
    service.operator(
        "organization", "set-role", str(organization["id"]), "--user", viewer.email, "--role", "viewer"
    )
    token = service.token_for(viewer, organization["id"])
    yield lambda: service.call(token, "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def token_restricted(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    words = ("token", "issue", user.email, "--name", "elsewhere", "--only-network", "192.0.2.0/24")
    token = service.operator(*words)["token"]
    yield lambda: service.call(token, "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def account_suspended(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    service.operator("user", "suspend", user.email, "--reason", "test")
    yield lambda: service.call(user, "POST", "/subdomains", {"fqdn": unused_name()})


@_refused
def rate_limited(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    for _ in range(SETTINGS["rate_limit_ticket_per_minute"]):
        sent = service.call(user, "POST", "/support/tickets", {"subject": "One", "message": "of many"})
        assert sent.status_code == 201
    yield lambda: service.call(user, "POST", "/support/tickets", {"subject": "One", "message": "more"})


# Forbidden


@_refused
def free_quota_exceeded(service: RunningService) -> Iterator[Send]:
    user = new_user(service, free_quota="1")
    service.register(user, unused_name())
    yield lambda: service.call(
        user, "POST", "/subdomains", {"fqdn": unused_name(), "registration_mode": "free"}
    )


@_refused
def session_invalid(service: RunningService) -> Iterator[Send]:
    yield lambda: Browser(service, "x").call("GET", "/me")


@_refused
def sign_in_required(service: RunningService) -> Iterator[Send]:
    browser = signed_in(service, new_user(service).email)
    service.clock.advance(minutes=11)
    yield lambda: browser.call("POST", "/passkeys/challenge", {})


@_refused
def origin_refused(service: RunningService) -> Iterator[Send]:
    browser = signed_in(service, new_user(service).email)
    yield lambda: browser.call("POST", "/passkeys/challenge", {}, origin="https://evil.example")


@_refused
def session_not_found(service: RunningService) -> Iterator[Send]:
    browser = signed_in(service, new_user(service).email)
    yield lambda: browser.call("DELETE", "/sessions/99999")


@_refused
def passkey_not_found(service: RunningService) -> Iterator[Send]:
    browser = signed_in(service, new_user(service).email)
    yield lambda: browser.call("DELETE", "/passkeys/99999")


@_refused
def device_not_found(service: RunningService) -> Iterator[Send]:
    browser = signed_in(service, new_user(service).email)
    yield lambda: browser.call("GET", "/devices/BBBB-BBBB")


@_refused
def signup_closed(service: RunningService) -> Iterator[Send]:
    origin = service.origin
    body = {"email": "eve@example.org", "name": "Eve"}
    yield lambda: service.client.post(f"{origin}/auth/signup", json=body)


def _device_code(service: RunningService) -> dict[str, str]:
    origin = service.origin
    started: dict[str, str] = service.client.post(f"{origin}/auth/device", json={}).json()
    return started


def _poll(service: RunningService, device_code: str) -> httpx.Response:
    origin = service.origin
    return service.client.post(f"{origin}/auth/device/token", json={"device_code": device_code})


@_refused
def authorization_pending(service: RunningService) -> Iterator[Send]:
    started = _device_code(service)
    yield lambda: _poll(service, started["device_code"])


@_refused
def slow_down(service: RunningService) -> Iterator[Send]:
    started = _device_code(service)
    _poll(service, started["device_code"])
    yield lambda: _poll(service, started["device_code"])


@_refused
def expired_token(service: RunningService) -> Iterator[Send]:
    yield lambda: _poll(service, "unknown")


@_refused
def access_denied(service: RunningService) -> Iterator[Send]:
    started, browser = _device_code(service), signed_in(service, new_user(service).email)
    assert browser.call("POST", f"/devices/{started['user_code']}/refuse", {}).status_code == 200
    yield lambda: _poll(service, started["device_code"])


# Not found


@_refused
def subdomain_not_found(service: RunningService) -> Iterator[Send]:
    foreign = service.register(new_user(service), unused_name(), nameservers=["ns1.provider.example"])[
        "subdomain"
    ]
    user = new_user(service)
    yield lambda: service.call(user, "DELETE", f"/subdomains/{foreign['fqdn']}")


@_refused
def organization_not_found(service: RunningService) -> Iterator[Send]:
    other, user = new_user(service), new_user(service)
    organization = service.call(other, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
    yield lambda: service.call(user, "PATCH", f"/organizations/{organization['id']}", {"name": "Mine"})


@_refused
def ticket_not_found(service: RunningService) -> Iterator[Send]:
    other = new_user(service)
    opened = service.call(other, "POST", "/support/tickets", {"subject": "Mine", "message": "Mine"})
    number = opened.json()["ticket"]["ticket_number"]
    user = new_user(service)
    yield lambda: service.call(user, "POST", f"/support/tickets/{number}/reply", {"message": "Mine?"})


@_refused
def token_not_found(service: RunningService) -> Iterator[Send]:
    other = service.operator("token", "issue", new_user(service).email, "--name", "other")
    user = new_user(service)
    yield lambda: service.call(user, "DELETE", f"/tokens/{other['id']}")


@_refused
def transfer_not_found(service: RunningService) -> Iterator[Send]:
    owner = new_user(service)
    fqdn = service.register(owner, unused_name())["subdomain"]["fqdn"]
    offered = service.call(owner, "POST", f"/subdomains/{fqdn}/transfer", {"to": new_user(service).email})
    user = new_user(service)
    yield lambda: service.call(user, "POST", f"/transfers/{offered.json()['transfer']['id']}/accept")


# Conflicts with the current state


@_refused
def subdomain_unavailable(service: RunningService) -> Iterator[Send]:
    taken = service.register(new_user(service), unused_name())["subdomain"]["fqdn"]
    user = new_user(service)
    yield lambda: service.call(user, "POST", "/subdomains", {"fqdn": taken})


@_refused
def ticket_closed(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    opened = service.call(user, "POST", "/support/tickets", {"subject": "Over", "message": "Done"})
    number = opened.json()["ticket"]["ticket_number"]
    service.operator("ticket", "close", number)
    yield lambda: service.call(user, "POST", f"/support/tickets/{number}/reply", {"message": "But"})


@_refused
def records_exist(service: RunningService) -> Iterator[Send]:
    user, fqdn = new_user(service), unused_name("records.test")
    service.register(user, fqdn, records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
    body = {"nameservers": ["ns1.provider.example"]}
    yield lambda: service.call(user, "PUT", f"/subdomains/{fqdn}/nameservers", body)


@_refused
def delegation_exists(service: RunningService) -> Iterator[Send]:
    user, fqdn = new_user(service), unused_name("records.test")
    service.register(user, fqdn, nameservers=["ns1.provider.example"])
    yield lambda: service.call(user, "PUT", f"/subdomains/{fqdn}/records", {"records": []})


@_refused
def records_not_allowed(service: RunningService) -> Iterator[Send]:
    user, fqdn = new_user(service), unused_name()
    service.register(user, fqdn)
    body = {"records": [{"name": "@", "type": "A", "values": ["8.8.4.4"]}]}
    yield lambda: service.call(user, "PUT", f"/subdomains/{fqdn}/records", body)


@_refused
def subdomain_suspended(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    fqdn = service.register(user, unused_name())["subdomain"]["fqdn"]
    service.operator("subdomain", "suspend", fqdn, "--reason", "test")
    yield lambda: service.call(user, "DELETE", f"/subdomains/{fqdn}")


@_refused
def transfer_pending(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    fqdn = service.register(user, unused_name())["subdomain"]["fqdn"]
    path = f"/subdomains/{fqdn}/transfer"
    assert service.call(user, "POST", path, {"to": "first@example.org"}).status_code == 201
    yield lambda: service.call(user, "POST", path, {"to": "second@example.org"})


@_refused
def idempotency_key_reused(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    first = service.call(user, "POST", "/subdomains", {"fqdn": unused_name()}, idempotency_key="k")
    assert first.status_code == 201
    yield lambda: service.call(user, "POST", "/subdomains", {"fqdn": unused_name()}, idempotency_key="k")


@_refused
def precondition_failed(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    fqdn = service.register(user, unused_name())["subdomain"]["fqdn"]
    yield lambda: service.call(user, "DELETE", f"/subdomains/{fqdn}", if_match='"another"')


@_refused
def idempotency_in_progress(service: RunningService) -> Iterator[Send]:
    """Send two equal requests at the same time while a lock is held.

    The first waits for the lock; the second is refused.
    """
    user = new_user(service)
    body = {"fqdn": unused_name()}
    answers: list[httpx.Response] = []

    def one() -> httpx.Response:
        return service.call(user, "POST", "/subdomains", body, idempotency_key="k")

    pool = ThreadPoolExecutor(2)
    lock = locked(service)
    lock.__enter__()
    running: list[Any] = []
    try:

        def send() -> httpx.Response:
            running.extend(pool.submit(one) for _ in range(2))
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            assert len(done) == 1, "the other must still be waiting for the lock"
            first: httpx.Response = done.pop().result()
            return first

        yield send
    finally:
        lock.__exit__(None, None, None)
        answers += [future.result() for future in running]
        pool.shutdown()
    # On a busy machine the first one's wait for the lock may end.
    assert sorted(answer.status_code for answer in answers) in ([201, 409], [409, 503])


# Faults of the service


@_refused
def unavailable(service: RunningService) -> Iterator[Send]:
    user = new_user(service)

    def send() -> httpx.Response:
        with away(service):
            return service.call(user, "POST", "/subdomains", {"fqdn": unused_name()})

    yield send


@_refused
def clock_implausible(service: RunningService) -> Iterator[Send]:
    user = new_user(service)
    wait_until(lambda: service.operator("sweep", "status")["seen_at"] is not None)
    if not service.operator("sweep", "status")["stopped"]:
        service.operator("sweep", "stop")  # otherwise the sweep stops and stores that
    days = service.clock.ahead.days + 2  # other triggers have advanced it since
    service.clock.advance(days=-days)
    yield lambda: service.call(user, "POST", "/subdomains", {"fqdn": unused_name()})
    service.clock.advance(days=days)


@_refused
def internal_error(service: RunningService) -> Iterator[Send]:
    """Store a malformed instant, which only a fault or a change by hand could cause."""
    user = new_user(service)
    service.operator("package", "add", "Small", "--credits", "10", "--price", "9.90", "--currency", "EUR")
    last = packages.c.id == select(func.max(packages.c.id)).scalar_subquery()
    none = "'infinity'" if _is_postgresql(service) else "'yesterday, secret-detail'"

    def put(instant: Any) -> None:
        service.write(
            lambda tx: tx.connection.execute(update(packages).where(last).values(created_at=instant))
        )

    def send() -> httpx.Response:
        good = service.read(
            lambda tx: tx.connection.execute(select(packages.c.created_at).where(last)).scalar_one()
        )
        put(literal_column(none))
        try:
            return service.call(user, "GET", "/credits")
        finally:
            put(good)

    yield send
