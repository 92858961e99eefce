"""Codes that prove that a person reads the mail of an address: their format and lifetimes (no SQL)."""

import secrets
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.accounts.tokens.issue import digest
from sublet.secret import Secret

SIGN_UP, INVITATION, MEMBERSHIP = "sign_up", "invitation", "membership"
SIGN_IN, OPERATOR_LINK, NEW_ADDRESS = "sign_in", "operator_link", "new_address"
"""The purposes of a code: open an account (`SIGN_UP`, `INVITATION`), join an organization, sign in (by mail
or operator), change an address.
"""
VALID_FOR = {
    SIGN_UP: timedelta(minutes=15),
    INVITATION: timedelta(days=7),
    MEMBERSHIP: timedelta(days=7),
    SIGN_IN: timedelta(minutes=15),
    OPERATOR_LINK: timedelta(minutes=15),
    NEW_ADDRESS: timedelta(minutes=15),
}
TRIES_MAX = 5
"""The number of wrong attempts after which a code is void. Five guesses are right with a chance of 1 in
200,000. The link stays valid.
"""
CODE_DIGITS = 6


class NewCode(Struct, frozen=True):
    """A code of six digits that people type, and a token of 256 bits for links.

    Only their digests are stored.
    """

    code: Secret
    link_token: Secret

    def link(self, public_url: str, path: str) -> str:
        """Return the link to a page that uses the code."""
        return f"{public_url}{path}?token={self.link_token.reveal()}"

    @property
    def link_digest(self) -> str:
        """Return the digest of the link's token."""
        return digest(self.link_token.reveal())

    @property
    def code_digest(self) -> str:
        """Return the digest of the code and the link's token, so that equal codes have different digests."""
        return digest_of_code(self.link_digest, self.code.reveal())


class MailedCode(Struct, frozen=True):
    """A mailed code.

    `tries` counts wrong attempts. `used_at` is also set if the code was revoked. `name` is the user's name.

    An invitation to an organization has a `role` for the new member. `user_id` is None if the address had no
    account at that time.
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


class ReceivedInvitation(Struct, frozen=True):
    """An open invitation to an organization, as the invited person sees it."""

    id: int
    organization_id: int
    organization_name: str
    organization_slug: str
    role: str
    inviter_name: str
    inviter_email: str
    created_at: datetime
    expires_at: datetime


def new_code() -> NewCode:
    """Return a new random code."""
    code = f"{secrets.randbelow(10**CODE_DIGITS):0{CODE_DIGITS}d}"
    return NewCode(Secret(code), Secret(secrets.token_urlsafe(32)))


def digest_of_code(link_digest: str, code: str) -> str:
    """Return the digest of a typed code, as it is stored."""
    return digest(f"{link_digest}:{code}")


def matches_code(found: MailedCode, code: str) -> bool:
    """True if a typed code is the mailed code. Spaces and hyphens between the digits are ignored."""
    typed = code.replace(" ", "").replace("-", "")
    return secrets.compare_digest(digest_of_code(found.link_digest, typed), found.code_digest)
