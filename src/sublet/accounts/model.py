"""The types of accounts: user, organization, token, session, and the registrant who sends a request."""

from dataclasses import dataclass
from datetime import datetime

from sublet.audit import Actor
from sublet.restrictions import UNRESTRICTED, Restrictions


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization. Grants (restricted platform domains, special labels) belong to it."""

    id: int
    name: str
    slug: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class User:
    """A user. Names, credits, free quota and tickets belong to it. `free_quota` None means that the setting applies.

    `reminders` is true if the user wants mail about the dates of names. A deleted user has no personal data, no live names and no credits.
    `signed_up_at` is None for a user whom an operator added.
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
    deleted_at: datetime | None = None
    signed_up_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A user with the user's organization."""

    user: User
    organization: Organization


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret; only the secret's digest is stored. `last_used_from` is an address.

    `budget_token_id` is the token whose charges are counted together with this one's: a token with `daily_credits` that created it, or
    that one's own `budget_token_id`.
    """

    id: int
    user_id: int
    name: str
    scopes: tuple[str, ...]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
    names: tuple[str, ...] | None = None
    domains: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    daily_credits: int | None = None
    last_used_from: str | None = None
    budget_token_id: int | None = None

    @property
    def restrictions(self) -> Restrictions:
        """What the token may do."""
        return Restrictions(
            self.scopes, self.names, self.domains, self.networks, self.daily_credits, self.expires_at
        )


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is signed in, without its secret; only the secret's digest is stored.

    `how` is how it was signed in last: one of `sessions.HOW`. `network` is that of this sign-in. `last_used_from` is an address.
    """

    id: int
    user_id: int
    how: str
    created_at: datetime
    signed_in_at: datetime
    expires_at: datetime
    last_used_at: datetime
    last_used_from: str | None
    network: str
    user_agent: str


@dataclass(frozen=True, slots=True)
class Registrant:
    """The user and organization of a request, with its token (spec, part 5), or with its session and no token."""

    user: User
    organization: Organization
    token: Token | None
    session: Session | None = None

    @property
    def restrictions(self) -> Restrictions:
        """What the request may do. A session may do what a token with all scopes may."""
        return UNRESTRICTED if self.token is None else self.token.restrictions

    @property
    def credential(self) -> str:
        """The text by which requests of this token or session are counted."""
        return f"session-{self.session.id}" if self.session is not None else str(self.token and self.token.id)

    def actor(self, request_id: str) -> Actor:
        """Return the actor of this request."""
        return Actor(
            kind="user",
            user_id=self.user.id,
            token_id=None if self.token is None else self.token.id,
            session_id=None if self.session is None else self.session.id,
            request_id=request_id,
            restrictions=self.restrictions,
        )
