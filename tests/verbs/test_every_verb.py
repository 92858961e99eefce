"""The errors and audit events that all verbs on a name share (spec, part 4); on both databases."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from sublet.accounts.users import suspend_user
from sublet.audit import audit_events
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    SubdomainNotFound,
    SubdomainSuspended,
)
from sublet.subdomains import store
from sublet.subdomains.delete import delete
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.suspend import suspend
from support.registry import FREE_QUOTA, OPERATOR, START, Registry
from support.shop import SHOP, change_nameservers, register_shop


def _events(registry: Registry) -> int:
    return registry.read(
        lambda tx: tx.connection.execute(select(func.count()).select_from(audit_events)).scalar_one()
    )


VERBS: dict[str, Callable[[Registry, str, str], Outcome]] = {
    "update_nameservers": lambda registry, name, identifier: change_nameservers(
        registry, identifier, name, nameservers=("-",)
    ),
    "retry": lambda registry, name, identifier: registry.write(retry, registry.actor(name), identifier),
    "renew": lambda registry, name, identifier: registry.write(
        renew, registry.actor(name), identifier, Payable()
    ),
    "delete": lambda registry, name, identifier: registry.write(delete, registry.actor(name), identifier),
    "restore": lambda registry, name, identifier: registry.write(
        restore, registry.actor(name), identifier, Payable(), free_quota=0
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_errors_that_every_verb_checks_first(registry: Registry, verb: str) -> None:
    held = register_shop(registry)
    call = VERBS[verb]
    for identifier in ("other.example.test", "99", "", "a..b", str(2**70), "\x00"):
        with registry.refuses(SubdomainNotFound) as missing:
            call(registry, "ann", identifier)
    for identifier in (SHOP, "SHOP.Example.test.", str(held.id)):
        with registry.refuses(SubdomainNotFound) as foreign:
            call(registry, "ben", identifier)
        assert (foreign[0].message, foreign[0].details) == (missing[0].message, missing[0].details)
    registry.write(suspend, OPERATOR, SHOP, "phishing")
    for identifier in (SHOP, "SHOP.Example.test.", str(held.id)):
        with registry.refuses(SubdomainSuspended) as held_back:
            call(registry, "ann", identifier)
        assert "phishing" in held_back[0].message
    registry.write(suspend_user, OPERATOR, "ann@example.org", None)
    for identifier in (SHOP, "other.example.test"):
        with registry.refuses(AccountSuspended):
            call(registry, "ann", identifier)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "restore"])
def test_a_name_in_the_trash_is_not_found_and_its_user_gets_a_hint(registry: Registry, verb: str) -> None:
    register_shop(registry)
    registry.write(delete, registry.actor(), SHOP)
    with registry.refuses(SubdomainNotFound) as own:
        VERBS[verb](registry, "ann", SHOP)
    assert own[0].details == {"in_trash": True, "restorable_until": START + timedelta(days=30)}
    with registry.refuses(SubdomainNotFound) as foreign:
        VERBS[verb](registry, "ben", SHOP)
    assert foreign[0].details == {}
    registry.advance(days=30)
    with registry.refuses(SubdomainNotFound) as over:
        VERBS[verb](registry, "ann", SHOP)
    assert over[0].details == {}


def test_every_change_is_one_event(registry: Registry) -> None:
    registry.move()
    held = register_shop(registry)
    registry.publish(error="refused")

    def fail_then_retry(tx: Tx) -> None:
        store.update_subdomain(tx, held.id, provision_error="refused")
        retry(tx, registry.actor(), SHOP)

    steps: list[Callable[[], object]] = [
        lambda: change_nameservers(registry, nameservers=("ns2.example.org",)),
        lambda: registry.write(delete, registry.actor(), SHOP),
        lambda: registry.write(restore, registry.actor(), SHOP, Payable(), free_quota=FREE_QUOTA),
        lambda: registry.write(fail_then_retry),
    ]
    for step in steps:
        before = _events(registry)
        step()
        assert _events(registry) == before + 1
    registry.advance(days=310)
    before = _events(registry)
    registry.write(renew, registry.actor(), SHOP, Payable())
    assert _events(registry) == before + 1
