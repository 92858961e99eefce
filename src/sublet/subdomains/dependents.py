"""See to the names that depend on a label: a name in the trash, or purged from it, that their nameservers lie at or below.

While the label is in the trash their holders are told. Once it is purged the nameservers are removed, before the label is released and
another user could register it, as registries do with host objects (RFC 9874). Level-triggered, as the sweep is: what is left to do is
read from the index of nameservers (`delegation_store`), a bounded number of names in each step, and the label stays due until nothing is.
"""

from collections import Counter
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Seen:
    """What one step did with the dependents of a label: how many by kind, and those (by id) of which nothing could be done."""

    done: Counter[str]
    faults: tuple[tuple[int, Exception], ...]


def see_to_dependents(tx: Tx, label_id: int, limit: int) -> Seen | None:
    """Tell the holders of some names that depend on a label, or remove the nameservers; None if nothing is left to do.

    No name can get a nameserver below a label that is purged (`nameserver_labels.refuse_unregistered`), so what is removed stays so.
    """
    label = store.find_subdomain(tx, label_id)
    found = _left_to_do(tx, label, limit) if label is not None else []
    if label is None or not found:
        return None
    # All users first, then the names, each in their one order.
    users = account_store.lock_users(tx, {each.user_id for each in found})
    store.lock_subdomains(tx, (each.id for each in found))
    done: Counter[str] = Counter()
    faults: list[tuple[int, Exception]] = []
    for each in found:
        try:
            with tx.savepoint():
                done[_see_to(tx, users[each.user_id], find_for_operator(tx, str(each.id)), label)] += 1
        except Exception as error:
            if is_lost(error):
                raise
            faults.append((each.id, error))
    return Seen(done, tuple(faults))


def _left_to_do(tx: Tx, label: Subdomain, limit: int) -> list[Dependent]:
    if label.purged_at is not None:
        return delegation_store.list_dependents(tx, label.fqdn, limit) if label.released_at is None else []
    stage = stage_of(label, tx.now)
    return delegation_store.list_untold(tx, label.fqdn, *stage, limit) if stage is not None else []


def _see_to(tx: Tx, user: User, subdomain: Subdomain, label: Subdomain) -> str:
    hosts = [host for host in subdomain.delegation.nameservers if is_at_or_below(host, label.fqdn)]
    if label.purged_at is not None:
        _remove(tx, user, subdomain, label, hosts)
        return "nameservers_removed"
    _tell(tx, user, subdomain, label, hosts)
    return "nameservers_told"


def _tell(tx: Tx, user: User, subdomain: Subdomain, label: Subdomain, hosts: list[str]) -> None:
    stage = stage_of(label, tx.now)
    assert stage is not None  # noqa: S101 - else nothing was left to do
    number, since = stage
    delegation_store.mark_told(tx, subdomain.id, label.fqdn, number, since)
    mail_id = None
    if user.reminders:
        subject, text = notice_mail(number, subdomain.fqdn, hosts, label, user.name)
        reference = f"nameserver_notice:{subdomain.id}:{subdomain.generation}:{label.id}:{number}:{since:%Y%m%dT%H%M%S.%fZ}"
        mail_id = enqueue(tx, user, reference=reference, subject=subject, text=text)
    after = {"nameservers": hosts, "below": label.fqdn, "stage": number, "mail_id": mail_id}
    audit.record(tx, SYSTEM, NOTICE, "subdomain", subdomain.id, after=after)


def _remove(tx: Tx, user: User, subdomain: Subdomain, label: Subdomain, hosts: list[str]) -> None:
    left = without_nameservers(subdomain.delegation, hosts)
    delegation_store.update_delegation(tx, subdomain, left)
    audit.record(
        tx,
        SYSTEM,
        REMOVAL,
        "subdomain",
        subdomain.id,
        before=store.delegation_columns(subdomain.delegation),
        after=store.delegation_columns(left),
    )
    subject, text = removal_mail(subdomain.fqdn, hosts, len(left.nameservers), label.fqdn, user.name)
    reference = f"nameservers_removed:{subdomain.id}:{label.id}"
    enqueue(tx, user, reference=reference, subject=subject, text=text)
