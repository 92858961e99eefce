"""Tokens: their form, when they are valid, and how the operator issues and revokes them (docs/spec-choices.md, "Tokens")."""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_text
from sublet.accounts.find import find_user, refuse_deleted
from sublet.accounts.model import SCOPES, Token, User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import (
    Conflict,
    FieldError,
    NotFound,
    TokenExpired,
    TokenInvalid,
    TokenRevoked,
    validation_failed,
)
from sublet.secret import Secret

PREFIX = "sublet_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_LENGTH = 32
_CHECK_LENGTH = 6
_LOOKS_LIKE_ONE = re.compile(PREFIX + rf"[0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}}")
_LOOKS_LIKE_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The substrings of a text that look like a token, or like the digest of one (the digest of a DS record does too)."""

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
    """True if a text has the form and the check characters of a token. Needs no database."""
    if len(text) != len(PREFIX) + _SECRET_LENGTH + _CHECK_LENGTH or not text.startswith(PREFIX):
        return False
    secret, check = text[len(PREFIX) : -_CHECK_LENGTH], text[-_CHECK_LENGTH:]
    return secret.isascii() and secret.isalnum() and _checksum(secret) == check


def digest(text: str) -> str:
    """Return the SHA-256 of a token in hex: the form in which it is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_secrets(text: str) -> Secrets:
    """Return the tokens and digests in a text, to find secrets where they must not be."""
    return Secrets(frozenset(_LOOKS_LIKE_ONE.findall(text)), frozenset(_LOOKS_LIKE_DIGEST.findall(text)))


def check_token(token: Token | None, now: datetime) -> Token:
    """Return the token if it is valid now.

    Raises:
        TokenInvalid: there is no such token.
        TokenRevoked: it was revoked.
        TokenExpired: it has expired.
    """
    if token is None:
        raise TokenInvalid("This token was never issued here. Ask the operator for one.")
    if token.revoked_at is not None:
        raise TokenRevoked("This token was revoked. Ask the operator for a new one.")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenExpired("This token has expired. Ask the operator for a new one.")
    return token


EXPIRES_IN_DAYS_MAX = 36_500


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token with its secret. The secret is shown once, and can't be read again."""

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
    expires_in_days: int | None = None,
) -> IssuedToken:
    """Issue a token to a user. A suspended user's token can only read and open tickets.

    No `scopes` means all of them. Without `expires_in_days` the token doesn't expire. Only the digest is stored, and the audit
    doesn't have it.

    Raises, in this order:
        NotFound: there is no such user, or it is deleted.
        ValidationFailed: all invalid fields: name, scopes, expires_in_days.
    """
    user = find_user(tx, identifier)
    refuse_deleted(user)
    name, errors = check_text("name", name)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        message = f"`{shown(unknown[0])}` is not a scope. Give one of {', '.join(SCOPES)}."
        errors = [*errors, FieldError("scopes", "value_invalid", message)]
    if expires_in_days is not None and not 1 <= expires_in_days <= EXPIRES_IN_DAYS_MAX:
        message = f"Give 1 to {EXPIRES_IN_DAYS_MAX} days, or leave it out for a token that doesn't expire."
        errors = [*errors, FieldError("expires_in_days", "value_invalid", message)]
    if errors:
        raise validation_failed(errors)
    secret = new_token()
    allowed = tuple(scope for scope in SCOPES if scope in scopes) if scopes else SCOPES
    expires_at = tx.now + timedelta(days=expires_in_days) if expires_in_days is not None else None
    token = store.insert_token(tx, user.id, name, digest(secret.reveal()), allowed, expires_at)
    after = {"user_id": user.id, "name": name, "scopes": list(allowed)}
    after["expires_at"] = expires_at.isoformat() if expires_at else None
    audit.record(tx, actor, "token.issue", token.id, after=after)
    return IssuedToken(secret, token, user)


def revoke_token(tx: Tx, actor: Actor, token_id: int) -> Token:
    """Revoke a token permanently, from the next request on.

    Raises, in this order:
        NotFound: there is no such token.
        Conflict: it is revoked already.
    """
    token = store.find_token(tx, token_id)
    if token is None:
        raise NotFound(f"There is no token {token_id}. See `sublet token list`.")
    if token.revoked_at is not None:
        raise Conflict(f"The token {token_id} was revoked already. No action needed.")
    after = {"user_id": token.user_id, "name": token.name, "revoked_at": tx.now.isoformat()}
    audit.record(tx, actor, "token.revoke", token_id, after=after)
    return store.revoke_token(tx, token_id)
