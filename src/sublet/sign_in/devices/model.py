"""Programs that request a token on behalf of a person (RFC 8628): their codes and states (rules; no SQL)."""

import secrets
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.accounts.tokens.issue import digest
from sublet.dates import is_future
from sublet.secret import Secret
from sublet.sign_up.sign_up import FIRST_SCOPES

VALID_FOR = timedelta(minutes=10)
INTERVAL = timedelta(seconds=5)
"""The minimum time between two polls of a program."""
TOKEN_LIFE = timedelta(days=90)
PAGE_PATH = "/device"
"""The page on which a person allows or refuses a program."""
PENDING, ALLOWED, REFUSED, USED = "pending", "allowed", "refused", "used"
SPENDING_SCOPE = "credits:spend"
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_LETTER_COUNT = 8


class DeviceRequest(Struct, frozen=True):
    """The request of a program for a token.

    `user_id` is the person who decided; `may_spend` is true if the token may spend credits.
    """

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
        """Return the scopes of the token."""
        return (*FIRST_SCOPES, SPENDING_SCOPE) if self.may_spend else FIRST_SCOPES


def is_expired(found: DeviceRequest, now: datetime) -> bool:
    """True if a request has expired, or was created in the future: after the clock was set back, it would be
    valid again.
    """
    return found.expires_at <= now or is_future(found.created_at, now)


def new_device_code() -> Secret:
    """Return a new code of 256 random bits, which only the program knows."""
    return Secret(secrets.token_urlsafe(32))


def new_user_code() -> Secret:
    """Return a new code that a person types: eight consonants (34 bits). Without vowels it forms no words."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_LETTER_COUNT))
    return Secret(spell_user_code(letters))


def spell_user_code(typed: str) -> str:
    """Return a code that a person typed as the program shows it: `vrwt dgpg` is VRWT-DGPG."""
    letters = _letters(typed)
    return f"{letters[:4]}-{letters[4:]}"


def user_code_digest(typed: str) -> str:
    """Return the digest of a code that a person typed. Case, spaces and hyphens don't matter."""
    return digest("user_code:" + _letters(typed))


def _letters(typed: str) -> str:
    return typed.upper().replace("-", "").replace(" ", "")
