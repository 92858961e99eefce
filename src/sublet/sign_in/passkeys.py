"""Add and remove passkeys, and start a recovery without them (/passkeys;
docs/spec-choices.md, "Signing in").
"""

from collections.abc import Mapping
from typing import Any

from sublet import audit
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_acting_user, lock_requesting_user
from sublet.accounts.model import Recovery, User
from sublet.accounts.sessions import PASSKEY, RECOVERY_WAIT, RECOVERY_WINDOW
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, PasskeyNotFound, validation_failed
from sublet.ids import parse_id
from sublet.mail.letter import quoted
from sublet.sign_in import store
from sublet.sign_in.model import Passkey, Site
from sublet.sign_in.notices import notify
from sublet.sign_in.webauthn_answers import (
    PasskeyRefused,
    check_challenge,
    new_challenge,
    registration_options,
    registration_purpose,
    verify_registration,
)
from sublet.sign_up.store import find_signing_key, insert_solved_challenge

PASSKEYS_MAX = 20
CHALLENGE_SENTENCE = (
    "This credential answers no valid challenge of this session. Start again with a new challenge."
)


def offer_passkey(tx: Tx, actor: Actor, site: Site) -> dict[str, Any]:
    """Return the WebAuthn registration options for this session's browser.

    Their challenge expires after five minutes.

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
    """Add the passkey in an authenticator's answer, end a recovery of the user, mail the user, and return the
    passkey.

    The session then counts as signed in with a passkey, because the authenticator has verified the person.
    The time of its sign-in stays.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the user has the maximum number of passkeys.
        ValidationFailed: `name` or `credential` is missing or invalid; the challenge was used; or the passkey
            is stored already.
    """
    user = _checked_user(tx, actor)
    name, errors = check_text("name", name)
    if credential is None:
        errors = [
            *errors,
            FieldError("credential", "required", "Give the credential that the browser created."),
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


def remove_passkey(tx: Tx, actor: Actor, identifier: str, public_url: str) -> Passkey:
    """Remove the passkey with this id, mail the user, and return the passkey.

    Sessions that were signed in with the passkey stay valid.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        PasskeyNotFound: the user has no passkey with this id.
    """
    user = lock_acting_user(tx, actor)
    passkey_id = parse_id(identifier)
    passkey = store.find_passkey(tx, passkey_id) if passkey_id is not None else None
    if passkey is None or passkey.user_id != user.id:
        raise PasskeyNotFound("You have no such passkey. Check its id in the list of your passkeys.")
    store.delete_passkey(tx, passkey.id)
    audit.record(tx, actor, "passkey.remove", passkey.id, after={"user_id": user.id})
    sentence = f"The passkey {quoted(passkey.name)} was removed from your account."
    notify(tx, user, "passkey_removed", passkey.id, sentence, public_url)
    return passkey


def start_recovery(tx: Tx, actor: Actor, public_url: str) -> Recovery:
    """Start a recovery, and mail the user how to stop it.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        Conflict: the user has no passkeys, or already has a recovery.
    """
    user = lock_acting_user(tx, actor)
    present = store.find_recovery(tx, user.id)
    if present is not None and present.ends_at > tx.now:
        raise Conflict(
            f"A recovery has already started and will be ready at {present.ready_at:%Y-%m-%d %H:%M} UTC. "
            "Wait until then, or stop it."
        )
    if store.count_passkeys(tx, user.id) == 0:
        raise Conflict(
            "You have no passkeys, so a sign-in by mail is enough for everything. No action needed."
        )
    ready_at = tx.now + RECOVERY_WAIT
    recovery = Recovery(user.id, tx.now, ready_at, ready_at + RECOVERY_WINDOW)
    store.insert_recovery(tx, recovery)
    audit.record(tx, actor, "user.start_recovery", user.id, after={"ready_at": ready_at.isoformat()})
    sentence = (
        "A browser that is signed in to your account started a recovery, because the passkeys are lost. "
        f"From {ready_at:%Y-%m-%d %H:%M} UTC, a sign-in by mail is enough to remove the passkeys. To stop "
        "the recovery, sign in with a passkey."
    )
    notify(tx, user, "recovery_started", user.id, sentence, public_url)
    return recovery


def stop_recovery(tx: Tx, actor: Actor, public_url: str) -> None:
    """Stop the user's recovery, and mail the user. Suspended users may stop it too.

    Raises:
        Conflict: the user has no recovery.
    """
    user = lock_requesting_user(tx, actor)
    if not store.delete_recovery(tx, user.id):
        raise Conflict("There is no recovery to stop. No action needed.")
    audit.record(tx, actor, "user.stop_recovery", user.id)
    notify(tx, user, "recovery_stopped", user.id, "The recovery of your account was stopped.", public_url)
