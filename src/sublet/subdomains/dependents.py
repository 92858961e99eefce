"""Warn the holders of dependents of a label, and remove their nameservers.

A label is a name in the trash, or purged from it. Its dependents are the names with nameservers at or below it. While the label is in the
trash, the holders of its dependents are warned. Once it is purged, these nameservers are removed before the label is released and another
user can register it, as registries do with host objects (RFC 9874).

Level-triggered, like the sweep: the remaining work is read from the index of nameservers (`delegation_store`), each call handles a limited
number of names, and the label stays due until none is left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.db import Tx, is_lost
from sublet.dns.delegation import without_nameservers
from sublet.dns.names import is_at_or_below
from sublet.mail.outbox import enqueue
from sublet.subdomains import delegation_store, store
from sublet.subdomains.delegation_store import Dependent
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_notices import NOTICE, REMOVAL, notice_mail, removal_mail, stage_of


class Owned(Protocol):
    """A name's id and its user's id."""

    @property
    def id(self) -> int: ...  # noqa: D102
    @property
    def user_id(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of `change_each`: the number of changes by kind, and the names (by id) that failed."""

    done: Counter[str]
    faults: tuple[tuple[int, Exception], ...]


def change_each(
    tx: Tx, names: Sequence[Owned], change: Callable[[Tx, User, Subdomain], Iterable[str]]
) -> Changed:
    """Change each of these names under a savepoint, so that a name that fails doesn't stop the others.

    `change` gets the user and the name as stored, and returns the kinds of changes that it made.
    """
    # First the users, then the names, each in order of id: the lock order of all transactions that change several names.
    users = account_store.lock_users(tx, {each.user_id for each in names})
    store.lock_subdomains(tx, (each.id for each in names))
    done: Counter[str] = Counter()
    faults: list[tuple[int, Exception]] = []
    for each in names:
        try:
            with tx.savepoint():
                subdomain = find_for_operator(tx, str(each.id))
                # A name that was transferred just before its user was locked stays due: its new user isn't locked.
                if subdomain.user_id == each.user_id:
                    done.update(change(tx, users[each.user_id], subdomain))
        except Exception as error:
            if is_lost(error):
                raise
            faults.append((each.id, error))
    return Changed(done, tuple(faults))


def handle_dependents(tx: Tx, label_id: int, limit: int) -> Changed | None:
    """Warn the holders of some dependents of a label, or remove their nameservers. Return None if none is left.

    No name can get a nameserver below a purged label (`nameservers.refuse_unregistered`), so removed nameservers stay removed.
    """
    label = store.find_subdomain(tx, label_id)
    remaining = _remaining(tx, label, limit) if label is not None else []
    if label is None or not remaining:
        return None

    def change(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
        hosts = [host for host in subdomain.delegation.nameservers if is_at_or_below(host, label.fqdn)]
        if label.purged_at is not None:
            _remove(tx, user, subdomain, label, hosts)
            return ["nameservers_removed"]
        _warn(tx, user, subdomain, label, hosts)
        return ["nameservers_told"]

    return change_each(tx, remaining, change)


def _remaining(tx: Tx, label: Subdomain, limit: int) -> list[Dependent]:
    if label.purged_at is not None:
        return delegation_store.list_dependents(tx, label.fqdn, limit) if label.released_at is None else []
    stage = stage_of(label, tx.now)
    return delegation_store.list_unwarned(tx, label.fqdn, *stage, limit) if stage is not None else []


def _warn(tx: Tx, user: User, subdomain: Subdomain, label: Subdomain, hosts: list[str]) -> None:
    stage = stage_of(label, tx.now)
    assert stage is not None  # noqa: S101 - without a stage no host remains
    number, since = stage
    delegation_store.mark_warned(tx, subdomain.id, label.fqdn, number, since)
    mail_id = None
    if user.reminders:
        subject, text = notice_mail(number, subdomain.fqdn, hosts, label, user.name)
        reference = f"nameserver_notice:{subdomain.id}:{subdomain.generation}:{label.id}:{number}:{since:%Y%m%dT%H%M%S.%fZ}"
        mail_id = enqueue(tx, user, reference=reference, subject=subject, text=text)
    after = {"nameservers": hosts, "below": label.fqdn, "stage": number, "mail_id": mail_id}
    audit.record(tx, SYSTEM, NOTICE, subdomain.id, after=after)


def _remove(tx: Tx, user: User, subdomain: Subdomain, label: Subdomain, hosts: list[str]) -> None:
    left = without_nameservers(subdomain.delegation, hosts)
    delegation_store.update_delegation(tx, subdomain, left)
    audit.record(
        tx,
        SYSTEM,
        REMOVAL,
        subdomain.id,
        before=store.delegation_columns(subdomain.delegation),
        after=store.delegation_columns(left),
    )
    if user.deleted_at is not None:
        return
    subject, text = removal_mail(subdomain.fqdn, hosts, len(left.nameservers), label.fqdn, user.name)
    reference = f"nameservers_removed:{subdomain.id}:{label.id}"
    enqueue(tx, user, reference=reference, subject=subject, text=text)
