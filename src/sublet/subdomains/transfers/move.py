"""Move a name to another user: an accepted transfer, or the operator's `sublet subdomain transfer`
(docs/spec-choices.md, "Transfers of names", "Names from the operator").
"""

from sublet import audit
from sublet.accounts.find import find_member, find_user, refuse_deleted, refuse_suspended_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.look_alikes import skeleton
from sublet.dns.names import is_idn
from sublet.errors import Conflict, PlatformDomainNotFound
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.labels import classify
from sublet.platform_domains.model import PlatformDomain, is_visible
from sublet.subdomains import store as subdomain_store
from sublet.subdomains.availability import unavailable
from sublet.subdomains.find import lock_for_operator, refuse_purged, reread
from sublet.subdomains.model import Subdomain
from sublet.subdomains.quota import refuse_over_quota
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.end import end_transfers_of_names
from sublet.subdomains.transfers.find import (
    find_own_transfer,
    just_ended,
    lock_requester_and_sender,
    not_found,
    refuse_ended,
)
from sublet.subdomains.transfers.model import ACCEPTED


def transfer(tx: Tx, actor: Actor, identifier: str, to: str) -> Subdomain:
    """Move a live name to another user at once, without a check of that user's free quota.

    Raises, in this order:
        NotFound: there is no such user; there is no such name.
        Conflict: the name was purged, is in the trash, or is suspended; the user holds the name already.
        NotFound: the user is deleted.
        Conflict: the user is suspended.
    """
    receiver_id = find_user(tx, to).id
    subdomain = lock_for_operator(tx, identifier, [receiver_id])
    refuse_purged(subdomain)
    fqdn = subdomain.fqdn
    if subdomain.trashed_at is not None:
        raise Conflict(f"{fqdn} is in the trash. Restore it first with `sublet subdomain restore {fqdn}`.")
    if subdomain.suspended_at is not None:
        raise Conflict(f"{fqdn} is suspended. Unsuspend it first with `sublet subdomain unsuspend {fqdn}`.")
    former, receiver = find_member(tx, subdomain.user_id).user, find_member(tx, receiver_id).user
    if former.id == receiver.id:
        raise Conflict(f"{receiver.email} holds {fqdn} already. No action needed.")
    refuse_deleted(receiver)
    refuse_suspended_holder(receiver)
    move_to_user(tx, actor, subdomain, former, receiver)
    return reread(tx, subdomain)


def move_to_user(tx: Tx, actor: Actor, subdomain: Subdomain, former: User, receiver: User) -> None:
    """Move a name with its term, mode, delegation and history, and mail both users.

    The caller has locked both users.

    Automatic renewal and a pending transfer of the name end. Tickets, payments and mails stay with the former
    user. Not checked: the name's state, the free quota, look-alikes.
    """
    end_transfers_of_names(tx, actor, [subdomain.id])
    # Record the event before the change, so that the former user sees it in their activity.
    audit.record(
        tx,
        actor,
        "subdomain.transfer",
        subdomain.id,
        before={"user_id": former.id, "auto_renew_max_credits": subdomain.auto_renew_max_credits},
        after={"user_id": receiver.id, "auto_renew_max_credits": None},
    )
    subdomain_store.update_subdomain(
        tx, subdomain.id, user_id=receiver.id, auto_renew_max_credits=None, auto_renew_tried_at=None
    )
    if actor.user_id != receiver.id:
        # The activity has a user's own actions, and those of others on the user's names. At the event above,
        # the name wasn't yet the receiver's.
        audit.record(tx, actor, "subdomain.receive", subdomain.id)
    fqdn = subdomain.fqdn
    for user in (former, receiver):
        # Users who turned off reminders get this mail too, because it is about the possession of a name.
        reference = f"transfer:{subdomain.id}:{former.id}:{receiver.id}:{tx.now:%Y%m%dT%H%M%S.%fZ}:{user.id}"
        message = render(
            "name_transferred",
            name=user.name,
            fqdn=fqdn,
            is_receiver=user is receiver,
            organization=user.name if user.is_organization else "",
            expires_at=subdomain.expires_at,
        )
        page = name_page(fqdn) if user is receiver else "/tickets/new"
        enqueue(tx, user, message, reference=reference, page=page)


