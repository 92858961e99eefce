"""The roles in an organization, and what each may do there (rules; docs/spec-choices.md, "Organizations")."""

from sublet.restrictions import SCOPES

OWNER, MEMBER, BILLING, VIEWER = "owner", "member", "billing", "viewer"
ROLES = (OWNER, MEMBER, BILLING, VIEWER)

_READS = frozenset({"account:read", "subdomains:read", "tickets:read", "tokens:write"})
"""Every role reads. A user's own tokens are not the organization's, so each may make and revoke some."""
SCOPES_OF: dict[str, frozenset[str]] = {
    OWNER: frozenset(SCOPES),
    MEMBER: _READS | {"subdomains:write", "credits:spend", "tickets:write"},
    BILLING: _READS | {"tickets:write"},
    VIEWER: _READS,
}
"""The scopes that a token for an organization has at most, by the role of its user."""
