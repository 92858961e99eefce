"""Identify a person by a mailed code or link, or by a passkey.

Only an `IdentifiedUser` from this file gets a session.

A function for another sign-in method, such as OIDC, belongs here too.
"""

from collections.abc import Mapping
from typing import Any

from sublet.accounts.sessions import MAIL, OPERATOR, PASSKEY
from sublet.accounts.store import find_user, lock_user
from sublet.db import Tx
from sublet.errors import FieldError, validation_failed
from sublet.sign_in import store
from sublet.sign_in.model import IdentifiedUser, Site
from sublet.sign_in.webauthn_answers import (
    SIGN_IN_CHALLENGE,
    PasskeyRefused,
    check_challenge,
    credential_id_of,
    user_handle,
    verify_use,
)
from sublet.sign_up import store as code_store
from sublet.sign_up.codes import OPERATOR_LINK, SIGN_IN, MailedCode
from sublet.sign_up.mailed_codes import use_code, use_link

PASSKEY_SENTENCE = (
    "This passkey was refused: it was removed, or its answer is wrong or too old. Try again, or sign in by "
    "mail."
)


def identify_by_code(
    tx: Tx, *, email: str = "", code: str = "", link_token: str = ""
) -> IdentifiedUser | None:
    """Lock and return the user of a mailed code or link, and mark the code as used.

    Give either the address and the code, or `link_token`.

    Return None if the code is wrong, void, used or expired, or the user was deleted or has changed the
    address. The caller refuses after the commit, so that the wrong attempt counts.
    """
    if link_token:
        return _user_of(tx, use_link(tx, link_token, (SIGN_IN, OPERATOR_LINK)))
    return _user_of(tx, use_code(tx, email, code, (SIGN_IN,)))


def _user_of(tx: Tx, found: MailedCode | None) -> IdentifiedUser | None:
    user = find_user(tx, found.user_id) if found is not None and found.user_id is not None else None
    if found is None or user is None or user.deleted_at is not None or user.email != found.email:
        return None
    return IdentifiedUser(user, OPERATOR if found.purpose == OPERATOR_LINK else MAIL)


def identify_by_passkey(tx: Tx, credential: Mapping[str, Any], site: Site) -> IdentifiedUser | None:
    """Lock and return the user of a passkey by the authenticator's answer, store the use, and end a recovery
    of the user.

    Return None if the challenge isn't from this service, has expired or was used; the passkey isn't stored,
    or belongs to another user than the authenticator says; the origin, host or signature is wrong; the person
    was not verified; or the authenticator has counted fewer uses than before, so that it may be a copy. The
    caller then refuses.
    """
    key = code_store.find_signing_key(tx)
    try:
        challenge = check_challenge(key, credential, SIGN_IN_CHALLENGE, tx.now)
        seen = store.find_by_credential_id(tx, credential_id_of(credential))
        user = lock_user(tx, seen.user_id) if seen is not None else None
        passkey = store.lock_passkey(tx, seen.id) if seen is not None else None
        if passkey is None or user is None:
            return None
        sign_count = verify_use(credential, passkey, user_handle(passkey.user_id), site, challenge)
    except PasskeyRefused:
        return None
    if not code_store.insert_solved_challenge(tx, challenge.signature, challenge.expires_at):
        return None
    store.update_passkey_use(tx, passkey.id, sign_count)
    store.delete_recovery(tx, passkey.user_id)
    return IdentifiedUser(user, PASSKEY) if user.deleted_at is None else None


def passkey_refusal() -> Exception:
    """Return the error for a refused passkey, the same for every reason."""
    return validation_failed([FieldError("credential", "value_invalid", PASSKEY_SENTENCE)])
