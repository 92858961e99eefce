"""Codes that are mailed to an address, to prove that it is the reader's: their form and how long they are valid (no SQL)."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.accounts.tokens import digest
from sublet.secret import Secret

SIGN_UP, INVITATION, MEMBERSHIP = "sign_up", "invitation", "membership"
SIGN_IN, OPERATOR_LINK, NEW_ADDRESS = "sign_in", "operator_link", "new_address"
"""The purposes of a code. Sign-ups and invitations open an account, a membership makes a user a member of an organization, a new address is a user's."""
VALID_FOR = {
    SIGN_UP: timedelta(minutes=15),
    INVITATION: timedelta(days=7),
    MEMBERSHIP: timedelta(days=7),
    SIGN_IN: timedelta(minutes=15),
    OPERATOR_LINK: timedelta(minutes=15),
    NEW_ADDRESS: timedelta(minutes=15),
}
TRIES_MAX = 5
"""Most wrong codes before a code is void, but not its link: a guess succeeds once in 200,000 codes."""
CODE_DIGITS = 6


@dataclass(frozen=True, slots=True)
class NewCode:
    """A code of six digits for people who type it, and a token of 256 bits for links. Only their digests are stored."""

    code: Secret
    link_token: Secret

    @property
    def link_digest(self) -> str:
        """The digest of the link's token."""
        return digest(self.link_token.reveal())

    @property
    def code_digest(self) -> str:
        """The digest of the code, which depends on the link's token, so that equal codes have different digests."""
        return digest_of_code(self.link_digest, self.code.reveal())


@dataclass(frozen=True, slots=True)
class MailedCode:
    """A code that was mailed. `tries` counts wrong codes. `used_at` is also set when it is void. `name` is that of the new user.

    `role` is that of the new member of the organization. `user_id` is the user that the code is for; None if it has no account yet, or never had one.
    """

    id: int
    purpose: str
    email: str
    name: str
    organization_id: int | None
    code_digest: str
    link_digest: str
    tries: int
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None
    role: str | None = None
    user_id: int | None = None


def new_code() -> NewCode:
    """Return a new random code."""
    code = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}d}"
    return NewCode(Secret(code), Secret(secrets.token_urlsafe(32)))


def digest_of_code(link_digest: str, code: str) -> str:
    """Return the digest under which a typed code is stored."""
    return digest(f"{link_digest}:{code}")


def is_right(found: MailedCode, code: str) -> bool:
    """True if this is the code. A space or hyphen that a person types between the digits is ignored."""
    typed = code.replace(" ", "").replace("-", "")
    return secrets.compare_digest(digest_of_code(found.link_digest, typed), found.code_digest)
