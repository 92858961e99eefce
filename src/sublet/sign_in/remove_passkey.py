"""Remove a passkey from the user's account (DELETE /passkeys/{id})."""

from sublet import audit
from sublet.accounts.find import lock_acting_user
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import PasskeyNotFound
from sublet.ids import parse_id
from sublet.mail.quote import quoted
from sublet.sign_in import store
from sublet.sign_in.model import Passkey
from sublet.sign_in.notices import notify


def remove_passkey(tx: Tx, actor: Actor, identifier: str, public_url: str) -> Passkey:
    """Remove the passkey with this id, mail the user, and return the passkey. Sessions that were signed in with the passkey stay valid.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        PasskeyNotFound: the user has no passkey with this id.
    """
    user = lock_acting_user(tx, actor)
    passkey_id = parse_id(identifier)
    passkey = store.find_passkey(tx, passkey_id) if passkey_id is not None else None
    if passkey is None or passkey.user_id != user.id:
        raise PasskeyNotFound("You have no such passkey. Check the id; GET /passkeys lists yours.")
    store.delete_passkey(tx, passkey.id)
    audit.record(tx, actor, "passkey.remove", passkey.id, after={"user_id": user.id})
    sentence = f"The passkey {quoted(passkey.name)} was removed from your account."
    notify(tx, user, "passkey_removed", passkey.id, sentence, public_url)
    return passkey
