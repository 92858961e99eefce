"""Nameservers below other names of the registry: cycles and warnings; on both databases."""

import asyncio
from typing import Any

import pytest

from sublet.credits.model import Payable
from sublet.dns.types import GlueEntry
from sublet.errors import ValidationFailed
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.nameservers import registry_warnings
from sublet.subdomains.restore import restore
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.update_nameservers import update_nameservers
from support.dangling_delegations import store_unchecked
from support.registry import FREE_QUOTA, OPERATOR, Registry

ROUNDS = 3
OF = {"ann": "a.example.test", "ben": "b.else.test"}
CLOSING = {"ann": "ns.b.else.test", "ben": "ns.a.example.test"}


def test_one_of_two_concurrent_changes_that_close_a_cycle_is_refused(registry: Registry) -> None:
    registry.add_domain("else.test")
    for name, fqdn in OF.items():
        registry.register(fqdn, name)

    async def change(name: str, *nameservers: str) -> Any:
        command = UpdateNameservers(nameservers=nameservers)
        return await registry.db.write(update_nameservers, registry.actor(name), OF[name], command)

    async def close() -> list[Any]:
        changes = (change(name, host) for name, host in CLOSING.items())
        return list(await asyncio.gather(*changes, return_exceptions=True))

    for _ in range(ROUNDS):
        refused = [each for each in registry.run(close()) if isinstance(each, BaseException)]
        assert [type(each) for each in refused] == [ValidationFailed]
        for name in OF:
            registry.run(change(name))


ELSEWHERE = ("ns1.provider.example", "ns2.provider.example")
OTHER = "other.example.test"
HOST = f"ns1.{OTHER}"
NOT_IN_THE_DNS = f"The nameserver {HOST} doesn't resolve: {OTHER} is not in the DNS. Use another nameserver."


def warned(registry: Registry, *nameservers: str, **members: Any) -> tuple[str, ...]:
    """Return the warnings that ann gets about these nameservers."""
    mine = registry.register(
        "mine.example.test", nameservers=(*nameservers, "ns1.provider.example"), **members
    )
    return registry.read(registry_warnings, mine)


def test_a_name_that_no_user_has_registered(registry: Registry) -> None:
    """Registries have such nameservers if they were stored before the rule existed."""
    registry.add_domain("deep.example.test")
    mine = registry.register("mine.example.test")
    host = "ns1.x.deep.example.test"
    registry.write(store_unchecked, mine, host)
    (warning,) = registry.read(registry_warnings, registry.subdomain(mine.id))
    assert warning.startswith(
        f"The nameserver {host} doesn't resolve: x.deep.example.test is not registered."
    )


def test_no_warning_for_nameservers_that_can_be_found(registry: Registry) -> None:
    registry.register(OTHER, "ben", nameservers=ELSEWHERE)
    glue = (GlueEntry("ns1.mine.example.test", "8.8.8.8"),)
    assert warned(registry, HOST, "ns2.provider.example", "ns1.mine.example.test", glue=glue) == ()


@pytest.mark.parametrize("state", ["no nameservers", "suspended"])
def test_a_name_that_is_not_in_the_dns(registry: Registry, state: str) -> None:
    """The warning is the same for every reason, because the name belongs to another user."""
    registry.register(OTHER, "ben", nameservers=() if state == "no nameservers" else ELSEWHERE)
    if state == "suspended":
        registry.write(suspend, OPERATOR, OTHER, "a secret reason")
    assert warned(registry, HOST) == (NOT_IN_THE_DNS,)


def test_under_a_hidden_domain_a_warning_depends_on_the_dns_only(registry: Registry) -> None:
    """A name registered without nameservers and a missing one give the same warning, so that it reveals no
    registrations.
    """
    registry.add_domain("else.test")
    registry.register("held.else.test", "ben")
    registry.write(edit_platform_domain, OPERATOR, "else.test", {"hidden": True})
    mine = registry.register("mine.example.test")
    registry.write(store_unchecked, mine, "ns1.held.else.test", "ns1.free.else.test")
    held, free = registry.read(registry_warnings, registry.subdomain(mine.id))
    assert held.replace("held", "free") == free
    assert "is not in the DNS" in free


@pytest.mark.parametrize("state", ["trash", "suspended"])
def test_no_cycle_arises_through_the_trash_or_a_suspension(registry: Registry, state: str) -> None:
    """The delegation of a name in the trash or suspended counts, so that restoring
    the name needs no check.
    """
    registry.register("mine.example.test")
    registry.register(OTHER, "ben", nameservers=("ns1.mine.example.test",))
    if state == "trash":
        registry.write(delete, registry.actor("ben"), OTHER)
    else:
        registry.write(suspend, OPERATOR, OTHER)
    change = UpdateNameservers(nameservers=(HOST,))
    mine = "mine.example.test"
    caught = registry.refused(ValidationFailed, update_nameservers, registry.actor(), mine, change)
    assert [error.code for error in caught.errors] == ["nameserver_cycle"]
    if state == "trash":
        registry.write(restore, registry.actor("ben"), OTHER, Payable(), free_quota=FREE_QUOTA)
    else:
        registry.write(unsuspend, OPERATOR, OTHER)
