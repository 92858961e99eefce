"""Addresses in audit events: the sweep deletes them after 90 days, and the database refuses other changes; on
both databases.
"""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import DatabaseError, IntegrityError

from sublet.audit import ADDRESS_KEPT_FOR, ActivityFilter, audit_events, list_activity
from sublet.structs import replace
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.sweep.sweep import is_sweep_due
from support.registry import FREE_QUOTA, Registry


def addresses(registry: Registry) -> list[str | None]:
    events = registry.read(
        list_activity, registry.users["ann"], ActivityFilter(action="subdomain.register"), 9
    )
    return [each.address for each in events]


def test_the_sweep_deletes_old_addresses(registry: Registry) -> None:
    actor = replace(registry.actor(), address="198.51.100.7")
    registry.write(register, actor, Register(fqdn="shop.example.test"), free_quota=FREE_QUOTA)
    registry.sweep()
    registry.live(days=ADDRESS_KEPT_FOR.days - 1)
    assert addresses(registry) == ["198.51.100.7"]
    registry.advance(days=1)
    assert registry.read(is_sweep_due)
    registry.sweep()
    assert addresses(registry) == [None]
    assert not registry.read(is_sweep_due)
    assert registry.doctor() == []


@pytest.mark.parametrize(
    "values", [{"address": "192.0.2.1"}, {"address": None, "reason": "x"}, {"at": timedelta(days=1)}]
)
def test_an_address_can_be_deleted_and_not_changed(registry: Registry, values: dict[str, Any]) -> None:
    actor = replace(registry.actor(), address="198.51.100.7")
    registry.write(register, actor, Register(fqdn="shop.example.test"), free_quota=FREE_QUOTA)
    if "at" in values:
        values = {"at": registry.now + values["at"], "address": None}
    with pytest.raises((DatabaseError, IntegrityError), match="is append-only"):
        registry.write(lambda tx: tx.connection.execute(update(audit_events).values(**values)))
    assert addresses(registry) == ["198.51.100.7"]
