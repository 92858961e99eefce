"""Offer a name to another person (POST /subdomains/{fqdn}/transfer; docs/spec-choices.md, "Transfers of
names").
"""

from sublet import audit
from sublet.accounts.fields import check_email
from sublet.accounts.membership_store import list_memberships
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, RateLimited, TransferPending, validation_failed
from sublet.limits import (
    MAILS_TO_ADDRESS,
    TRANSFER_MAILS_OF_USER_TO_ADDRESS,
    TRANSFER_MAILS_TO_ADDRESS,
    TRANSFERS_OF_USER,
)
from sublet.mail.letter import render
from sublet.mail.outbox import enqueue, enqueue_to, lock_and_count_mails
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.lifecycle import is_renewed_by_operator
from sublet.subdomains.model import Subdomain
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.end import end
from sublet.subdomains.transfers.find import Requester, lock_requester
from sublet.subdomains.transfers.model import EXPIRED, PENDING, VALID_FOR


def push(tx: Tx, actor: Actor, identifier: str, to: str | None, public_url: str) -> Outcome:
    """Offer a name to an e-mail address for seven days, and mail the sender and the address.

    The name moves when the recipient accepts. An offer to the user's own address, for another holder of the
    user, is not mailed: nothing changes before it is accepted, which both holders are told.

    Never looks for an account with the address, so that neither the response nor its duration reveals one.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
        Conflict: only the operator can move the name (mode `admin`).
        ValidationFailed: `to` is missing, is not an e-mail address, or is the address of the user, who is in
            no organization.
        TransferPending: the name has a pending transfer.
        RateLimited: the user started too many transfers within 24 hours.
    """
    requester = lock_requester(tx, actor)
    holder = requester.holder
    subdomain = find_in_account(tx, actor, identifier)
    # Transfers are allowed in the same states as delete.
    refuse_unless_allowed(subdomain, "delete", tx.now)
    if is_renewed_by_operator(subdomain):
        raise Conflict("Only the operator can move this name. Open a ticket to ask for the transfer.")
    email = _check_recipient(tx, requester, to)
    _end_expired_or_refuse_pending(tx, subdomain)
    _refuse_over_pushes_per_day(tx, holder)
    is_own = email == requester.person.email
    is_mailed = not is_own and _may_mail(tx, holder, email)
    expires_at = tx.now + VALID_FOR
    transfer_id = store.insert_transfer(
        tx,
        subdomain_id=subdomain.id,
        from_user_id=holder.id,
        recipient_email=email,
        is_mailed=is_mailed,
        expires_at=expires_at,
    )
    after = {"subdomain": subdomain.fqdn, "to": email, "expires_at": expires_at.isoformat()}
    audit.record(tx, actor, "name_transfer.push", transfer_id, after=after)
    if is_own:
        return Outcome(transfer_id)
    values = {
        "name": holder.name,
        "sender": "an organization" if holder.is_organization else f"the user {holder.email}",
        "recipient": email,
        "fqdn": subdomain.fqdn,
        "transfer_id": transfer_id,
        "until": f"{expires_at:%Y-%m-%d %H:%M} UTC",
        "public_url": public_url,
    }
    sent = render("transfer_sent", **values)
    enqueue(tx, holder, sent, reference=f"name_transfer:{transfer_id}:sent", page=f"/transfers/{transfer_id}")
    if is_mailed:
        offer = render("transfer_offer", **values)
        reference = f"name_transfer:{transfer_id}:offer"
        enqueue_to(tx, email, offer, reference=reference)
    return Outcome(transfer_id)


def _check_recipient(tx: Tx, requester: Requester, to: str | None) -> str:
    if to is None:
        sentence = "The recipient is missing. Give an e-mail address."
        raise validation_failed([FieldError("to", "required", sentence)])
    email, errors = check_email(to)
    if errors:
        raise validation_failed([FieldError("to", each.code, each.message) for each in errors])
    # Members of organizations may use their own address, to move names between the organizations and their
    # own account.
    is_own = email == requester.person.email and not requester.holder.is_organization
    if is_own and len(list_memberships(tx, requester.person.id, limit=2)) == 1:
        raise validation_failed(
            [FieldError("to", "value_invalid", "This is your own address. Give another address.")]
        )
    return email


def _end_expired_or_refuse_pending(tx: Tx, subdomain: Subdomain) -> None:
    for each in store.list_pending(tx, [subdomain.id]):
        if each.state_at(tx.now) == PENDING:
            raise TransferPending(
                f"This name is offered to {each.recipient_email} already. Wait for the answer, or withdraw "
                "the offer first.",
                details={"transfer_id": each.id},
            )
        end(tx, audit.SYSTEM, each, EXPIRED)


def _refuse_over_pushes_per_day(tx: Tx, user: User) -> None:
    limit = TRANSFERS_OF_USER
    times = store.list_transfer_start_times(tx, user.id, limit.since(tx.now))
    if len(times) >= limit.most:
        again_at = times[limit.most - 1] + limit.within
        raise RateLimited(
            f"You started {limit.most} transfers within 24 hours. Try again after "
            f"{again_at:%Y-%m-%d %H:%M} UTC.",
            retry_after_seconds=max(1, int((again_at - tx.now).total_seconds()) + 1),
        )


def _may_mail(tx: Tx, user: User, email: str) -> bool:
    """True if the limits allow a mail to the address.

    Otherwise only GET /transfers shows the offer. The sender doesn't see the difference.
    """
    if lock_and_count_mails(tx, email) >= MAILS_TO_ADDRESS.most:
        return False
    limit = TRANSFER_MAILS_OF_USER_TO_ADDRESS
    if store.count_mailed(tx, email, limit.since(tx.now), from_user_id=user.id) >= limit.most:
        return False
    limit = TRANSFER_MAILS_TO_ADDRESS
    return store.count_mailed(tx, email, limit.since(tx.now)) < limit.most
