"""Move a name to another user (`sublet subdomain transfer`; docs/spec-choices.md, "Names from the operator")."""

from sublet import audit
from sublet.accounts.find import find_member, find_user, refuse_deleted, refuse_suspended_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.dates import day
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.mail.letter import Message, letter, name_page
from sublet.mail.outbox import enqueue
from sublet.subdomains import store
from sublet.subdomains.find import lock_for_operator, refuse_purged, reread
from sublet.subdomains.model import Subdomain
from sublet.subdomains.transfers.end import end_transfers_of_names


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
    """Move a name with its term, mode, delegation and history, and mail both users. The caller has locked both users.

    Automatic renewal and a pending transfer of the name end. Tickets, payments and mails stay with the former user. Not checked: the name's
    state, the free quota, look-alikes.
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
    store.update_subdomain(
        tx, subdomain.id, user_id=receiver.id, auto_renew_max_credits=None, auto_renew_tried_at=None
    )
    fqdn = subdomain.fqdn
    sentences = {
        former: f"The name {fqdn} was moved from your account to another account.",
        receiver: f"The name {fqdn} was moved to your account. It expires on {day(subdomain.expires_at)}.",
    }
    for user, sentence in sentences.items():
        # Users who turned off reminders get this mail too, because it is about the possession of a name.
        reference = f"transfer:{subdomain.id}:{former.id}:{receiver.id}:{tx.now:%Y%m%dT%H%M%S.%fZ}:{user.id}"
        text = letter(user.name, sentence, "If you did not expect this, open a ticket on the page Help.")
        page = name_page(fqdn) if user is receiver else "/tickets/new"
        enqueue(tx, user, Message(f"{fqdn} was transferred", text), reference=reference, page=page)
