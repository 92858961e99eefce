"""Changing the roles of members, and the scopes of each role; on both databases."""

from sublet.accounts.authenticate import authenticate
from sublet.accounts.roles import ROLES, SCOPES_OF
from sublet.accounts.tokens.tokens import create_token
from sublet.accounts.users import suspend_user
from sublet.errors import (
    AccountSuspended,
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
from support.shared_names import role_of, share, told, working_for


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
        with registry.refuses(Conflict):
            registry.write(set_role, registry.actor("ben"), organization_id, ben, role)
        with registry.refuses(Conflict):
            registry.write(set_role_as_operator, OPERATOR, organization_id, "ben@example.org", role)
    with registry.refuses(InsufficientRole):
        registry.write(set_role, registry.actor(), organization_id, ann, "owner")


def test_refusals(registry: Registry) -> None:
    organization_id = str(share(registry))
    ben = str(registry.users["ben"])
    for member in (ben, "777777", "x"):
        with registry.refuses(OrganizationNotFound):
            registry.write(set_role, registry.actor(), organization_id, member, "viewer")
    with registry.refuses(OrganizationNotFound):
        registry.write(set_role, registry.actor("ben"), organization_id, ben, "owner")
    for role in (None, "", "admin"):
        with registry.refuses(ValidationFailed):
            registry.write(set_role, registry.actor(), organization_id, str(registry.users["ann"]), role)
    with registry.refuses(ValidationFailed):
        registry.write(set_role_as_operator, OPERATOR, organization_id, "ben@example.org", "admin")
    added = registry.write(set_role_as_operator, OPERATOR, "Coop", "ben@example.org", "owner")
    assert added.role == role_of(registry, int(organization_id)) == "owner"
    assert "added as owner by the operator" in told(registry, "ben")[-1]
    own = str(registry.organizations["ann"])
    with registry.refuses(Conflict):  # it is the user's own one
        registry.write(set_role, registry.actor(), own, str(registry.users["ann"]), "viewer")
    for user in ("eve@example.org", "777777"):
        with registry.refuses(NotFound):
            registry.write(set_role_as_operator, OPERATOR, organization_id, user, "owner")
    with registry.refuses(Conflict):
        registry.write(
            set_role_as_operator, OPERATOR, organization_id, f"organization:{organization_id}", "owner"
        )
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    with registry.refuses(NotFound):
        registry.write(set_role_as_operator, OPERATOR, organization_id, ben, "owner")
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    with registry.refuses(AccountSuspended):
        registry.write(set_role, registry.actor(), organization_id, ben, "viewer")


def test_a_suspended_users_membership_gives_nothing(registry: Registry) -> None:
    organization_id = share(registry, ben="owner")
    actor = working_for(registry, organization_id, "ben")
    token = registry.write(
        create_token, acting(issue(registry, "ben")), "shared", {"scopes": SCOPES}, organization_id
    )
    registry.write(suspend_user, OPERATOR, "ben@example.org")
    with registry.refuses(AccountSuspended):
        registry.run(authenticate(registry.db, token.secret))
    with registry.refuses(AccountSuspended):
        registry.write(set_role, actor, str(organization_id), str(registry.users["ann"]), "viewer")