def accept(tx: Tx, actor: Actor, identifier: str, *, free_quota: int) -> Outcome:
    """Move the name of a pending transfer, with its delegation and term, to the user or to the organization
    that the token is for.

    Automatic renewal ends. The sender and the receiver get a mail. `free_quota` applies to users without
    their own quota.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        TransferNotFound: no such transfer is addressed to the user, or the token is not for its name.
        Conflict: the transfer is not pending; the receiver holds the name already; the sender is suspended.
        PlatformDomainNotFound: the receiver can't see the platform domain.
        SubdomainUnavailable: the receiver may not use the label; the name looks like another user's name.
        FreeQuotaExceeded: the name is free, and the receiver's free quota is used up.

    Not checked: whether the platform domain accepts registrations; names that depend on this name.
    """
    requester, sender = lock_requester_and_sender(tx, actor, identifier)
    receiver = requester.holder
    transfer = find_own_transfer(tx, actor, requester, identifier, direction="received")
    if sender is None:
        # The transfer was inserted after `lock_requester_and_sender` looked for it, so its sender isn't
        # locked.
        raise not_found()
    refuse_ended(tx, transfer)
    if sender.id == receiver.id:
        raise Conflict(
            "You hold this name already. To move it to an organization, use a token for the organization."
        )
    if sender.suspended_at is not None:
        raise Conflict(
            "The sender's account is suspended, so the name can't be moved. Try again after the suspension "
            "ends."
        )
    subdomain = subdomain_store.find_subdomain(tx, transfer.subdomain_id)
    assert subdomain is not None  # noqa: S101 - rows are never deleted
    _refuse_unregistrable(tx, receiver, subdomain)
    instead = "choose another holder"
    refuse_over_quota(tx, receiver, subdomain.registration_type, free_quota, instead)
    if not store.end(tx, transfer.id, ACCEPTED, receiver.id):
        raise just_ended()
    before, after = {"user_id": sender.id}, {"subdomain": subdomain.fqdn, "user_id": receiver.id}
    audit.record(tx, actor, "name_transfer.accept", transfer.id, before=before, after=after)
    move_to_user(tx, actor, subdomain, sender, receiver)
    return Outcome(transfer.id)


def _refuse_unregistrable(tx: Tx, user: User, subdomain: Subdomain) -> None:
    """Raise if the user can't see the platform domain, may not use the label, or another user's name looks
    like this name.
    """
    platform_domain = platform_domain_store.find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    granted = platform_domain_store.granted_platform_domain_ids(tx, user.organization_id)
    if not is_visible(platform_domain, granted):
        raise PlatformDomainNotFound(
            f"The platform domain {platform_domain.domain} is not open to your organization. Ask the "
            "operator."
        )
    rules = platform_domain_store.find_label_rules(tx, platform_domain.id, subdomain.label)
    label_class = classify(
        subdomain.label, platform_domain, rules.listed, user.organization_id, rules.patterns
    )
    if label_class in ("reserved", "blocked"):
        raise unavailable("reserved", owned=False)
    if platform_domain.look_alike_check and rules.listed is None:
        _refuse_look_alike(tx, user, platform_domain, subdomain)


def _refuse_look_alike(tx: Tx, user: User, platform_domain: PlatformDomain, subdomain: Subdomain) -> None:
    """Raise if another user holds a name that looks like this name, and one of the two names is an IDN."""
    looks = skeleton(subdomain.label)
    others = subdomain_store.list_look_alikes(tx, platform_domain, looks, user.id, subdomain.id)
    if others and (is_idn(subdomain.label) or any(is_idn(label) for label in others)):
        raise unavailable("look_alike", owned=False)
