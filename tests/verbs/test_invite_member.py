"""Inviting users to an organization, and accepting the invitations; on both databases."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from sublet.accounts.users import suspend_user, unsuspend_user
from sublet.errors import (
    AccountSuspended,
    Conflict,
    InsufficientRole,
    OrganizationNotFound,
    RateLimited,
    SignUpClosed,
    ValidationFailed,
)
from sublet.limits import INVITATIONS_OF_ORGANIZATION, INVITATIONS_TO_ADDRESS
from sublet.organizations.invitations import (
    accept_received_invitation,
    decline_invitation,
    invite_member,
    revoke_invitation,
)
from sublet.organizations.organization import remove_member, set_role_as_operator
from sublet.registry.delete_user import delete_user
from sublet.registry.erasure_store import find_mentions
from sublet.sign_up.codes import MailedCode
from sublet.sign_up.store import list_open_invitations, list_received_invitations
from support.registry import OPERATOR, Registry
from support.shared_names import URL, accept, mailed_code, role_of, share, told

BEN, EVE = "ben@example.org", "eva@example.org"


def invite(
    registry: Registry, organization_id: int, email: str = BEN, role: str | None = "member", by: str = "ann"
) -> MailedCode:
    return registry.write(invite_member, registry.actor(by), str(organization_id), email, role, URL)


def test_a_user_joins_with_the_code(registry: Registry) -> None:
    organization_id = share(registry)
    added = invite(registry, organization_id, " BEN@example.org ", "billing")
    assert (added.email, added.role) == (BEN, "billing")
    assert role_of(registry, organization_id) is None
    code = mailed_code(registry, BEN)
    assert code not in str(registry.dump()["mailed_codes"])
    done = accept(registry, code)
    assert done is not None
    assert (done.is_new, done.membership.role, role_of(registry, organization_id)) == (
        False,
        *2 * ["billing"],
    )
    assert told(registry) == ["ben@example.org has joined as billing."]
    assert accept(registry, code) is None
    assert registry.read(list_open_invitations, organization_id) == []
    assert registry.doctor() == []


def test_an_unknown_address_gets_an_account(registry: Registry) -> None:
    organization_id = share(registry)
    invite(registry, organization_id, EVE)
    code = mailed_code(registry, EVE)
    with registry.refuses(SignUpClosed):
        accept(registry, code, opens_accounts=False)
    done = accept(registry, code)
    assert done is not None
    assert (done.member.user.name, done.is_new) == ("eva", True)
    assert done.member.user.signed_up_at == registry.now
    assert done.member.organization.id != organization_id, "it has its own one too"
    assert registry.doctor() == []
    done_away = registry.write(delete_user, OPERATOR, EVE, confirmed=True)
    assert registry.read(find_mentions, done_away.identities) == {}


def test_the_answer_does_not_reveal_whether_an_address_has_an_account(registry: Registry) -> None:
    organization_id = share(registry)
    known, unknown = invite(registry, organization_id), invite(registry, organization_id, EVE)
    differing = {
        name for name in MailedCode.__struct_fields__ if getattr(known, name) != getattr(unknown, name)
    }
    assert differing == {"id", "email", "code_digest", "link_digest"}


def test_a_code_ends(registry: Registry) -> None:
    """A newer invitation, a revocation, a week, or the sender's leaving ends a code."""
    organization_id = share(registry, ben="owner")
    codes = []
    for _ in range(2):
        added = invite(registry, organization_id, EVE)
        codes.append(mailed_code(registry, EVE))
    assert accept(registry, codes[0]) is None
    registry.write(revoke_invitation, registry.actor("ben"), str(organization_id), str(added.id))
    assert accept(registry, codes[1]) is None
    registry.refused(
        OrganizationNotFound, revoke_invitation, registry.actor(), str(organization_id), str(added.id)
    )
    invite(registry, organization_id, EVE)
    registry.now += timedelta(days=7)
    assert accept(registry, mailed_code(registry, EVE)) is None
    invite(registry, organization_id, EVE, "owner", by="ben")
    code = mailed_code(registry, EVE)
    registry.write(remove_member, registry.actor(), str(organization_id), str(registry.users["ben"]))
    assert accept(registry, code) is None
    assert accept(registry, "wrong") is None


