"""PostgreSQL: for each lock of docs/locks.md, the later of two transactions waits, and then sees what the
earlier one has stored.

Locks whose order differed once are tested in `test_lock_order.py`, unique constraints over HTTP in
`test_unique_constraints.py`.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import NullPool

from sublet.accounts.sessions import MAIL
from sublet.accounts.tokens.issue import issue_token, revoke_token
from sublet.accounts.tokens.tokens import create_token, revoke_own_token
from sublet.credits.model import Payable
from sublet.credits.packages import add_package, retire_package
from sublet.db import Outdated, Tx
from sublet.db.connect import postgresql_engine
from sublet.errors import Conflict, DeviceNotFound, NotFound, ValidationFailed
from sublet.health.brake import record_impairment
from sublet.health.due_checks import record_check
from sublet.health.model import HEALTHY, Report
from sublet.health.query_limits import claim_addresses
from sublet.mail import store as mail_store
from sublet.mail.operator_notices import mail_notices, notify_operator
from sublet.platform_domains.labels import block_labels, set_label, unblock_labels, unset_label
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.processes.leases import PUBLISH_FOR, take_lease
from sublet.registry.delete_user import delete_user
from sublet.registry.revoke_leaked import revoke_leaked
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.devices.device import allow_device, start_device
from sublet.sign_in.devices.model import VALID_FOR
from sublet.sign_in.model import IdentifiedUser
from sublet.sign_in.sessions import open_session
from sublet.subdomains import store
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.end_platform_domain import close_platform_domain, remove_platform_domain
from sublet.subdomains.model import OperatorPermission, Register
from sublet.subdomains.register import register
from sublet.subdomains.sweep.sweep import sweep
from sublet.subdomains.zone_records import set_zone_record
from support.acting_tokens import acting, issue
from support.interleaving import interleave
from support.postgresql import fresh_database
from support.registry import FREE_QUOTA, OPERATOR, Prepared, Registry, open_registry
from support.signing_in import LIFETIME, URL, again, session_actor, sign_in

Verb = Callable[[Tx], object]
Case = Callable[[Registry], tuple[Verb, Verb]]
NAMESERVERS = ("ns1.example.org", "ns2.example.org")
CASES: dict[str, Case] = {}


@pytest.fixture(scope="module")
def registry(postgresql_server: str, postgresql_registry: Prepared) -> Iterator[Registry]:
    with (
        fresh_database(postgresql_server, like=postgresql_registry.url) as url,
        open_registry(url, postgresql_registry) as registry,
    ):
        for name in ("ann", "ben"):
            registry.grant(name, 100)
        yield registry
        assert registry.doctor() == []


@pytest.fixture(scope="module")
def engine(registry: Registry) -> Engine:
    return postgresql_engine(registry.url, poolclass=NullPool)


def case(name: str) -> Callable[[Case], Case]:
    """Add a case: a function that prepares the registry, and returns the earlier and
    the later transaction.
    """

    def add(prepare: Case) -> Case:
        CASES[name] = prepare
        return prepare

    return add


def refused(refusal: type[Exception], verb: Verb) -> Verb:
    def run(tx: Tx) -> None:
        with pytest.raises(refusal), tx.connection.begin_nested():
            verb(tx)

    return run


def gives(expected: object, verb: Verb) -> Verb:
    def run(tx: Tx) -> None:
        assert verb(tx) == expected

    return run


@case("a lease")
def _(_: Registry) -> tuple[Verb, Verb]:
    return (
        lambda tx: take_lease(tx, "publish:99", "a", PUBLISH_FOR),
        gives(None, lambda tx: take_lease(tx, "publish:99", "b", PUBLISH_FOR)),
    )


@case("a user that is deleted")
def _(registry: Registry) -> tuple[Verb, Verb]:
    registry.add_user("carl")
    return (
        lambda tx: delete_user(tx, OPERATOR, "carl@example.org", confirmed=True),
        refused(NotFound, lambda tx: issue_token(tx, OPERATOR, "carl@example.org", "late")),
    )


@case("a user who revokes a token")
def _(registry: Registry) -> tuple[Verb, Verb]:
    token = issue(registry)
    return (
        lambda tx: revoke_own_token(tx, acting(token), str(token.id)),
        refused(Conflict, lambda tx: revoke_token(tx, OPERATOR, token.id)),
    )


@case("a user whose leaked token creates another")
def _(registry: Registry) -> tuple[Verb, Verb]:
    leaked = registry.write(issue_token, OPERATOR, "ann@example.org", "leaked")

    def revoke(tx: Tx) -> None:
        report = revoke_leaked(tx, OPERATOR, leaked.secret.reveal())
        assert [each.token.name for each in report.revoked] == ["leaked", "child"]

    wanted = {"scopes": ("account:read",)}
    return lambda tx: create_token(tx, acting(leaked.token), "child", wanted), revoke


@case("a program's request")
def _(registry: Registry) -> tuple[Verb, Verb]:
    code = registry.write(start_device, "laptop", "192.0.2.1", "").user_code.reveal()
    people = [session_actor(sign_in(registry, name)) for name in ("ann", "ben")]
    allow = [
        lambda tx, who=who: allow_device(tx, who, code, may_spend=False, public_url=URL) for who in people
    ]
    return allow[0], refused(DeviceNotFound, allow[1])


@case("a session")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """Two people sign in in one browser. The later one doesn't get the session of the earlier one."""
    done = sign_in(registry, "ann")
    ben = IdentifiedUser(sign_in(registry, "ben").member.user, MAIL)
    browser = again(done)

    def later(tx: Tx) -> None:
        assert open_session(tx, ben, browser, LIFETIME, "r-1", URL).session.id != done.session.id

    return lambda tx: open_session(
        tx, IdentifiedUser(done.member.user, MAIL), browser, LIFETIME, "r-1", URL
    ), later


