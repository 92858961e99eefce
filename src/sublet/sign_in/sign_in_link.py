"""Make a link that signs a user in, as the operator (`sublet user sign-in-link`)."""

from dataclasses import dataclass
from datetime import datetime

from sublet import audit
from sublet.accounts.find import lock_user
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.secret import Secret
from sublet.sign_up import store
from sublet.sign_up.codes import OPERATOR_LINK, VALID_FOR, new_code
from sublet.sign_up.sign_up import SIGN_IN_PATH


@dataclass(frozen=True, slots=True)
class SignInLink:
    """A link that signs its user in, once and before it expires. The link is shown only once."""

    user: User
    link: Secret
    expires_at: datetime


def make_sign_in_link(tx: Tx, actor: Actor, identifier: str, public_url: str) -> SignInLink:
    """Return a new link for a user who can't sign in any more, valid for 15 minutes. When the link is used, the user gets a mail.

    The sign-in counts like a sign-in with a passkey, because the operator has verified the person.

    Raises:
        NotFound: no user has this address or id, or the user is deleted.
    """
    user = lock_user(tx, identifier)
    new = new_code()
    expires_at = tx.now + VALID_FOR[OPERATOR_LINK]
    store.insert_code(
        tx,
        new,
        purpose=OPERATOR_LINK,
        email=user.email,
        name=user.name,
        user_id=user.id,
        network="",
        is_proven=True,
        expires_at=expires_at,
    )
    audit.record(tx, actor, "user.make_sign_in_link", user.id, after={"expires_at": expires_at.isoformat()})
    link = f"{public_url}{SIGN_IN_PATH}?token={new.link_token.reveal()}"
    return SignInLink(user, Secret(link), expires_at)