@pytest.mark.whole
def test_limits(registry: Registry) -> None:
    organization_id = share(registry)
    for _ in range(INVITATIONS_TO_ADDRESS.most):
        invite(registry, organization_id, EVE)
    with registry.refuses(RateLimited):
        invite(registry, organization_id, EVE)
    for number in range(INVITATIONS_OF_ORGANIZATION.most - INVITATIONS_TO_ADDRESS.most):
        invite(registry, organization_id, f"user{number}@example.org")
    with registry.refuses(RateLimited):
        invite(registry, organization_id)
    registry.advance(days=1)
    invite(registry, organization_id, EVE)


def test_refusals(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    for email, role in (("x", "member"), (EVE, None), (EVE, "admin"), ("", "owner")):
        with registry.refuses(ValidationFailed):
            invite(registry, organization_id, email, role)
    with registry.refuses(Conflict):
        invite(registry, organization_id, BEN)
    with registry.refuses(InsufficientRole):
        invite(registry, organization_id, EVE, by="ben")
    with registry.refuses(Conflict):  # the user's own organization
        invite(registry, registry.organizations["ann"], EVE)


def received(registry: Registry, email: str = BEN) -> list[int]:
    return [each.id for each in registry.read(list_received_invitations, email, 10)]


def test_a_suspended_user_can_join_only_after_the_suspension(registry: Registry) -> None:
    organization_id = share(registry)
    invite(registry, organization_id)
    code = mailed_code(registry, BEN)
    registry.write(suspend_user, OPERATOR, BEN)
    with registry.refuses(AccountSuspended):
        accept(registry, code)
    assert (role_of(registry, organization_id), told(registry)) == (None, [])
    registry.write(unsuspend_user, OPERATOR, BEN)
    assert accept(registry, code) is not None, "a refusal uses up no code"


def test_a_member_who_accepts_keeps_the_role(registry: Registry) -> None:
    organization_id = share(registry)
    added = invite(registry, organization_id, role="viewer")
    registry.write(set_role_as_operator, OPERATOR, str(organization_id), BEN, "owner")
    done = registry.write(accept_received_invitation, registry.actor("ben"), str(added.id))
    assert done.membership.role == "owner"


def test_a_user_declines_an_invitation(registry: Registry) -> None:
    organization_id = share(registry)
    added = invite(registry, organization_id)
    code = mailed_code(registry, BEN)
    registry.write(decline_invitation, registry.actor("ben"), str(added.id))
    assert (received(registry), accept(registry, code)) == ([], None)
    assert (role_of(registry, organization_id), told(registry)) == (None, [])
    assert "organization.decline_invitation" in str(registry.dump()["audit_events"])
    again = invite(registry, organization_id)
    assert received(registry) == [again.id], "an owner may invite again"
    assert registry.doctor() == []


@pytest.mark.parametrize("answer", [accept_received_invitation, decline_invitation])
@pytest.mark.parametrize("end", ["other_address", "used", "declined", "revoked", "expired", "no_owner", "x"])
def test_an_invitation_that_is_not_open_is_not_found(
    registry: Registry, answer: Callable[..., object], end: str
) -> None:
    organization_id = share(registry)
    invitation_id = str(invite(registry, organization_id, EVE if end == "other_address" else BEN).id)
    ben = registry.actor("ben")
    if end == "used":
        accept(registry, mailed_code(registry, BEN))
    elif end == "declined":
        registry.write(decline_invitation, ben, invitation_id)
    elif end == "revoked":
        registry.write(revoke_invitation, registry.actor(), str(organization_id), invitation_id)
    elif end == "expired":
        registry.now += timedelta(days=7)
    elif end == "no_owner":
        registry.write(suspend_user, OPERATOR, "ann@example.org")
    elif end == "x":
        invitation_id = "x"
    assert (received(registry) == []) is (end != "x")
    refusal = registry.refused(OrganizationNotFound, answer, ben, invitation_id)
    assert refusal.message == "There is no such open invitation. Check the list of open invitations."
