"""Warn the holders of names with nameservers at or below a name in the trash, and remove these nameservers
after the purge.

The name in the trash is the enclosing name. Its dependents are the names with nameservers at or below it.
Before the purge of the enclosing name, the sweep warns the dependents' holders. After the purge the sweep
removes these nameservers, and only then releases the enclosing name, as registries do with host objects (RFC
9874).

Level-triggered, like the sweep: each call handles a limited number of the dependents that remain in the
nameserver index (`delegation_store`). The enclosing name stays due until none remains.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.db import Tx, ends_transaction
from sublet.dns.delegation import without_nameservers
from sublet.dns.names import is_at_or_below
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.subdomains import delegation_store, store
from sublet.subdomains.delegation_changes import ENDING, NOTICE, REMOVAL, warning_stage
from sublet.subdomains.delegation_store import Dependent
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.lifecycle import restorable_until
from sublet.subdomains.model import Subdomain


class NameWithUser(Protocol):
    """The ids of a name and of its user."""

    @property
    def id(self) -> int: ...  # noqa: D102
    @property
    def user_id(self) -> int: ...  # noqa: D102


class ChangeResult(Struct, frozen=True):
    """The outcome of `change_each`: the number of changes by kind, and the id and
    error of each failed name.
    """

    done: Counter[str]
    faults: tuple[tuple[int, Exception], ...]


def change_each(
    tx: Tx, names: Sequence[NameWithUser], change: Callable[[Tx, User, Subdomain], Iterable[str]]
) -> ChangeResult:
    """Call `change` for each of these names under a savepoint, so that a name that fails doesn't stop the
    others.

    `change` gets the stored user and name, and returns the kinds of changes that it made.
    """
    # Lock order of all transactions that change several names: users by id, then names by id.
    users = account_store.lock_users(tx, {each.user_id for each in names})
    store.lock_subdomains(tx, (each.id for each in names))
    done: Counter[str] = Counter()
    faults: list[tuple[int, Exception]] = []
    for each in names:
        try:
            with tx.savepoint():
                subdomain = find_for_operator(tx, str(each.id))
                # A name that was transferred before the lock stays due, because its new user isn't locked.
                if subdomain.user_id == each.user_id:
                    done.update(change(tx, users[each.user_id], subdomain))
        except Exception as error:
            if ends_transaction(error):
                raise
            faults.append((each.id, error))
    return ChangeResult(done, tuple(faults))


def handle_dependents(tx: Tx, enclosing_id: int, limit: int) -> ChangeResult | None:
    """Warn the holders of up to `limit` dependents of a name, or remove the dependents' nameservers.

    Return None if no dependents remain.

    `nameservers.refuse_unregistered` refuses nameservers below a purged name, so removed nameservers stay
    removed.
    """
    enclosing = store.find_subdomain(tx, enclosing_id)
    dependents = _list_dependents(tx, enclosing, limit) if enclosing is not None else []
    if enclosing is None or not dependents:
        return None

    def change(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
        hosts = [host for host in subdomain.delegation.nameservers if is_at_or_below(host, enclosing.fqdn)]
        if enclosing.purged_at is not None:
            _remove(tx, user, subdomain, enclosing, hosts)
            return ["nameservers_removed"]
        _warn(tx, user, subdomain, enclosing, hosts)
        return ["nameservers_told"]

    return change_each(tx, dependents, change)


def _list_dependents(tx: Tx, enclosing: Subdomain, limit: int) -> list[Dependent]:
    if enclosing.purged_at is not None:
        return (
            delegation_store.list_dependents(tx, enclosing.fqdn, limit)
            if enclosing.released_at is None
            else []
        )
    stage = warning_stage(enclosing, tx.now)
    return delegation_store.list_unwarned(tx, enclosing.fqdn, *stage, limit) if stage is not None else []


def _warn(tx: Tx, user: User, subdomain: Subdomain, enclosing: Subdomain, hosts: list[str]) -> None:
    stage = warning_stage(enclosing, tx.now)
    assert stage is not None  # noqa: S101 - `_list_dependents` returns no names if there is no stage
    number, since = stage
    delegation_store.mark_warned(tx, subdomain.id, enclosing.fqdn, number, since)
    mail_id = None
    if user.reminders:
        message = render(
            "nameservers_in_trash",
            name=user.name,
            fqdn=subdomain.fqdn,
            hosts=hosts,
            enclosing=enclosing.fqdn,
            ends_soon=number == ENDING,
            restorable_until=restorable_until(enclosing),
        )
        moment = f"{since:%Y%m%dT%H%M%S.%fZ}"
        reference = (
            f"nameserver_notice:{subdomain.id}:{subdomain.generation}:{enclosing.id}:{number}:{moment}"
        )
        mail_id = enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
    after = {"nameservers": hosts, "below": enclosing.fqdn, "stage": number, "mail_id": mail_id}
    audit.record(tx, SYSTEM, NOTICE, subdomain.id, after=after)


def _remove(tx: Tx, user: User, subdomain: Subdomain, enclosing: Subdomain, hosts: list[str]) -> None:
    remaining = without_nameservers(subdomain.delegation, hosts)
    delegation_store.update_delegation(tx, subdomain, remaining)
    audit.record(
        tx,
        SYSTEM,
        REMOVAL,
        subdomain.id,
        before=store.delegation_columns(subdomain.delegation),
        after=store.delegation_columns(remaining),
    )
    if user.deleted_at is not None:
        return
    message = render(
        "nameservers_removed",
        name=user.name,
        fqdn=subdomain.fqdn,
        hosts=hosts,
        enclosing=enclosing.fqdn,
        remaining_count=len(remaining.nameservers),
    )
    reference = f"nameservers_removed:{subdomain.id}:{enclosing.id}"
    enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
