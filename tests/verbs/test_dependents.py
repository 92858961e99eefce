"""Nameservers below names that end: refused, announced, and removed before another user can register the
name; on both databases.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from sqlalchemy import select

from sublet import audit
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.dns.types import Delegation, GlueEntry, Record
from sublet.doctor.notices import list_notices
from sublet.errors import FieldError, SubdomainUnavailable, ValidationFailed
from sublet.mail.store import mails
from sublet.platform_domains import zone_store
from sublet.platform_domains.labels import set_label
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains import store
from sublet.subdomains.dates.timeline import PAST_ACTIONS, timeline
from sublet.subdomains.delete import delete
from sublet.subdomains.model import Register, Subdomain, TimelineEvent, UpdateNameservers
from sublet.subdomains.nameservers import find_enclosed_nameservers_of_subdomain, registry_warnings
from sublet.subdomains.purge import purge
from sublet.subdomains.register import register
from sublet.subdomains.restore import restore
from sublet.subdomains.suspend import suspend
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.sweep import BATCH_MAX, sweep
from sublet.subdomains.update_nameservers import update_nameservers
from support.dangling_delegations import store_unchecked
from support.registry import FREE_QUOTA, OPERATOR, Registry

GONE = "gone.example.test"
HOST = f"ns1.{GONE}"
ADA = "ada.example.test"
OUT = "ns1.provider.example"
DS = "2371 13 2 " + "ab" * 32


def take(registry: Registry, fqdn: str, name: str, *nameservers: str) -> None:
    """Register a name. The verb may refuse it."""
    command = Register(fqdn=fqdn, nameservers=nameservers, payable=Payable(confirm=True))
    registry.write(register, registry.actor(name), command, free_quota=FREE_QUOTA)


def put(registry: Registry, fqdn: str, name: str, *nameservers: str) -> None:
    """Change the nameservers of a name."""
    registry.write(update_nameservers, registry.actor(name), fqdn, UpdateNameservers(nameservers=nameservers))


def lapse(registry: Registry, *, ds: Sequence[str] = (), others: Sequence[str] = ()) -> Subdomain:
    """Make ben's name depend on ann's, move ann's name to the trash, and return ben's."""
    registry.register(GONE, nameservers=(OUT,))
    ada = registry.register(ADA, "ben", nameservers=(HOST, *others), ds_records=tuple(ds))
    registry.publish()
    registry.write(delete, registry.actor(), GONE)
    registry.sweep()
    registry.publish()
    return ada


def subjects(registry: Registry, name: str = "ben") -> list[str]:
    """Return the subjects of all mails to a user."""

    def ask(tx: Tx) -> list[str]:
        query = select(mails.c.subject).where(mails.c.user_id == registry.users[name]).order_by(mails.c.id)
        return [row[0] for row in tx.connection.execute(query)]

    return registry.read(ask)


def events(registry: Registry, subdomain: Subdomain) -> list[TimelineEvent]:
    """Return the timeline of a name."""

    def ask(tx: Tx) -> list[TimelineEvent]:
        return timeline(
            found,
            tx.now,
            terms=store.list_terms(tx, subdomain.id, 9),
            milestones=sweep_store.list_milestones(tx, subdomain.id),
            changes=audit.list_changes(tx, "subdomain", subdomain.id, PAST_ACTIONS, 99),
            enclosed_nameservers=find_enclosed_nameservers_of_subdomain(tx, found),
        )

    found = registry.subdomain(subdomain.id)
    return registry.read(ask)


def codes(found: Iterable[FieldError]) -> list[tuple[str, str]]:
    """Return the field and code of each error."""
    return [(each.field, each.code) for each in found]


# The takeover


@pytest.mark.parametrize("host", [HOST, GONE, "ns1.x.deep.example.test"])
def test_a_nameserver_below_an_unregistered_name_is_refused(registry: Registry, host: str) -> None:
    registry.add_domain("deep.example.test")
    with registry.refuses(ValidationFailed) as caught:
        take(registry, ADA, "ben", OUT, host)
    assert codes(caught[0].errors) == [("nameservers[1]", "nameserver_unregistered")]
    registry.register(ADA, "ben", nameservers=(OUT,))
    with registry.refuses(ValidationFailed) as caught:
        put(registry, ADA, "ben", host, OUT)
    assert codes(caught[0].errors) == [("nameservers[0]", "nameserver_unregistered")]
    registry.register("x.deep.example.test", nameservers=(OUT,))
    put(registry, ADA, "ben", "ns1.x.deep.example.test", "deep.example.test")


def test_the_operator_s_nameservers_are_accepted_without_a_warning(registry: Registry) -> None:
    """The operator's are the platform domain, its nameservers, reserved labels, and adopted records."""
    registry.write(set_label, OPERATOR, "example.test", "dns", "reserved")
    registry.write(set_label, OPERATOR, "example.test", "mail", "standard")
    by_hand = Record("host.dc.example.test", "A", 3600, "8.8.8.8")
    registry.write(zone_store.insert_records, registry.domains["example.test"], [by_hand])
    edit = {"apex_nameservers": ("hosts.example.test",)}
    registry.write(edit_platform_domain, OPERATOR, "example.test", edit)
    labels = ("ns7.", "ns1.dns.", "", "hosts.", "host.dc.")
    ada = registry.register(ADA, "ben", nameservers=[f"{each}example.test" for each in labels])
    assert registry.read(registry_warnings, ada) == ()
    with registry.refuses(ValidationFailed) as caught:
        take(registry, "bob.example.test", "ben", "mx.mail.example.test")
    assert codes(caught[0].errors) == [("nameservers[0]", "nameserver_unregistered")], "it can be registered"


