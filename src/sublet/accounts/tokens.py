"""What a token looks like and when it is good (docs/spec-choices.md, "Tokens")."""

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass
from datetime import datetime

from sublet.accounts.model import Token
from sublet.errors import TokenExpired, TokenInvalid, TokenRevoked
from sublet.secret import Secret

PREFIX = "sublet_"
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_LENGTH = 32
_CHECK_LENGTH = 6
_LOOKS_LIKE_ONE = re.compile(PREFIX + rf"[0-9A-Za-z]{{{_SECRET_LENGTH + _CHECK_LENGTH}}}")
_LOOKS_LIKE_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What in a text looks like a token, or like the digest of one (a DS record's digest does too)."""

    tokens: frozenset[str]
    digests: frozenset[str]


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def _base62(number: int) -> str:
    """Return six digits, by pairs: each request's token is looked at."""
    rest, last = divmod(number, 3844)
    first, middle = divmod(rest, 3844)
    return _PAIRS[first] + _PAIRS[middle] + _PAIRS[last]


def new_token() -> Secret:
    """Return a fresh token: the prefix, 32 random base62 characters (190 bits), six of their CRC-32."""
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))
    return Secret(PREFIX + secret + _base62(zlib.crc32(secret.encode())))


def is_well_formed(text: str) -> bool:
    """Tell whether a text has the form and the check characters of a token; needs no database."""
    if len(text) != len(PREFIX) + _SECRET_LENGTH + _CHECK_LENGTH or not text.startswith(PREFIX):
        return False
    secret, check = text[len(PREFIX) : -_CHECK_LENGTH], text[-_CHECK_LENGTH:]
    return secret.isascii() and secret.isalnum() and _base62(zlib.crc32(secret.encode())) == check


def digest(text: str) -> str:
    """Return what is stored of a token: its SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_secrets(text: str) -> Secrets:
    """Return what in a text looks like a secret of ours: to find what should never have been written there."""
    return Secrets(frozenset(_LOOKS_LIKE_ONE.findall(text)), frozenset(_LOOKS_LIKE_DIGEST.findall(text)))


def check_token(token: Token | None, now: datetime) -> Token:
    """Return the token when it is good now.

    Raises:
        TokenInvalid: there is no such token.
        TokenRevoked: it was revoked.
        TokenExpired: its time is over.
    """
    if token is None:
        raise TokenInvalid("This token was never issued here; ask the operator for one.")
    if token.revoked_at is not None:
        raise TokenRevoked("This token was revoked; ask the operator for a new one.")
    if token.expires_at is not None and token.expires_at <= now:
        raise TokenExpired("This token has expired; ask the operator for a new one.")
    return token
