"""Programs that ask for a token in the name of a person (RFC 8628): their codes and their states (rules; no SQL)."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.accounts.tokens import digest
from sublet.secret import Secret
from sublet.sign_up.sign_up import FIRST_SCOPES

VALID_FOR = timedelta(minutes=10)
INTERVAL = timedelta(seconds=5)
"""How often a program may ask whether it was allowed."""
TOKEN_LIFE = timedelta(days=90)
PAGE_PATH = "/device"
"""The page on which a person allows or refuses."""
PENDING, ALLOWED, REFUSED, USED = "pending", "allowed", "refused", "used"
SPENDING_SCOPE = "credits:spend"
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_LETTER_COUNT = 8


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A program that asks for a token. `user_id` is that of the person who allowed it, `may_spend` whether the token may spend credits."""

    id: int
    name: str
    address: str
    state: str
    user_id: int | None
    may_spend: bool
    created_at: datetime
    expires_at: datetime
    polled_at: datetime | None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the token."""
        return (*FIRST_SCOPES, SPENDING_SCOPE) if self.may_spend else FIRST_SCOPES


def new_device_code() -> Secret:
    """Return a new code of 256 random bits, which the program keeps."""
    return Secret(secrets.token_urlsafe(32))


def new_user_code() -> Secret:
    """Return a new code that a person types: eight consonants, so that it is no word (34 bits)."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_LETTER_COUNT))
    return Secret(f"{letters[:4]}-{letters[4:]}")


def user_code_digest(typed: str) -> str:
    """Return the digest of a code as a person typed it: case, spaces and hyphens don't matter."""
    return digest("user_code:" + typed.upper().replace("-", "").replace(" ", ""))
