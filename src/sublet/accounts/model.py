"""The types of accounts: users, organizations with their roles, tokens, sessions, and the registrant who
sends a request.
"""

from datetime import datetime
from functools import cached_property

from msgspec import Struct

from sublet.audit import Actor
from sublet.restrictions import SCOPES, UNRESTRICTED, Restrictions
from sublet.structs import replace

OWNER, MEMBER, BILLING, VIEWER = "owner", "member", "billing", "viewer"
ROLES = (OWNER, MEMBER, BILLING, VIEWER)

_READS = frozenset({"account:read", "subdomains:read", "tickets:read", "tokens:write"})
"""The scopes of every role, with `tokens:write`, because each member creates and revokes their own tokens."""
SCOPES_OF: dict[str, frozenset[str]] = {
    OWNER: frozenset(SCOPES),
    MEMBER: _READS | {"subdomains:write", "records:write", "credits:spend", "tickets:write"},
    BILLING: _READS | {"tickets:write"},
    VIEWER: _READS,
}
"""The maximum scopes of a token for an organization, by the role of the token's user."""


class Organization(Struct, frozen=True):
    """An organization.

    Grants (restricted platform domains, special labels) belong to the organization; names and credits to its
    account.
    """

    id: int
    name: str
    slug: str
    created_at: datetime


class User(Struct, frozen=True):
    """A holder of names, credits, free quota and tickets: a person, or the account of an organization
    (`is_organization`).

    No person can sign in as an organization's account, and its `email` isn't an address
    (`organizations.account_email`). If `free_quota` is None, the default of the settings applies.

    `reminders` is true if the user wants mail about the dates of names. A deleted user has no personal data,
    live names or credits. `signed_up_at` is None for a user whom an operator added.
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
    is_organization: bool = False


class Membership(Struct, frozen=True):
    """A user's membership in an organization. `role` is one of `ROLES`."""

    user: User
    organization: Organization
    role: str
    created_at: datetime


class Member(Struct, frozen=True):
    """A user and the user's own organization."""

    user: User
    organization: Organization


class Token(Struct, frozen=True):
    """A token without its secret; only the secret's digest is stored. `last_used_from` is an address.

    `budget_token_id` is set if a token with `daily_credits` created this token: to the creator's
    `budget_token_id`, or to the creator's id if that is None. The charges of all tokens with the same
    `budget_token_id` are counted together. `organization_id` is None if the token acts for its user. A token
    that `is_update_key` is used by its TSIG secret (`subdomains/update_keys/`).
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
    record_names: tuple[str, ...] | None = None
    last_used_from: str | None = None
    budget_token_id: int | None = None
    organization_id: int | None = None
    is_update_key: bool = False

    @property
    def restrictions(self) -> Restrictions:
        """Return what the token may do."""
        return Restrictions(
            self.scopes,
            self.names,
            self.domains,
            self.networks,
            self.daily_credits,
            self.expires_at,
            self.record_names,
        )


class Session(Struct, frozen=True):
    """A browser that is signed in, without its secret; only the secret's digest is stored.

    `how` is the method of the last sign-in, one of `sessions.SIGN_IN_METHODS`, and `network` the client's
    network at that time. `last_used_from` is an address.
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


class Recovery(Struct, frozen=True):
    """The recovery of a user who has lost the passkeys: from `ready_at` to `ends_at` a sign-in by mail is
    enough.
    """

    user_id: int
    asked_at: datetime
    ready_at: datetime
    ends_at: datetime


class SignIn(Struct, frozen=True):
    """The last sign-in of a session. `has_passkeys` and `recovery` are about the session's user."""

    signed_in_at: datetime
    how: str
    has_passkeys: bool
    recovery: Recovery | None


class Registrant(Struct, frozen=True, dict=True):
    """The user and organization of a request, and its token (spec, part 5) or session.

    Made at authentication, and never changed.

    If the token or session acts for an organization, `account` is the organization's account and `role` the
    user's role there. If it acts for its user, both are None.
    """

    user: User
    organization: Organization
    token: Token | None
    account: User | None = None
    role: str | None = None
    session: Session | None = None

    @cached_property
    def holder(self) -> User:
        """Return the user or account whose names, credits and tickets the request is about."""
        return self.user if self.account is None else self.account

    @property
    def is_suspended(self) -> bool:
        """True if the user or the account may only read and open tickets."""
        return self.user.suspended_at is not None or self.holder.suspended_at is not None

    @cached_property
    def restrictions(self) -> Restrictions:
        """Return what the request may do.

        A session has all scopes. In an organization, the user's role limits the scopes.
        """
        found = UNRESTRICTED if self.token is None else self.token.restrictions
        if self.role is None:
            return found
        return replace(found, scopes=tuple(each for each in found.scopes if each in SCOPES_OF[self.role]))

    @property
    def rate_limit_key(self) -> str:
        """Return the key by which the rate limits count requests of this token or session."""
        return f"session-{self.session.id}" if self.session is not None else str(self.token and self.token.id)

    def actor(self, request_id: str, address: str | None = None) -> Actor:
        """Return the actor of a request from an address."""
        return Actor(
            kind="user",
            user_id=self.user.id,
            token_id=None if self.token is None else self.token.id,
            session_id=None if self.session is None else self.session.id,
            request_id=request_id,
            restrictions=self.restrictions,
            account_id=self.account.id if self.account is not None else None,
            address=address,
        )
