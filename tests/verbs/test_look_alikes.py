"""An internationalized name that looks like another: where it is refused, where not, and what the database needs for it."""

import pytest
from sqlalchemy import select

from sublet.db import Tx
from sublet.errors import SubdomainUnavailable
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.delete import delete
from sublet.subdomains.purge import purge
from sublet.subdomains.store import subdomains
from support.registry import OPERATOR, Registry

ZONE, OTHER = "example.test", "other.test"
PAYPAL, CYRILLIC = f"paypal.{ZONE}", f"p\u0430ypal.{ZONE}"
MODERN, DIAERESIS = f"modern.{ZONE}", f"m\u043edern.{ZONE}"


@pytest.mark.parametrize(
    ("held", "alike"), [(PAYPAL, CYRILLIC), (MODERN, DIAERESIS), (CYRILLIC, f"\u0440aypal.{ZONE}")]
)
def test_a_look_alike_of_another_user_s_name_is_refused(registry: Registry, held: str, alike: str) -> None:
    registry.register(held)
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(alike, "ben")
    assert caught[0].details == {"reason": "reserved", "owned": False}
    assert "mistaken" in caught[0].message
    assert registry.doctor() == []


def test_a_user_s_own_names_may_look_alike(registry: Registry) -> None:
    registry.register(PAYPAL)
    registry.register(CYRILLIC)


def test_a_deleted_name_counts_until_it_is_released(registry: Registry) -> None:
    held = registry.register(PAYPAL)
    registry.write(delete, registry.actor(), PAYPAL)
    with registry.refuses(SubdomainUnavailable):
        registry.register(CYRILLIC, "ben")
    registry.publish()
    registry.write(purge, OPERATOR, str(held.id), release=True)
    registry.register(CYRILLIC, "ben")
    assert registry.doctor() == []


def test_the_check_is_per_platform_domain_and_can_be_turned_off(registry: Registry) -> None:
    registry.add_domain(OTHER)
    registry.register(PAYPAL)
    registry.register(f"p\u0430ypal.{OTHER}", "ben")
    registry.write(edit_platform_domain, OPERATOR, ZONE, {"look_alike_check": False})
    registry.register(CYRILLIC, "ben")


@pytest.mark.parametrize("label", ["m\u0430il", "n\u04551", "\u0455h\u0430me", "w\u043erks", "hostns"])
def test_a_look_alike_of_a_reserved_label_is_refused(registry: Registry, label: str) -> None:
    registry.write(set_label, OPERATOR, ZONE, "shame", "blocked")
    registry.write(set_label, OPERATOR, ZONE, "works", "special", organizations=("1",))
    if label == "hostns":  # the zone's own nameserver stands there
        registry.add_domain("served.test", apex_nameservers=("hostns.served.test",))
        name = "h\u043estns.served.test"
    else:
        name = f"{label}.{ZONE}"
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(name)
    assert caught[0].details["reason"] == "reserved"


def test_a_label_that_the_operator_listed_may_look_alike(
    registry: Registry,
) -> None:
    registry.register(PAYPAL)
    registry.write(set_label, OPERATOR, ZONE, "p\u0430ypal", "standard")
    registry.register(CYRILLIC, "ben")


def test_ascii_labels_are_not_checked(registry: Registry) -> None:
    registry.register(PAYPAL)
    registry.register(f"paypa1.{ZONE}", "ben")


def test_the_skeleton_is_stored_if_it_differs_from_the_label(registry: Registry) -> None:
    found = [registry.register(name).id for name in (PAYPAL, CYRILLIC)]
    found.append(registry.register(MODERN, "ben").id)

    def ask(tx: Tx) -> dict[int, str | None]:
        rows = tx.connection.execute(select(subdomains.c.id, subdomains.c.skeleton))
        return {row[0]: row[1] for row in rows}

    stored = registry.read(ask)
    assert [stored[each] for each in found] == [None, "paypal", "rnodern"]
