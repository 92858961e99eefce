"""Mail sign-in codes (POST /auth/sessions; docs/spec-choices.md, "Signing in"), and make sign-in links as the
operator.
"""

from datetime import datetime

from msgspec import Struct

from sublet import audit
from sublet.accounts.fields import check_email
from sublet.accounts.find import lock_user, refuse_account
from sublet.accounts.model import User
from sublet.accounts.store import find_user_by_email
from sublet.audit import Actor
from sublet.db import LockedKind, Tx, lock_text
from sublet.errors import validation_failed
from sublet.limits import SIGN_IN_CODES_OF_NETWORK, SIGN_IN_MAILS_TO_ADDRESS
from sublet.mail.letter import render
from sublet.mail.model import SIGN_IN_PATH
from sublet.mail.outbox import lock_and_count_mails
from sublet.secret import Secret
from sublet.sign_up import store
from sublet.sign_up.codes import OPERATOR_LINK, SIGN_IN, VALID_FOR, new_code
from sublet.sign_up.mailed_codes import mail_code, may_mail_code, takes_only_links


def request_code(tx: Tx, email: str, network: str, public_url: str) -> None:
    """Mail a sign-in code to an address.

    If the address has no account, the mail says so, after the same SQL statements.

    If the address got a code within the last minute, or the maximum within an hour, the function silently
    mails nothing: an error would reveal that another person has requested codes for the address. Suspended
    users get codes. `network` is the client's network; empty means no limit.

    Raises, in this order:
        ValidationFailed: the address is invalid.
        RateLimited: this network has requested too many codes.
    """
    email, errors = check_email(email)
    if errors:
        raise validation_failed(errors)
    count = lock_and_count_mails(tx, email)
    _limit_network(tx, network)
    if not may_mail_code(tx, email, network, (SIGN_IN,), count, SIGN_IN_MAILS_TO_ADDRESS):
        return
    user, new = find_user_by_email(tx, email), new_code()
    name = user.name if user else ""
    message = render(
        "sign_in" if user else "unknown_address",
        name=name,
        code="" if takes_only_links(tx, email, (SIGN_IN,)) else new.code.reveal(),
        link=new.link(public_url, SIGN_IN_PATH) if user else f"{public_url}/signin",
        public_url=public_url,
    )
    user_id = user.id if user else None
    mail_code(tx, new, SIGN_IN, email, message, name=name, user_id=user_id, network=network)


def _limit_network(tx: Tx, network: str) -> None:
    if not network:
        return
    lock_text(tx, LockedKind.NETWORK, network)
    limit = SIGN_IN_CODES_OF_NETWORK
    count, _ = store.count_of_network(tx, network, (SIGN_IN,), limit.since(tx.now))
    if count >= limit.most:
        raise limit.refusal(
            f"Your network asked for more than {limit.most} sign-in codes within an hour. Wait an hour, or "
            "sign in with a passkey."
        )


class SignInLink(Struct, frozen=True):
    """A link that signs its user in, once and before it expires. The link is shown only once."""

    user: User
    link: Secret
    expires_at: datetime


def make_sign_in_link(tx: Tx, actor: Actor, identifier: str, public_url: str) -> SignInLink:
    """Return a new link for a user who can't sign in any more, valid for 15 minutes.

    When the link is used, the user gets a mail.

    The sign-in counts like a sign-in with a passkey, because the operator has verified the person.

    Raises, in this order:
        NotFound: no user has this address or id, or the user is deleted.
        Conflict: the user is the account of an organization.
    """
    user = lock_user(tx, identifier)
    refuse_account(user)
    new = new_code()
    expires_at = tx.now + VALID_FOR[OPERATOR_LINK]
    store.insert_code(tx, new, OPERATOR_LINK, user.email, name=user.name, user_id=user.id)
    audit.record(tx, actor, "user.make_sign_in_link", user.id, after={"expires_at": expires_at.isoformat()})
    return SignInLink(user, Secret(new.link(public_url, SIGN_IN_PATH)), expires_at)
