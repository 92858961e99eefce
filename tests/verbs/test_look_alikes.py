"""Internationalized names that mix scripts or look like another name or a trusted
label: which are refused.
"""

from datetime import timedelta

import pytest

from sublet.credits.model import Payable
from sublet.errors import SubdomainUnavailable
from sublet.platform_domains.labels import set_label, unset_label
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.purge import purge
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import FREE_QUOTA, OPERATOR, Registry

ZONE, OTHER = "example.test", "other.test"
SCOPE, CYRILLIC = f"scope.{ZONE}", f"\u0455\u0441\u043e\u0440\u0435.{ZONE}"
GREEK = f"\u03bf\u03bf.{ZONE}"
MIXED = f"g\u043e\u043egle.{ZONE}"  # Latin with two Cyrillic letters


@pytest.mark.parametrize(("held", "alike"), [(SCOPE, CYRILLIC), (GREEK, f"\u043e\u043e.{ZONE}")])
def test_a_look_alike_of_another_user_s_name_is_refused(registry: Registry, held: str, alike: str) -> None:
    registry.register(held)
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(alike, "ben")
    assert caught[0].details == {"reason": "reserved", "owned": False}
    registry.register(f"paypal.{ZONE}")
    registry.register(f"paypa1.{ZONE}", "ben")  # ASCII labels are not compared
    registry.write(set_label, OPERATOR, ZONE, alike.partition(".")[0], "standard")
    registry.register(alike, "ben")
    assert registry.doctor() == []


def test_a_user_s_own_names_may_look_alike(registry: Registry) -> None:
    registry.register(SCOPE)
    registry.register(CYRILLIC)


def test_a_deleted_name_counts_until_it_is_released(registry: Registry) -> None:
    held = registry.register(SCOPE)
    registry.write(delete, registry.actor(), SCOPE)
    with registry.refuses(SubdomainUnavailable):
        registry.register(CYRILLIC, "ben")
    registry.publish()
    registry.write(purge, OPERATOR, str(held.id), release=True)
    registry.register(CYRILLIC, "ben")


def test_the_check_is_per_platform_domain_and_can_be_turned_off(registry: Registry) -> None:
    registry.add_domain(OTHER)
    registry.register(SCOPE)
    registry.register(CYRILLIC.replace(ZONE, OTHER), "ben")
    registry.write(edit_platform_domain, OPERATOR, ZONE, {"look_alike_check": False})
    registry.register(CYRILLIC, "ben")


@pytest.mark.parametrize(
    "label",
    [
        "\u0440\u0430\u0443",  # pay
        "\u0455\u04bb\u0430\u0440\u0435",  # shape
        "\u0455\u0441\u043e\u0440\u0435",  # scope
        "\u0455\u04bb\u0435\u0435\u0440",  # sheep
    ],
)
def test_a_look_alike_of_a_reserved_label_is_refused(registry: Registry, label: str) -> None:
    registry.write(set_label, OPERATOR, ZONE, "shape", "blocked")
    registry.write(set_label, OPERATOR, ZONE, "scope", "special", organizations=("1",))
    # The zone's own nameserver has this name.
    registry.write(edit_platform_domain, OPERATOR, ZONE, {"apex_nameservers": (f"sheep.{ZONE}",)})
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(f"{label}.{ZONE}")
    assert caught[0].details["reason"] == "reserved"


def test_a_name_that_mixes_scripts_needs_the_operator(registry: Registry) -> None:
    with registry.refuses(SubdomainUnavailable) as caught:
        registry.register(MIXED)
    assert caught[0].details == {"reason": "reserved", "owned": False}
    registry.write(set_label, OPERATOR, ZONE, "g\u043e\u043egle", "standard")
    registry.register(MIXED)
    registry.write(edit_platform_domain, OPERATOR, ZONE, {"look_alike_check": False})
    registry.register(f"p\u0430ypal.{ZONE}")


@pytest.mark.parametrize("label", ["g\u043e\u043egle", "admin"])
def test_a_name_held_already_is_kept(registry: Registry, label: str) -> None:
    """Names registered before these rules existed can be changed, renewed, deleted and restored."""
    registry.write(set_label, OPERATOR, ZONE, label, "standard")
    held = registry.register(f"{label}.{ZONE}")
    registry.write(unset_label, OPERATOR, ZONE, label)
    actor, name = registry.actor(), str(held.id)
    registry.write(update_nameservers, actor, name, UpdateNameservers(nameservers=("ns1.example.org",)))
    registry.publish()
    registry.advance(days=330)
    registry.write(renew, actor, name, Payable(confirm=True))
    registry.write(delete, actor, name)
    registry.write(restore, actor, name, Payable(confirm=True), free_quota=FREE_QUOTA)
    assert registry.subdomain(held.id).expires_at == held.expires_at + timedelta(days=365)
    assert registry.doctor() == []
