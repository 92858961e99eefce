"""The types of accounts: a user, the organization it belongs to, a token, and who is asking."""

from dataclasses import dataclass
from datetime import datetime

from sublet.audit import Actor

SCOPES = (
    "account:read",
    "subdomains:read",
    "subdomains:write",
    "credits:spend",
    "tickets:read",
    "tickets:write",
)
"""What a token may be allowed to do (docs/spec-choices.md, "Tokens"); a token without a choice has all."""


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization: carries what was granted to it (restricted platform domains, special labels)."""

    id: int
    name: str
    slug: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class User:
    """A user: names, credits, free quota and tickets belong to it. `free_quota` None means the setting's.

    `reminders` tells whether it wants mail on dates of its names.
    """

    id: int
    email: str
    name: str
    organization_id: int
    free_quota: int | None
    suspended_at: datetime | None
    suspended_reason: str | None
    created_at: datetime
    reminders: bool = True


@dataclass(frozen=True, slots=True)
class Member:
    """A user with the organization that it belongs to."""

    user: User
    organization: Organization


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret, of which only the digest is stored."""

    id: int
    user_id: int
    name: str
    scopes: tuple[str, ...]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Registrant:
    """Who a request's token stands for (spec, part 5): the user, its organization, the token with its scopes."""

    user: User
    organization: Organization
    token: Token

    def actor(self, request_id: str) -> Actor:
        """Return the actor that the audit names for this request."""
        return Actor(kind="user", user_id=self.user.id, token_id=self.token.id, request_id=request_id)
