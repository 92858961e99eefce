"""A name that a server refuses, or applies only partly, delays no other name; a zone that refuses everything
gets few updates.
"""

from dataclasses import dataclass, field
from typing import Any

import dns.update
import pytest

from sublet.db import Tx
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries import primary_zone
from sublet.primaries import store as publish_store
from sublet.primaries.primary import NOT_APPLIED, SENTENCES, send_update
from sublet.subdomains import published_owner_store
from support.name_servers import KINDS, NameServerProcess
from support.primary_faults import changed, healed, no_rights, register
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ZONE, ServiceOn
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Counted:
    """Counts the sent updates; `reset` sets the count to 0."""

    records: list[int] = field(default_factory=list)


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count the updates that the publisher sends, by the records that each adds."""
    counted = Counted()

    async def count(primary: Any, message: dns.update.UpdateMessage, **options: Any) -> None:
        counted.records.append(sum(len(rrset) for rrset in message.update))
        await send_update(primary, message, **options)

    monkeypatch.setattr(primary_zone, "send_update", count)
    return counted


def only_good_names(server: NameServerProcess) -> tuple[str, str]:
    """Return the change of a configuration that denies one of our names."""
    key = server.key.name
    owners = ", ".join(["_sublet", *(f"good{number}" for number in range(20))])
    return {
        "knot": (
            "update-owner: zone\n    update-owner-match: sub",
            f"update-owner: name\n    update-owner-match: sub-or-equal\n    update-owner-name: [{owners}]",
        ),
        "bind": (f"grant {key} wildcard", f"deny {key} name bad.{ZONE} ANY;\n grant {key} wildcard"),
        "powerdns": ("", ""),
    }[server.kind]


def test_a_refused_name_does_not_delay_the_others(on: ServiceOn, ada: Registrant, updates: Counted) -> None:
    server = on.primary
    lua = ("if name == zone", f"if name == newDN('bad.{ZONE}.') or name == zone")
    change = lua if server.kind == "powerdns" else only_good_names(server)
    with changed(server, change, all_files=server.kind == "powerdns"):
        server.kill()
        waiting = [register(on, ada, f"good{number}") for number in range(8)]
        waiting += [
            register(on, ada, "bad"),
            *(register(on, ada, f"good{number}") for number in range(8, 15)),
        ]
        updates.records.clear()
        server.start()
        bad = waiting[8]
        for fqdn in waiting:
            if fqdn != bad:
                on.wait_until_active(ada, fqdn)
        wait_until(lambda: on.shown(ada, bad)["provision_error"] == NOT_APPLIED)
        # Of 16: five refused updates, each with a probe, and four accepted halves. The last one may be
        # repeated.
        assert len(updates.records) <= 20, updates.records
        wait_until(lambda: on.state().problem is None)
        assert not {record for record in on.records() if record[0] == bad}
    on.wait_until_active(ada, bad)
    healed(on, ada, *waiting)


@pytest.mark.parametrize("on", share(("bind",), whole=KINDS), indirect=True)
def test_a_zone_that_refuses_everything_gets_few_updates(
    on: ServiceOn, ada: Registrant, updates: Counted
) -> None:
    server = on.primary
    changes, cause = [no_rights(server)], "refused"
    if server.kind == "powerdns":
        rights = ("return kind == pdns.TXT", "return types[kind] == true")
        changes = [(each, "return false") for each in rights]
        cause = "failure"
    with changed(server, *changes, all_files=server.kind == "powerdns"):
        server.kill()
        waiting = [register(on, ada) for _ in range(16)]
        wait_until(lambda: on.state().problem == "unreachable")
        updates.records.clear()
        before = on.state().attempts
        server.start()
        wait_until(lambda: on.state().problem == cause)
        wait_until(lambda: on.state().attempts >= before + 3)
        sent, attempts = len(updates.records), on.state().attempts - before
        assert sent <= 2 * (attempts + 1), updates.records
        for fqdn in waiting:
            wait_until(lambda of=fqdn: on.shown(ada, of)["provision_error"] == SENTENCES[cause])  # type: ignore[misc]
    healed(on, ada, *waiting)


def test_a_name_that_was_never_sent_is_not_removed(on: ServiceOn, ada: Registrant) -> None:
    """A name registered and deleted while the server is down: foreign records at the name stay."""
    on.primary.nsupdate([f"add taken.{ZONE}. 300 A 8.8.8.8"])
    on.primary.kill()
    fqdn = register(on, ada, "taken")
    wait_until(lambda: on.shown(ada, fqdn)["status"] == "failed")
    on.service.call(ada, "DELETE", f"/subdomains/{fqdn}")
    on.primary.start()
    healed(on, ada, register(on, ada))
    wait_until(lambda: on.service.read(lambda tx: _is_settled(tx, fqdn)))
    assert (fqdn, "A", "8.8.8.8") in on.records()
    on.primary.nsupdate([f"delete {fqdn}. A"])


def _is_settled(tx: Tx, fqdn: str) -> bool:
    """True if nothing is left to publish, and no owner counts as possibly published."""
    domain_id = find_platform_domain(tx, ZONE).id
    owners = published_owner_store.list_published_owners_of_zone(tx, domain_id)
    return fqdn not in owners and not publish_store.list_waiting(tx, domain_id, 1)
