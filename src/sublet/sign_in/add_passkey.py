"""Add a passkey to the user's account (POST /passkeys/challenge, then POST /passkeys)."""

from collections.abc import Mapping
from typing import Any

from sublet import audit
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import User
from sublet.accounts.sessions import PASSKEY
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.mail.quote import quoted
from sublet.sign_in import store
from sublet.sign_in.model import Passkey, Site
from sublet.sign_in.notices import notify
from sublet.sign_in.passkeys import (
    PasskeyRefused,
    check_challenge,
    new_challenge,
    registration_options,
    registration_purpose,
    verify_registration,
)
from sublet.sign_up.store import find_signing_key, insert_solved_challenge

PASSKEYS_MAX = 20
CHALLENGE_SENTENCE = "This credential answers no valid challenge of this session. Get a new challenge from POST /passkeys/challenge."


def offer_passkey(tx: Tx, actor: Actor, site: Site) -> dict[str, Any]:
    """Return the WebAuthn registration options for this session's browser. Their challenge expires after five minutes.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the user has the maximum number of passkeys.
    """
    user = _checked_user(tx, actor)
    challenge = new_challenge(find_signing_key(tx), registration_purpose(actor.session_id or 0), tx.now)
    return registration_options(site, user, store.list_passkeys(tx, user.id), challenge)


def add_passkey(
    tx: Tx, actor: Actor, name: str | None, credential: Mapping[str, Any] | None, site: Site, public_url: str
) -> Passkey:
    """Add the passkey in an authenticator's answer, end a recovery of the user, mail the user, and return the passkey.

    The session then counts as signed in with a passkey, because the authenticator has verified the person. The time of its sign-in stays.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the user has the maximum number of passkeys.
        ValidationFailed: `name` or `credential` is missing or invalid; the challenge was used; or the passkey is stored already.
    """
    user = _checked_user(tx, actor)
    name, errors = check_text("name", name)
    if credential is None:
        errors = [
            *errors,
            FieldError("credential", "required", "Send the credential that the browser created."),
        ]
    if errors or credential is None:
        raise validation_failed(errors)
    try:
        purpose = registration_purpose(actor.session_id or 0)
        challenge = check_challenge(find_signing_key(tx), credential, purpose, tx.now)
        new = verify_registration(credential, site, challenge)
    except PasskeyRefused:
        raise _refusal(CHALLENGE_SENTENCE) from None
    if not insert_solved_challenge(tx, challenge.signature, challenge.expires_at):
        raise _refusal(CHALLENGE_SENTENCE)
    try:
        passkey = store.insert_passkey(
            tx,
            user.id,
            name=name,
            credential_id=new.credential_id,
            public_key=new.public_key,
            sign_count=new.sign_count,
            transports=new.transports,
        )
    except store.PasskeyTaken:
        raise _refusal("This passkey is already stored. Create a new passkey.") from None
    store.delete_recovery(tx, user.id)
    store.set_sign_in_method(tx, actor.session_id or 0, PASSKEY)
    audit.record(tx, actor, "passkey.add", passkey.id, after={"user_id": user.id})
    notify(
        tx,
        user,
        "passkey_added",
        passkey.id,
        f"The passkey {quoted(name)} was added to your account.",
        public_url,
    )
    return passkey


def _checked_user(tx: Tx, actor: Actor) -> User:
    user = lock_acting_user(tx, actor)
    if store.count_passkeys(tx, user.id) >= PASSKEYS_MAX:
        raise Conflict(
            f"You have {PASSKEYS_MAX} passkeys, which is the maximum. Delete a passkey that you don't need."
        )
    return user


def _refusal(sentence: str) -> Exception:
    return validation_failed([FieldError("credential", "value_invalid", sentence)])
