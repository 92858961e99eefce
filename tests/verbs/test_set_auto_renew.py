"""Setting automatic renewal: its errors, the stored values and the audit; on both databases."""

from datetime import timedelta

from sqlalchemy import select

from sublet.audit import audit_events
from sublet.credits.ledger import CREDITS_MAX
from sublet.db import Tx
from sublet.errors import InsufficientScope, ValidationFailed
from sublet.subdomains import store
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.lifecycle import auto_renew_at, renewal_opens_at
from support.registry import Registry

SHOP = "shop.example.test"


def set_(registry: Registry, max_credits: int | None, *, may_spend: bool = True) -> None:
    """Set the automatic renewal of the shop."""
    registry.write(set_auto_renew, registry.actor(), SHOP, max_credits, may_spend=may_spend)


def changes(registry: Registry) -> list[tuple[object, object]]:
    """Return the values before and after each change in the audit."""

    def read(tx: Tx) -> list[tuple[object, object]]:
        query = select(audit_events.c.before, audit_events.c.after).order_by(audit_events.c.id)
        rows = tx.connection.execute(query.where(audit_events.c.action == "subdomain.set_auto_renew"))
        return [(before["auto_renew_max_credits"], after["auto_renew_max_credits"]) for before, after in rows]

    return registry.read(read)


def test_automatic_renewal_is_off_by_default_and_each_change_is_audited_once(registry: Registry) -> None:
    shop = registry.register(SHOP)
    assert shop.auto_renew_max_credits is None
    assert auto_renew_at(shop) is None
    for ceiling in (20, 20, 0, 0, None, None, CREDITS_MAX):
        set_(registry, ceiling)
        assert registry.subdomain(shop.id).auto_renew_max_credits == ceiling
    assert changes(registry) == [(None, 20), (20, 0), (0, None), (None, CREDITS_MAX)]
    stored = registry.subdomain(shop.id)
    assert auto_renew_at(stored) == renewal_opens_at(stored) == shop.expires_at - timedelta(days=60)
    assert registry.balance() == 100
    assert registry.doctor() == []


def test_the_same_ceiling_changes_nothing_and_a_changed_one_is_tried_at_once(registry: Registry) -> None:
    shop = registry.register(SHOP)
    set_(registry, 5)
    registry.advance(days=330)
    tried_at = registry.now
    registry.write(lambda tx: store.update_subdomain(tx, shop.id, auto_renew_tried_at=tried_at))
    before = registry.dump()
    set_(registry, 5)
    assert registry.dump() == before
    assert auto_renew_at(registry.subdomain(shop.id)) == tried_at + timedelta(days=1)
    registry.advance(hours=1)
    set_(registry, 50)
    stored = registry.subdomain(shop.id)
    next_at = auto_renew_at(stored)
    assert next_at is not None
    assert next_at <= registry.now


def test_a_token_that_may_not_spend_sets_no_ceiling_above_0(registry: Registry) -> None:
    registry.register(SHOP)
    with registry.refuses(InsufficientScope) as caught:
        set_(registry, 1, may_spend=False)
    assert caught[0].details == {"required_scope": "credits:spend"}
    set_(registry, 0, may_spend=False)
    set_(registry, 9)
    set_(registry, None, may_spend=False)


def test_refusals(registry: Registry) -> None:
    registry.register(SHOP)
    for ceiling in (-1, CREDITS_MAX + 1):
        with registry.refuses(ValidationFailed) as caught:
            set_(registry, ceiling, may_spend=False)
        assert [(each.field, each.code) for each in caught[0].errors] == [("max_credits", "value_invalid")]
