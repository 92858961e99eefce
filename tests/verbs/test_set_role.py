"""Changing the roles of members, and the scopes of each role; on both databases."""

from sublet.accounts.authenticate import authenticate
from sublet.accounts.model import ROLES, SCOPES_OF
from sublet.accounts.tokens.tokens import create_token
from sublet.errors import (
    Conflict,
    InsufficientRole,
    NotFound,
    OrganizationNotFound,
    ValidationFailed,
)
from sublet.organizations.organization import set_role, set_role_as_operator
from sublet.registry.delete_user import delete_user
from sublet.restrictions import SCOPES
from support.acting_tokens import acting, issue
from support.registry import OPERATOR, Registry
from support.shared_names import role_of, share, told


def test_a_token_can_do_what_the_role_allows(registry: Registry) -> None:
    organization_id = share(registry, ben="viewer")
    token = acting(issue(registry, "ben"))
    issued = registry.write(create_token, token, "shared", {"scopes": SCOPES}, organization_id)
    ben = str(registry.users["ben"])
    for role in ROLES:
        registry.write(set_role, registry.actor(), str(organization_id), ben, role)
        found = registry.run(authenticate(registry.db, issued.secret))
        assert found.role == role
        assert frozenset(found.restrictions.scopes) == SCOPES_OF[role]
        assert found.token.scopes == SCOPES
    assert registry.doctor() == []


def test_owners_and_the_member_get_a_mail(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    ben = str(registry.users["ben"])
    changed = registry.write(set_role, registry.actor(), str(organization_id), ben, "billing")
    assert changed.role == role_of(registry, organization_id) == "billing"
    sentence = "The role of ben@example.org is billing now. It was member."
    assert told(registry)[-1] == told(registry, "ben")[-1] == sentence
    before = registry.dump()
    registry.write(set_role, registry.actor(), str(organization_id), ben, "billing")
    assert registry.dump() == before


def test_there_is_always_an_owner(registry: Registry) -> None:
    organization_id = str(share(registry, ben="owner"))
    ann, ben = (str(registry.users[name]) for name in ("ann", "ben"))
    registry.write(set_role, registry.actor("ben"), organization_id, ann, "viewer")
    for role in ("member", "billing", "viewer"):
        registry.refused(Conflict, set_role, registry.actor("ben"), organization_id, ben, role)
        registry.refused(Conflict, set_role_as_operator, OPERATOR, organization_id, "ben@example.org", role)
    registry.refused(InsufficientRole, set_role, registry.actor(), organization_id, ann, "owner")


def test_refusals(registry: Registry) -> None:
    organization_id = str(share(registry))
    ben = str(registry.users["ben"])
    for member in (ben, "777777", "x"):
        registry.refused(OrganizationNotFound, set_role, registry.actor(), organization_id, member, "viewer")
    for role in (None, "", "admin"):
        registry.refused(
            ValidationFailed, set_role, registry.actor(), organization_id, str(registry.users["ann"]), role
        )
    registry.refused(
        ValidationFailed, set_role_as_operator, OPERATOR, organization_id, "ben@example.org", "admin"
    )
    added = registry.write(set_role_as_operator, OPERATOR, "Coop", "ben@example.org", "owner")
    assert added.role == role_of(registry, int(organization_id)) == "owner"
    assert "added as owner by the operator" in told(registry, "ben")[-1]
    own = str(registry.organizations["ann"])
    # it is the user's own one
    registry.refused(Conflict, set_role, registry.actor(), own, str(registry.users["ann"]), "viewer")
    for user in ("eve@example.org", "777777"):
        registry.refused(NotFound, set_role_as_operator, OPERATOR, organization_id, user, "owner")
    registry.refused(
        Conflict, set_role_as_operator, OPERATOR, organization_id, f"organization:{organization_id}", "owner"
    )
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    registry.refused(NotFound, set_role_as_operator, OPERATOR, organization_id, ben, "owner")
