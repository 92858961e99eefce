"""Hold the real registry against the model: a little after each step, everything now and then."""

from collections import Counter
from typing import Any

from sqlalchemy import select

from long.machine.real import AUDITED, Real
from long.machine.time_model import Registry
from long.machine.world import FREE_QUOTA, Name
from sublet.db import Tx
from sublet.doctor import checks
from sublet.doctor.names import stream_all
from sublet.subdomains.lifecycle import derive_status, desired_records, renewal_available
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import find_subdomain, terms
from support.reading import find_faults

_UNSENT = {"no_mail_waits", "zone_is_watched"}
"""No mailer runs here, and no drift repair."""
_UNTOLD = (
    "subdomain.open_renewal",
    "subdomain.remind",
    "subdomain.nameserver_notice",
    "subdomain.expire",
    "sweep.stop",
    "sweep.resume",
)
"""Events that the model does not tell of: reminders have tests of their own."""
_SAME = (
    "id",
    "fqdn",
    "registration_type",
    "registered_at",
    "expires_at",
    "period_days",
    "updated_at",
    "generation",
    "generation_at",
    "published_generation",
    "attempts",
    "next_attempt_at",
    "last_renewed_at",
    "suspended_at",
    "unsuspended_at",
    "trashed_at",
    "purged_at",
    "released_at",
    "auto_renew_max_credits",
    "auto_renew_tried_at",
)
_NUMBERS = """
    SELECT kind, user_id, balance FROM ledger_accounts
    UNION ALL SELECT 'free', user_id, count(*) FROM subdomains
    WHERE registration_type = 'free' AND trashed_at IS NULL GROUP BY user_id
"""


def check_step(real: Real, model: Registry, touched: Name | None) -> None:
    """Compare the balances, the usage of the free quotas and the name that was touched."""

    def ask(tx: Tx) -> tuple[Any, Subdomain | None]:
        driver: Any = tx.connection.connection.driver_connection  # asked after every step: without detours
        return driver.execute(_NUMBERS).fetchall(), find_subdomain(tx, touched.id) if touched else None

    rows, row = real.read(ask)
    numbers = {(kind, user_id): number for kind, user_id, number in rows}
    total = sum(number for (kind, _), number in numbers.items() if kind != "free")
    assert total == 0, numbers
    for who, person in model.people.items():
        number = real.ids[who]
        assert numbers.get(("user", number), 0) == person.balance, (who, numbers, person.balance)
        assert numbers.get(("free", number), 0) == model.free_used(who), (who, numbers)
    if touched is not None:
        _check_name(real, model, touched, row)


def _check_name(real: Real, model: Registry, name: Name, row: Subdomain | None) -> None:
    assert row is not None, name
    for column in _SAME:
        assert getattr(row, column) == getattr(name, column), (name.fqdn, column, row, name)
    assert row.user_id == real.ids[name.who]
    delegation = row.delegation
    assert delegation.nameservers == name.nameservers, (name, delegation)
    assert tuple((each.host, each.ipv4) for each in delegation.glue) == name.glue, (name, delegation)
    ds = tuple(
        f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}" for each in delegation.ds_records
    )
    assert ds == name.ds
    assert (row.provision_error is not None) == name.failed, (name, row.provision_error)
    status = model.status(name)
    assert derive_status(row, model.now) == status, (name, status)
    renewable = status not in ("trashed", "suspended") and model.renewal_opens_at(name) <= model.now
    assert renewal_available(row, model.now) == renewable


def check_all(real: Real, model: Registry, *, at_rest: bool = False) -> None:
    """Ask the doctor, and compare the whole registry; `at_rest` nothing waits for the sweep."""
    real.read(lambda tx: _check_all(tx, real, model, at_rest=at_rest))


def check_names(real: Real, model: Registry) -> None:
    """Compare all names."""
    real.read(lambda tx: _check_names(tx, real, model))


def _check_names(tx: Tx, real: Real, model: Registry) -> None:
    rows = list(stream_all(tx))
    assert len(rows) == len(model.names)
    for row, name in zip(rows, model.names, strict=True):
        _check_name(real, model, name, row)


def _check_zones(tx: Tx, real: Real) -> None:
    """Compare what the primaries have with what the names want."""
    wanted = {
        domain: {each for each in zone if each.owner.startswith("host.")}
        for domain, zone in real.zones.items()
    }
    for subdomain in stream_all(tx):
        wanted[subdomain.domain].update(desired_records(subdomain, 3600))
    assert real.zones == wanted


def _check_all(tx: Tx, real: Real, model: Registry, *, at_rest: bool) -> None:
    violations = [*find_faults(tx, FREE_QUOTA), *checks.check_running(tx)]
    ignored = _UNSENT if at_rest else _UNSENT | {"sweep_is_in_time"}
    told = {(each.invariant, each.object_id) for each in violations if each.invariant not in ignored}
    assert told == model.expected_violations(), (told, model.expected_violations())
    _check_names(tx, real, model)
    if at_rest:
        _check_zones(tx, real)
    columns = (
        terms.c.subdomain_id,
        terms.c.action,
        terms.c.starts_at,
        terms.c.ends_at,
        terms.c.charged_credits,
    )
    stored = [
        tuple(row)
        for row in tx.connection.execute(select(*columns).order_by(terms.c.subdomain_id, terms.c.id))
    ]
    assert stored == [(name.id, *term) for name in model.names for term in name.terms]

    def rows_of(statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in tx.connection.exec_driver_sql(statement)]

    ids = real.ids
    assert rows_of(
        "SELECT id, user_id, kind, credits, balance_after, refunded_transfer_id FROM transfers ORDER BY id"
    ) == [
        (number, ids[each.who], each.kind, abs(each.credits), each.balance_after, each.refunded)
        for number, each in enumerate(model.moved, 1)
    ]
    assert dict(rows_of("SELECT code, uses FROM coupons")) == {
        code: len(coupon.used) for code, coupon in model.coupons.items()
    }
    uses = (
        "SELECT code, user_id, count(*) FROM coupon_uses JOIN coupons ON coupons.id = coupon_id GROUP BY 1, 2"
    )
    assert sorted(rows_of(uses)) == sorted(
        (code, ids[who], count)
        for code, coupon in model.coupons.items()
        for who, count in Counter(coupon.used).items()
    )
    events = Counter(dict(rows_of(AUDITED)))
    events.subtract(real.audit_before)
    for action in _UNTOLD:
        del events[action]
    assert +events == +model.audit, (+events - model.audit, model.audit - events)