@pytest.mark.parametrize("setting", [{"hidden": True}, {"restricted": True}])
def test_under_a_hidden_platform_domain_errors_depend_on_the_dns_only(
    registry: Registry, setting: dict[str, bool]
) -> None:
    registry.add_domain("else.test")
    registry.register("held.else.test")
    registry.register("trash.else.test", nameservers=(OUT,))
    registry.register("there.else.test", nameservers=(OUT,))
    registry.write(delete, registry.actor(), "trash.else.test")
    registry.write(set_label, OPERATOR, "else.test", "listed", "reserved")
    registry.write(edit_platform_domain, OPERATOR, "else.test", setting)
    hosts = [f"ns1.{label}.else.test" for label in ("held", "trash", "listed", "free", "there")]
    with registry.refuses(ValidationFailed) as caught:
        take(registry, ADA, "ben", *hosts)
    said = [each.message.replace(each.message.split(".")[1], "LABEL") for each in caught[0].errors]
    assert codes(caught[0].errors) == [
        (f"nameservers[{each}]", "nameserver_unregistered") for each in range(4)
    ]
    assert len(set(said)) == 1, "the same words"
    take(registry, ADA, "ann", *hosts[:2], hosts[4])


def test_stored_nameservers_are_kept(registry: Registry) -> None:
    """Nameservers that were stored before the rule existed can be kept in a change, but not added."""
    registry.write(store_unchecked, registry.register(ADA, "ben"), HOST)
    registry.write(
        update_nameservers,
        registry.actor("ben"),
        ADA,
        UpdateNameservers(ds_records=(DS,)),
    )
    put(registry, ADA, "ben", HOST, OUT)
    with registry.refuses(ValidationFailed) as caught:
        put(registry, ADA, "ben", HOST, f"ns2.{GONE}")
    assert codes(caught[0].errors) == [("nameservers[1]", "nameserver_unregistered")]


def test_a_name_that_others_depend_on_is_reserved(registry: Registry) -> None:
    """A name on which stored nameservers depend can't be registered: its user could take over the dependent
    name.
    """
    ada = registry.register(ADA, "ben")
    registry.write(store_unchecked, ada, HOST)
    (notice,) = registry.read(list_notices)
    assert (notice.notice, notice.object_id) == ("nameserver_unregistered", ada.id)
    with registry.refuses(SubdomainUnavailable) as caught:
        take(registry, GONE, "ann")
    assert caught[0].details == {"reason": "reserved", "owned": False}
    take(registry, "gone-2.example.test", "ann")
    registry.register(GONE, "ben")
    assert registry.read(list_notices) == []


def test_a_change_frees_a_name_once_the_dns_follows(registry: Registry) -> None:
    registry.move()
    registry.write(store_unchecked, registry.register(ADA, "ben"), HOST)
    registry.publish()
    put(registry, ADA, "ben", OUT)
    with registry.refuses(SubdomainUnavailable):
        take(registry, GONE, "ann")
    registry.publish()
    take(registry, GONE, "ann")


# The removal


@pytest.mark.parametrize("state", ["live", "trash", "suspended"])
def test_the_removal_keeps_nameservers_elsewhere(registry: Registry, state: str) -> None:
    registry.register(GONE, nameservers=(OUT,))
    own = f"ns1.{ADA}"
    glue = (GlueEntry(own, "8.8.8.8"),)
    hosts = (own, HOST, OUT, f"ns2.{GONE}")
    ada = registry.register(ADA, "ben", nameservers=hosts, glue=glue, ds_records=(DS,))
    bare = registry.register("bare.example.test", "ben", nameservers=(HOST,), ds_records=(DS,))
    registry.write(delete, registry.actor(), GONE)
    registry.live(days=20)
    if state == "trash":
        registry.write(delete, registry.actor("ben"), ADA)
    elif state == "suspended":
        registry.write(suspend, OPERATOR, ADA)
    registry.live(days=11)
    assert registry.subdomain(ada.id).delegation == Delegation((own, OUT), glue, ada.delegation.ds_records)
    assert registry.subdomain(bare.id).delegation == Delegation()
    assert registry.doctor() == []