@case("a coupon")
def _(registry: Registry) -> tuple[Verb, Verb]:
    registry.add_coupon("LAST", percent=10, max_uses=1)
    first, second = _orders(registry, "coupon", "LAST")
    return first, refused(ValidationFailed, second)


@case("the balance of the registry")
def _(registry: Registry) -> tuple[Verb, Verb]:
    return _orders(registry, "paid", None)


def _orders(registry: Registry, label: str, coupon_code: str | None) -> tuple[Verb, Verb]:
    payable = Payable(confirm=True, coupon_code=coupon_code)

    def order(name: str) -> Verb:
        wanted = Register(fqdn=f"{label}-{name}.example.test", registration_mode="plus", payable=payable)
        return lambda tx: register(tx, registry.actor(name), wanted, free_quota=FREE_QUOTA)

    return order("ann"), order("ben")


@case("a platform domain that is removed")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """The operator can register a name under a platform domain that takes no registrations of users."""
    registry.add_domain("closed.test")
    registry.write(edit_zone_settings, OPERATOR, "closed.test", {"registration_open": False})
    permission = OperatorPermission("ann@example.org", "admin")
    wanted = Register(fqdn="shop.closed.test")
    return (
        lambda tx: remove_platform_domain(tx, OPERATOR, "closed.test"),
        refused(
            Outdated,
            lambda tx: register(tx, OPERATOR, wanted, free_quota=FREE_QUOTA, permission=permission),
        ),
    )


@case("a platform domain that closes")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """The registration has seen a platform domain that stays."""
    registry.add_domain("closing.test")
    until = (registry.now + timedelta(days=99)).replace(hour=0, minute=0, second=0, microsecond=0)
    wanted = Register(fqdn="shop.closing.test")
    return (
        lambda tx: close_platform_domain(tx, OPERATOR, "closing.test", until),
        refused(Outdated, lambda tx: register(tx, registry.actor(), wanted, free_quota=FREE_QUOTA)),
    )


@case("a platform domain that moves to another server")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """The registration has seen the built-in name server, which would publish the name at once."""
    registry.add_domain("moving.test")
    wanted = Register(fqdn="shop.moving.test")
    return (
        lambda tx: edit_zone_settings(tx, OPERATOR, "moving.test", {"primary": "main"}),
        refused(Outdated, lambda tx: register(tx, registry.actor(), wanted, free_quota=FREE_QUOTA)),
    )


def _order_and_addition(registry: Registry, zone: str) -> tuple[Verb, Verb]:
    """Return a registration, and the addition of a platform domain with this name."""
    registry.add_domain(zone)
    wanted = Register(fqdn=f"shop.{zone}")
    return (
        lambda tx: register(tx, registry.actor("ben"), wanted, free_quota=FREE_QUOTA),
        lambda tx: add_platform_domain(
            tx, OPERATOR, f"shop.{zone}", {}, names_held=store.list_unreleased_names
        ),
    )


@case("a platform domain below which another is added")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """The registration has seen no platform domain at its name."""
    order, addition = _order_and_addition(registry, "above.test")
    return addition, refused(Outdated, order)


@case("a platform domain under which a name is registered")
def _(registry: Registry) -> tuple[Verb, Verb]:
    order, addition = _order_and_addition(registry, "under.test")
    return order, refused(Conflict, addition)


