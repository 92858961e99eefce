"""What verbs on a name share (spec, part 4): the hint of a name in the trash, and audit events; on both
databases.

Missing, foreign and suspended names, and suspended users: tests/contract/, for every route.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from sublet.audit import audit_events
from sublet.credits.model import Outcome, Payable
from sublet.db import Tx
from sublet.errors import SubdomainNotFound
from sublet.subdomains import store
from sublet.subdomains.delete import delete
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from support.registry import FREE_QUOTA, START, Registry
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
}


@pytest.mark.parametrize("verb", VERBS)
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