def test_a_restored_name_keeps_its_dependents(registry: Registry) -> None:
    ada = lapse(registry)
    registry.live(days=20)
    registry.write(restore, registry.actor(), GONE, Payable(), free_quota=FREE_QUOTA)
    registry.live(days=40)
    assert registry.subdomain(ada.id).delegation.nameservers == (HOST,)
    registry.write(delete, registry.actor(), GONE)
    registry.live(days=1)
    assert subjects(registry) == [f"Nameservers of {ADA} need a change"] * 2


def test_the_name_is_not_released_before_the_removal_is_published(registry: Registry) -> None:
    registry.add_domain("else.test", primary="main")
    registry.register(GONE, nameservers=(OUT,))
    registry.register("ada.else.test", "ben", nameservers=(HOST, OUT))
    registry.publish("else.test")
    registry.write(delete, registry.actor(), GONE)
    registry.write(edit_platform_domain, OPERATOR, "example.test", {"cooling_off_days": 0})
    for _ in range(10):
        registry.advance(days=5)
        registry.sweep()
        registry.publish()
    with registry.refuses(SubdomainUnavailable) as caught:
        take(registry, GONE, "ben")
    assert caught[0].details["reason"] == "cooling_off"
    registry.publish("else.test")
    registry.advance(minutes=1)
    assert registry.sweep().done["released"] == 1
    take(registry, GONE, "ben")


def test_dependents_are_handled_in_batches(registry: Registry) -> None:
    registry.register(GONE, nameservers=(OUT,))
    registry.add_user("eve", free_quota=99)
    count = 2 * BATCH_MAX + 1
    found = [
        registry.register(f"n{number}.example.test", "eve", nameservers=(HOST,)) for number in range(count)
    ]
    registry.write(delete, registry.actor(), GONE)
    registry.sweep()
    registry.publish()
    registry.write(purge, OPERATOR, GONE)
    steps = []
    while (swept := registry.write(sweep)).more:
        steps += [swept.done["nameservers_removed"]] if swept.done["nameservers_removed"] else []
    assert steps == [BATCH_MAX, BATCH_MAX, 1]
    assert {registry.subdomain(each.id).delegation.nameservers for each in found} == {()}


# Notices


def test_the_holder_is_warned_twice_and_notified_of_the_removal(registry: Registry) -> None:
    ada = lapse(registry)
    start = registry.now
    assert subjects(registry) == [f"Nameservers of {ADA} need a change"]
    (warning,) = registry.read(registry_warnings, registry.subdomain(ada.id))
    assert warning == (
        f"The nameserver {HOST} doesn't resolve: {GONE} is in the trash. If {GONE} isn't restored, {HOST} "
        "will be removed on 21 December 2026, 09:30 UTC. Use another nameserver."
    )
    (ahead,) = [each for each in events(registry, ada) if each.event == "nameservers_removed"]
    assert (ahead.past, ahead.at) == (False, start + timedelta(days=30))
    registry.live(days=22)
    assert len(subjects(registry)) == 1
    registry.live(days=2)
    assert subjects(registry)[1:] == [f"Nameservers of {ADA} are about to be removed"]
    registry.live(days=7)
    assert subjects(registry)[2:] == [f"Nameservers of {ADA} were removed"]
    (warning,) = registry.read(registry_warnings, registry.subdomain(ada.id))
    assert warning.startswith(f"{HOST}: removed on 21 December 2026, 09:30 UTC, because ")
    told = [(each.event, each.past) for each in events(registry, ada) if each.by == "system"]
    assert told == [("reminded", True), ("reminded", True), ("nameservers_removed", True)]
    put(registry, ADA, "ben", OUT)
    assert registry.read(registry_warnings, registry.subdomain(ada.id)) == ()


def test_the_doctor_lists_dependents_of_names_in_the_trash(registry: Registry) -> None:
    ada = lapse(registry)
    (notice,) = registry.read(list_notices)
    assert (notice.notice, notice.object_type, notice.object_id) == (
        "nameserver_in_trash",
        "subdomain",
        ada.id,
    )
    assert GONE in notice.message
    assert registry.doctor() == []
