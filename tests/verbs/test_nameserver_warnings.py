"""Nameservers below other names of the registry: what is warned of, what is refused, and what is told of others; on both engines."""

from typing import Any

import pytest

from sublet.credits.model import Payable
from sublet.dns.types import GlueInput, Record
from sublet.errors import ValidationFailed
from sublet.platform_domains import zone_store
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.nameserver_warnings import nameserver_warnings
from sublet.subdomains.restore import restore
from sublet.subdomains.suspend import suspend
from sublet.subdomains.unsuspend import unsuspend
from sublet.subdomains.update_nameservers import update_nameservers
from support.dangling_delegations import store_unchecked
from support.registry import FREE_QUOTA, OPERATOR, Registry

ELSEWHERE = ("ns1.provider.example", "ns2.provider.example")
OTHER = "other.example.test"
HOST = f"ns1.{OTHER}"
NOT_IN_THE_DNS = f"The nameserver {HOST} can't be found: {OTHER} is not in the DNS."


def warned(registry: Registry, *nameservers: str, **members: Any) -> tuple[str, ...]:
    """What ann is warned of when she has these nameservers."""
    mine = registry.register(
        "mine.example.test", nameservers=(*nameservers, "ns1.provider.example"), **members
    )
    return registry.read(nameserver_warnings, mine)


@pytest.mark.parametrize(
    ("host", "name"), [(HOST, OTHER), (OTHER, OTHER), ("ns1.x.deep.example.test", "x.deep.example.test")]
)
def test_a_name_that_no_user_has_registered(registry: Registry, host: str, name: str) -> None:
    """As registries have it from before such nameservers were refused."""
    registry.add_domain("deep.example.test")
    mine = registry.register("mine.example.test")
    registry.write(store_unchecked, mine, host)
    assert registry.read(nameserver_warnings, registry.subdomain(mine.id)) == (
        f"The nameserver {host} can't be found: {name} is not registered. Use another nameserver.",
    )


def test_nothing_is_said_of_what_can_be_found(registry: Registry) -> None:
    registry.register(OTHER, "ben", nameservers=ELSEWHERE)
    glue = (GlueInput("ns1.mine.example.test", "8.8.8.8"),)
    assert warned(registry, HOST, "ns2.provider.example", "ns1.mine.example.test", glue=glue) == ()


def test_nothing_is_said_of_the_operators_own(registry: Registry) -> None:
    """The platform domain itself, its nameservers, reserved labels, and what stands in the zone past the registry."""
    by_hand = Record("host.dc.example.test", "A", 3600, "8.8.8.8")
    registry.write(zone_store.insert_records, registry.domains["example.test"], [by_hand])
    hosts = ("example.test", "ns1.example.test", "ns7.example.test", "host.dc.example.test")
    assert warned(registry, *hosts) == ()


@pytest.mark.parametrize("state", ["no nameservers", "suspended"])
def test_a_name_that_is_not_in_the_dns(registry: Registry, state: str) -> None:
    """Whatever the reason, the words are the same: it is the other user's."""
    registry.register(OTHER, "ben", nameservers=() if state == "no nameservers" else ELSEWHERE)
    if state == "suspended":
        registry.write(suspend, OPERATOR, OTHER, "a secret reason")
    assert warned(registry, HOST) == (NOT_IN_THE_DNS,)


@pytest.mark.parametrize("setting", [{"hidden": True}, {"restricted": True}])
def test_below_a_domain_that_not_everybody_sees_only_the_dns_is_told_of(
    registry: Registry, setting: dict[str, bool]
) -> None:
    """Whether a name is registered there is nobody's to know: registered without nameservers and missing say the same."""
    registry.add_domain("else.test")
    registry.register("held.else.test", "ben")
    registry.write(edit_platform_domain, OPERATOR, "else.test", setting)
    mine = registry.register("mine.example.test")
    hosts = ("ns1.held.else.test", "ns1.free.else.test")
    registry.write(store_unchecked, mine, *hosts)
    assert registry.read(nameserver_warnings, registry.subdomain(mine.id)) == tuple(
        f"The nameserver ns1.{name}.else.test can't be found: {name}.else.test is not in the DNS."
        for name in ("held", "free")
    )


@pytest.mark.parametrize("state", ["trash", "suspended"])
def test_no_circle_comes_by_way_of_the_trash_or_a_suspension(registry: Registry, state: str) -> None:
    """What a name will have again when it comes back counts now, so coming back needs no check."""
    registry.register("mine.example.test")
    registry.register(OTHER, "ben", nameservers=("ns1.mine.example.test",))
    if state == "trash":
        registry.write(delete, registry.actor("ben"), OTHER)
    else:
        registry.write(suspend, OPERATOR, OTHER)
    with registry.refuses(ValidationFailed) as caught:
        registry.write(
            update_nameservers, registry.actor(), "mine.example.test", UpdateNameservers(nameservers=(HOST,))
        )
    assert [error.code for error in caught[0].errors] == ["nameserver_cycle"]
    if state == "trash":
        registry.write(restore, registry.actor("ben"), OTHER, Payable(), free_quota=FREE_QUOTA)
    else:
        registry.write(unsuspend, OPERATOR, OTHER)