@case("a platform domain that gets a record of the operator")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """The registration has seen no record at its name."""
    registry.add_domain("records.test")
    wanted = Register(fqdn="shop.records.test")
    return (
        lambda tx: set_zone_record(tx, OPERATOR, "records.test", "shop", "A", ["192.0.2.7"]),
        refused(Outdated, lambda tx: register(tx, registry.actor(), wanted, free_quota=FREE_QUOTA)),
    )


def _at_once(verb: Verb, refusal: type[Exception]) -> tuple[Verb, Verb]:
    """Return a verb that two operators run at once. The later one is refused."""
    return verb, refused(refusal, verb)


@case("a label that is removed from the list")
def _(registry: Registry) -> tuple[Verb, Verb]:
    registry.write(set_label, OPERATOR, "example.test", "listed", "reserved")
    return _at_once(lambda tx: unset_label(tx, OPERATOR, "example.test", "listed"), NotFound)


@case("a pattern that is unblocked")
def _(registry: Registry) -> tuple[Verb, Verb]:
    registry.write(block_labels, OPERATOR, "pattern*")
    return _at_once(lambda tx: unblock_labels(tx, OPERATOR, "pattern*"), NotFound)


@case("a package that is retired")
def _(registry: Registry) -> tuple[Verb, Verb]:
    package = registry.write(add_package, OPERATOR, "Old", 5, "5.00", "EUR")
    return _at_once(lambda tx: retire_package(tx, OPERATOR, package.id), Conflict)


@case("the state of the sweep")
def _(registry: Registry) -> tuple[Verb, Verb]:
    return sweep, sweep


@case("the health of a name")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """Neither of two checks finds the row, so both insert it."""
    held = registry.register("health.example.test", nameservers=NAMESERVERS)
    generation = registry.subdomain(held.id).published_generation
    report = Report(HEALTHY, (), registry.now)

    def check(tx: Tx) -> None:
        found = record_check(tx, held.id, generation, report)
        assert found is not None
        assert found.state == HEALTHY

    return check, check


@case("the brake of health checks")
def _(_: Registry) -> tuple[Verb, Verb]:
    return lambda tx: record_impairment(tx, "no answers"), lambda tx: record_impairment(tx, None)


@case("the addresses of name servers")
def _(registry: Registry) -> tuple[Verb, Verb]:
    """The later check gets the address after the earlier one, and neither locks half of the other's
    addresses.
    """
    return (
        gives(None, lambda tx: claim_addresses(tx, ["9.9.9.9", "8.8.8.8"], books=True)),
        gives(
            registry.now + timedelta(seconds=3),
            lambda tx: claim_addresses(tx, ["8.8.8.8", "9.9.9.9"], books=True),
        ),
    )


@case("a notice to the operator")
def _(registry: Registry) -> tuple[Verb, Verb]:
    def notify(tx: Tx) -> None:
        notify_operator(tx, "zone", "It is late.", reference="zone:late")

    return notify, notify


@case("the waiting notices")
def _(registry: Registry) -> tuple[Verb, Verb]:
    def mail(tx: Tx) -> int | None:
        return mail_notices(tx, "operator@example.org", "Names")

    def first(tx: Tx) -> None:
        assert mail(tx) is not None

    return first, gives(None, mail)


@pytest.mark.parametrize("name", CASES)
def test_the_later_transaction_waits_and_sees_the_earlier_one(
    registry: Registry, engine: Engine, name: str
) -> None:
    interleave(registry, engine, *CASES[name](registry))


def test_two_programs_do_not_get_one_short_code(registry: Registry, engine: Engine) -> None:
    """The constraint refuses the later one. The database then runs it again, and it takes another code."""

    def ask(tx: Tx, device_code: str) -> str:
        code = "second" if device_store.has_user_code(tx, "first") else "first"
        device_store.insert_request(
            tx,
            name="ci",
            address="",
            network="",
            device_code_digest=device_code,
            user_code_digest=code,
            expires_at=tx.now + VALID_FOR,
        )
        return code

    def later(tx: Tx) -> None:
        with pytest.raises(IntegrityError, match="uq_device_requests_user_code_digest"):
            ask(tx, "b")

    interleave(registry, engine, lambda tx: ask(tx, "a"), later)
    assert registry.write(ask, "b") == "second"


def test_a_locked_mail_is_skipped(registry: Registry, engine: Engine) -> None:
    """Workers don't wait for each other: each takes another mail."""
    for _ in range(2):
        sign_in(registry)
    with engine.begin() as one, engine.begin() as other:
        taken = [mail_store.lock_due(Tx(each, registry.now)) for each in (one, other)]
    assert None not in taken
    assert taken[0] != taken[1]
