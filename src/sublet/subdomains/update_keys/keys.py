"""Update keys of a name: create, list and revoke them, and derive their secrets (docs/certificates.md).

An update key is a token that is limited to the records of one name. So roles, expiry, revocation, the end of
memberships and the audit are those of tokens. As a bearer token it is useless, because its secret was never
shown: the secret of TSIG is derived from the key's name and a secret of the service that isn't in the
database.
"""

import base64
import hashlib
import hmac
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from sublet.accounts import store as account_store
from sublet.accounts.find import lock_acting_user
from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import revoke
from sublet.accounts.tokens.tokens import (
    OWN_LIFE_MAX,
    create_token,
    find_acting_credential,
    find_own_token,
    list_own_tokens,
)
from sublet.audit import Actor
from sublet.config import SettingsError
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import Conflict, TokenNotFound
from sublet.organizations.notices import notify_of_token
from sublet.secret import Secret
from sublet.subdomains.find import find_in_account
from sublet.subdomains.records.change import refuse_delegated

ALGORITHM: Final = "hmac-sha256"
SECRET_OCTETS_MIN: Final = 32
_KEY_NAME: Final = re.compile(r"key([1-9][0-9]{0,17})\.(.+)")


def read_server_secret(path: str) -> Secret | None:
    """Return the secret in the file of the setting `update_key_file`; None if the setting is empty.

    Raises:
        SettingsError: the file can't be read, or has fewer than `SECRET_OCTETS_MIN` octets.
    """
    if not path:
        return None
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't ASCII"
        raise SettingsError(
            f"update_key_file: can't be read: {reason}. Check the path and its permissions."
        ) from error
    if len(text) < SECRET_OCTETS_MIN:
        raise SettingsError(
            f"update_key_file: has {len(text)} characters. Give a random secret of at least "
            f"{SECRET_OCTETS_MIN}, as from `openssl rand -hex 32`."
        )
    return Secret(text)


def key_name(token: Token) -> str:
    """Return the name of an update key in TSIG."""
    assert token.names is not None  # noqa: S101 - an update key is for one name
    return f"key{token.id}.{token.names[0]}"


def parse_key_name(text: str) -> int | None:
    """Return the token's id in a key's name in lower case without the final dot, or None."""
    found = _KEY_NAME.fullmatch(text)
    return int(found[1]) if found else None


def derive_secret(server_secret: Secret, name: str) -> bytes:
    """Return the secret of the key with this name.

    Without `server_secret` it can't be found, so a dump of the database has no secret.
    """
    return hmac.digest(server_secret.reveal().encode(), f"update-key {name}".encode(), hashlib.sha256)


def shown_secret(server_secret: Secret, token: Token) -> str:
    """Return the secret of a key as configurations have it, in base64."""
    return base64.b64encode(derive_secret(server_secret, key_name(token))).decode()


def create_update_key(
    tx: Tx,
    actor: Actor,
    identifier: str,
    name: str | None,
    record_names: tuple[str, ...] | None,
    expires_at: datetime | None,
    *,
    is_accepted: bool,
    public_url: str,
) -> Outcome:
    """Create an update key of a name, which may do no more than the token or session of the request, and mail
    the user.

    `is_accepted` says whether the service accepts DNS UPDATE. Without `name` it is named after the fqdn.
    `record_names` None means all owners that the request may change. Without `expires_at` it lives as long as
    the request's token, and at most a year.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        Conflict: the service doesn't accept DNS UPDATE.
        DelegationExists: the name has nameservers, so no key could change its records.
        TokenRevoked, TokenExpired, SessionInvalid, ValidationFailed, Conflict: raised by `create_token`.
    """
    lock_acting_user(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    if not is_accepted:
        raise Conflict(
            "This service doesn't accept DNS UPDATE. Change the records in another way, or ask the "
            "operator for it."
        )
    refuse_delegated(subdomain)
    life_ends_at = actor.restrictions.expires_at or tx.now + OWN_LIFE_MAX
    wanted = {
        "scopes": ("records:write",),
        "names": (subdomain.fqdn,),
        "expires_at": expires_at or min(life_ends_at, tx.now + OWN_LIFE_MAX),
    }
    if record_names is not None:
        wanted["record_names"] = record_names
    issued = create_token(
        tx, actor, name or f"DNS UPDATE of {subdomain.fqdn}"[:200], wanted, is_update_key=True
    )
    notify_of_token(tx, issued.user, issued.token, "was created", public_url)
    return Outcome(issued.token.id)


def list_update_keys(tx: Tx, actor: Actor, identifier: str) -> list[Token]:
    """Return the valid update keys of a name, the newest first.

    A key that may do more than the token or session of the request is left out.

    Raises:
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
    """
    subdomain = find_in_account(tx, actor, identifier)
    found = list_own_tokens(tx, find_acting_credential(tx, actor), None)
    return [each for each in found if _is_key_of(each, subdomain.fqdn) and is_valid(each, tx.now)]


def revoke_update_key(tx: Tx, actor: Actor, identifier: str, key_id: str) -> Outcome:
    """Revoke an update key of a name permanently, starting with the next message.

    Revoking it again changes nothing.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        TokenRevoked, TokenExpired, SessionInvalid: the request's own token or session ended after it was
            authenticated.
        TokenNotFound: the name has no such key, or the key may do more than the token of the request.
    """
    lock_acting_user(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    token = find_own_token(tx, find_acting_credential(tx, actor), key_id)
    if not _is_key_of(token, subdomain.fqdn):
        raise TokenNotFound(f"{subdomain.fqdn} has no such update key. Check its id in the list of keys.")
    if token.revoked_at is None:
        revoke(tx, actor, token)
    return Outcome(token.id)


def find_update_key(tx: Tx, token_id: int) -> Token | None:
    """Return the update key with this id, or None."""
    found = account_store.find_token(tx, token_id)
    return found if found is not None and found.is_update_key else None


def is_valid(token: Token, now: datetime) -> bool:
    """True if a token is neither revoked nor expired."""
    return token.revoked_at is None and (token.expires_at is None or token.expires_at > now)


def _is_key_of(token: Token, fqdn: str) -> bool:
    return token.is_update_key and token.names == (fqdn,)
