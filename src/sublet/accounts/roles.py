"""The roles of an organization's members, and the scopes of each (rules; docs/spec-choices.md,
"Organizations").
"""

from sublet.restrictions import SCOPES

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
