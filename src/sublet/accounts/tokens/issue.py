"""Tokens: their format and validity; issue and revoke them (docs/spec-choices.md, "Tokens")."""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import lock_user, refuse_account
from sublet.accounts.model import Token, User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import (
    Conflict,
    FieldError,
    NotFound,
    TokenExpired,
    TokenInvalid,
    TokenRevoked,
    validation_failed,
)
from sublet.restrictions import LIFE_MAX, SCOPES, Restrictions, check_restrictions
from sublet.secret import Secret

PREFIX = "sublet_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_LENGTH = 32
_CHECK_LENGTH = 6
_LOOKS_LIKE_TOKEN = re.compile(PREFIX + rf"[0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}}")
_LOOKS_LIKE_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class SecretMatches(Struct, frozen=True):
    """The substrings of a text that look like a token or the digest of a token.

    The digest of a DS record can look like one.
    """

    tokens: frozenset[str]
    digests: frozenset[str]


def _checksum(secret: str) -> str:
    """Return the CRC-32 of a token's secret as six base62 digits."""
    number, digits = zlib.crc32(secret.encode()), ""
    for _ in range(_CHECK_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def new_token() -> Secret:
    """Return a new token: the prefix, 32 random base62 characters (190 bits), and six of their CRC-32."""
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))
    return Secret(PREFIX + secret + _checksum(secret))


def is_well_formed(text: str) -> bool:
    """True if a text has the format and the checksum of a token. Uses no database."""
    if len(text) != len(PREFIX) + _SECRET_LENGTH + _CHECK_LENGTH or not text.startswith(PREFIX):
        return False
    secret, check = text[len(PREFIX) : -_CHECK_LENGTH], text[-_CHECK_LENGTH:]
    return secret.isascii() and secret.isalnum() and _checksum(secret) == check


def digest(text: str) -> str:
    """Return the SHA-256 of a token in hex: the form in which it is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_secrets(text: str) -> SecretMatches:
    """Return the substrings of a text that look like tokens or digests. Used to find leaked secrets."""
    return SecretMatches(
        frozenset(_LOOKS_LIKE_TOKEN.findall(text)), frozenset(_LOOKS_LIKE_DIGEST.findall(text))
    )


NEXT_STEP = (
    "Create a new token with POST /tokens, which needs a session or a token with tokens:write, or ask the "
    "operator for one."
)


def check_token(token: Token | None, now: datetime) -> Token:
    """Return the token if it is valid now.

    Raises:
        TokenInvalid: the token is None.
        TokenRevoked: the token was revoked.
        TokenExpired: the token has expired.
    """
    if token is None:
        raise TokenInvalid(
            "This token was never issued, or was replaced by a rotation. Use the token that replaced it, if "
            f"there is one. {NEXT_STEP}"
        )
    if token.revoked_at is not None:
        raise TokenRevoked(f"This token was revoked. {NEXT_STEP}")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenExpired(f"This token has expired. {NEXT_STEP}")
    return token


class IssuedToken(Struct, frozen=True):
    """A token with its new secret. The secret is shown once, and can't be read again."""

    secret: Secret
    token: Token
    user: User


def issue_token(
    tx: Tx,
    actor: Actor,
    identifier: str,
    name: str,
    *,
    scopes: Sequence[str] = (),
    names: Sequence[str] | None = None,
    domains: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
    record_names: Sequence[str] | None = None,
    daily_credits: int | None = None,
    expires_in_days: int | None = None,
) -> IssuedToken:
    """Issue a token to a user, as the operator. A suspended user's token can only read and open tickets.

    Empty `scopes` mean all scopes. Without `expires_in_days` the token doesn't expire. Only the secret's
    digest is stored, and not in the audit.

    Raises, in this order:
        NotFound: no user has this address or id, or the user is deleted.
        Conflict: the user is the account of an organization.
        ValidationFailed: all invalid fields: name, expires_in_days, and the other restrictions.
    """
    user = lock_user(tx, identifier)
    refuse_account(user)
    name, errors = check_text("name", name)
    expires_at = None
    if expires_in_days is not None and not 1 <= expires_in_days <= LIFE_MAX.days:
        message = f"Give 1 to {LIFE_MAX.days} days, or leave it out for a token that doesn't expire."
        errors = [*errors, FieldError("expires_in_days", "value_invalid", message)]
    elif expires_in_days is not None:
        expires_at = tx.now + timedelta(days=expires_in_days)
    restrictions, restriction_errors = check_restrictions(
        Restrictions(
            tuple(scopes) or SCOPES,
            names=_as_tuple(names),
            domains=_as_tuple(domains),
            networks=_as_tuple(networks),
            record_names=_as_tuple(record_names),
            daily_credits=daily_credits,
            expires_at=expires_at,
        ),
        tx.now,
    )
    if errors := [*errors, *restriction_errors]:
        raise validation_failed(errors)
    return add_token(tx, actor, user, name, restrictions)


def _as_tuple(items: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if items is None else tuple(items)


def add_token(
    tx: Tx,
    actor: Actor,
    user: User,
    name: str,
    restrictions: Restrictions,
    *,
    budget_token_id: int | None = None,
    organization_id: int | None = None,
    is_update_key: bool = False,
) -> IssuedToken:
    """Add a token, and return it with its secret. Not checked: name and restrictions, which callers check."""
    secret = new_token()
    token = store.insert_token(
        tx,
        user.id,
        name,
        digest(secret.reveal()),
        restrictions,
        creator_token_id=actor.token_id,
        budget_token_id=budget_token_id,
        organization_id=organization_id,
        is_update_key=is_update_key,
    )
    after = {"user_id": user.id, "name": name, **restrictions_for_audit(restrictions)}
    if organization_id is not None:
        after["organization_id"] = organization_id
    if is_update_key:
        after["is_update_key"] = True
    audit.record(tx, actor, "token.issue", token.id, after=after)
    return IssuedToken(secret, token, user)


def restrictions_for_audit(restrictions: Restrictions) -> dict[str, Any]:
    """Return restrictions as an audit event stores them."""
    columns = store.restriction_columns(restrictions)
    expires_at = restrictions.expires_at
    return {**columns, "expires_at": expires_at.isoformat() if expires_at else None}


def revoke_token(tx: Tx, actor: Actor, token_id: int) -> Token:
    """Revoke any user's token permanently, starting with the next request, as the operator.

    Raises, in this order:
        NotFound: no token has this id.
        Conflict: the token was revoked already.
    """
    store.lock_user(tx, show_token(tx, token_id).user_id)
    # Find it again, because its user may have revoked it before the lock.
    token = show_token(tx, token_id)
    if token.revoked_at is not None:
        raise Conflict(f"The token {token_id} was revoked already. No action needed.")
    return revoke(tx, actor, token)


def show_token(tx: Tx, token_id: int) -> Token:
    """Return any user's token, for the operator.

    Raises:
        NotFound: no token has this id.
    """
    token = store.find_token(tx, token_id)
    if token is None:
        raise NotFound(f"There is no token {token_id}. See `sublet token list`.")
    return token


def revoke(tx: Tx, actor: Actor, token: Token) -> Token:
    """Revoke a token and return it. Not checked: that the token isn't revoked yet."""
    after = {"user_id": token.user_id, "name": token.name, "revoked_at": tx.now.isoformat()}
    audit.record(tx, actor, "token.revoke", token.id, after=after)
    return store.update_token(tx, token.id, revoked_at=tx.now)
