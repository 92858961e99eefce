"""Searching audit events with the operator's filters; on both databases."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sublet.audit import AuditEvent, EventFilter, find_event, search_events
from sublet.cli.audit import _find_objects
from sublet.errors import NotFound
from sublet.structs import replace
from sublet.subdomains.delete import delete
from sublet.subdomains.purge import purge
from sublet.subdomains.transfers.move import transfer
from support.registry import OPERATOR, START, Registry

SHOP = "shop.example.test"


def search(registry: Registry, limit: int = 100, **wanted: Any) -> list[AuditEvent]:
    return registry.read(search_events, EventFilter(**wanted), limit)


@pytest.fixture
def lived(registry: Registry) -> Registry:
    """Return a registry with a name that ann held, and that ben registered a day after its release."""
    registry.register(SHOP)
    registry.advance(days=1)
    registry.write(delete, registry.actor(), SHOP)
    registry.write(purge, replace(OPERATOR, reason="asked"), SHOP, release=True)
    registry.advance(days=1)
    registry.register(SHOP, "ben")
    return registry


def test_the_filters_are_combined(lived: Registry) -> None:
    everything = search(lived)
    assert [each.id for each in everything] == sorted((each.id for each in everything), reverse=True)
    assert search(lived, 3) == everything[:3]
    by: dict[str, Callable[[AuditEvent], bool]] = {
        "user": lambda each: each.actor_kind == "user",
        "olga": lambda each: each.actor_name == "olga",
        "carl": lambda _: False,
    }
    for actor, fits in by.items():
        assert search(lived, actor=actor) == [each for each in everything if fits(each)]
    ann = lived.users["ann"]
    assert [each.action for each in search(lived, user_id=ann)] == ["subdomain.delete", "subdomain.register"]
    assert [each.user_id for each in search(lived, action="subdomain.register")] == [lived.users["ben"], ann]
    day = timedelta(days=1)
    within = search(lived, since=START + day, until=START + 2 * day)
    assert {each.at for each in within} == {START + day}
    assert search(lived, user_id=ann, action="subdomain.delete", until=START + day) == []


def test_a_name_selects_all_its_rows(lived: Registry) -> None:
    found = lived.read(_find_objects, SHOP.upper())
    assert sorted(found) == [("subdomain", 1), ("subdomain", 2)]
    actions = [each.action.partition(".")[2] for each in search(lived, objects=found)]
    assert (actions[0], actions[-1]) == ("register", "register")
    assert {"delete", "purge", "release"} <= set(actions)
    assert search(lived, 2, objects=found) == search(lived, objects=found)[:2]


def test_an_object_is_named_in_several_ways(registry: Registry) -> None:
    found = {
        "coupon:3": ("coupon", 3),
        "T-000007": ("ticket", 7),
        "ben@example.org": ("user", 2),
        "example.test": ("platform_domain", 1),
    }
    assert {text: tuple(registry.read(_find_objects, text)) for text in found} == {
        text: (each,) for text, each in found.items()
    }
    for text in ("none.example.test", "carl@example.org", "7", "coupon:", "", ":"):
        with pytest.raises(NotFound):
            registry.read(_find_objects, text)


def test_an_event_has_all_its_fields(lived: Registry) -> None:
    lived.write(transfer, replace(OPERATOR, reason="sold"), SHOP, "ann@example.org")
    (moved,) = search(lived, action="subdomain.transfer")
    assert lived.read(find_event, moved.id) == moved
    assert (moved.actor_name, moved.reason, moved.object_id) == ("olga", "sold", 2)
    assert moved.before == {"user_id": lived.users["ben"], "auto_renew_max_credits": None}
    registered = search(lived, action="subdomain.register")[0]
    assert (registered.token_id, registered.request_id) == (1, "r-1")
    assert lived.read(find_event, 999_999) is None
