"""Accept the transfer of a name (POST /transfers/{id}/accept; docs/spec-choices.md, "Transfers of names")."""

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.look_alikes import skeleton
from sublet.dns.names import is_idn
from sublet.errors import Conflict, PlatformDomainNotFound
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.labels import classify
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.visibility import is_visible
from sublet.subdomains import store as subdomain_store
from sublet.subdomains.availability import unavailable
from sublet.subdomains.model import Subdomain
from sublet.subdomains.quota import refuse_over_quota
from sublet.subdomains.transfer import move_to_user
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.find import (
    find_received,
    just_ended,
    lock_requester_and_sender,
    not_found,
    refuse_ended,
)
from sublet.subdomains.transfers.model import ACCEPTED


def accept(tx: Tx, actor: Actor, identifier: str, *, free_quota: int) -> Outcome:
    """Move the name of a pending transfer, with its delegation and term, to the user or to the organization that the token is for.

    Automatic renewal ends. The sender and the receiver get a mail. `free_quota` applies to users without their own quota.

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
    transfer = find_received(tx, actor, requester, identifier)
    if sender is None:
        # The transfer was inserted after `lock_requester_and_sender` looked for it, so its sender isn't locked.
        raise not_found()
    refuse_ended(tx, transfer)
    if sender.id == receiver.id:
        raise Conflict(
            "You hold this name already. To move it to an organization, use a token for the organization."
        )
    if sender.suspended_at is not None:
        raise Conflict(
            "The sender's account is suspended, so the name can't be moved. Try again after the suspension ends."
        )
    subdomain = subdomain_store.find_subdomain(tx, transfer.subdomain_id)
    assert subdomain is not None  # noqa: S101 - rows are never deleted
    _refuse_unregistrable(tx, receiver, subdomain)
    refuse_over_quota(tx, receiver, subdomain.registration_type, free_quota)
    if not store.end(tx, transfer.id, ACCEPTED, receiver.id):
        raise just_ended()
    before, after = {"user_id": sender.id}, {"subdomain": subdomain.fqdn, "user_id": receiver.id}
    audit.record(tx, actor, "name_transfer.accept", transfer.id, before=before, after=after)
    move_to_user(tx, actor, subdomain, sender, receiver)
    return Outcome(transfer.id)


def _refuse_unregistrable(tx: Tx, user: User, subdomain: Subdomain) -> None:
    """Raise if the user can't see the platform domain, may not use the label, or another user's name looks like this name."""
    platform_domain = platform_domain_store.find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    granted = platform_domain_store.granted_platform_domain_ids(tx, user.organization_id)
    if not is_visible(platform_domain, granted):
        raise PlatformDomainNotFound(
            f"The platform domain {platform_domain.domain} is not open to your organization. Ask the operator."
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
