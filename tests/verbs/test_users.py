"""Adding, editing, suspending and unsuspending users as the operator."""

from pathlib import Path

import pytest

from sublet.accounts.store import find_emails
from sublet.accounts.users import UserEdit, add_user, edit_user
from sublet.platform_domains.platform_domain import edit_platform_domain
from support.operator_registry import ANNA, Registry, small_registry

DOMAIN = "example.test"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return small_registry(tmp_path)


def test_a_user_joins_an_organization_by_name_slug_or_id_or_adds_one(registry: Registry) -> None:
    acme = registry.do(add_user, "c1@example.net", "C", "ACME").organization
    assert acme.name == "Acme"
    assert registry.do(add_user, "c2@example.net", "C", str(acme.id)).organization == acme
    new = registry.do(add_user, "C3@Example.NET", " Carl ", "Ärzte & Co.")
    assert (new.user.email, new.user.name) == ("c3@example.net", "Carl")
    assert (new.organization.name, new.organization.slug) == ("Ärzte & Co.", "arzte-co")
    assert registry.do(add_user, "c4@example.net", "C", "Ärzte & Co.").organization == new.organization


def test_addresses_are_found_for_more_users_than_fit_into_a_statement(registry: Registry) -> None:
    assert registry.read(find_emails, range(1, 70_000))[1] == ANNA


def test_every_change_is_audited_with_actor_and_reason(registry: Registry) -> None:
    registry.do(edit_user, ANNA, UserEdit(name="Anne", free_quota=9, organization="acme"))
    event = registry.events()[-1]
    assert (event["actor_kind"], event["actor_name"], event["reason"]) == ("operator", "olga", "because")
    assert (event["action"], event["object_id"]) == ("user.edit", 1)
    assert event["before"] == {"name": "Anna", "free_quota": None, "organization_id": 1}
    assert event["after"] == {"name": "Anne", "free_quota": 9, "organization_id": 2}
    back = registry.do(edit_user, ANNA, UserEdit(default_free_quota=True))
    assert back.user.free_quota is None


def test_unchanged_values_leave_no_event(registry: Registry) -> None:
    before = registry.rows()
    registry.do(edit_user, ANNA, UserEdit(name="Anna", email=ANNA.upper()))
    registry.do(edit_platform_domain, DOMAIN, {"idn": True})
    after = registry.rows()
    # PostgreSQL's mark tells that the transactions were committed, which they were.
    assert {**after, "commit_marks": []} == {**before, "commit_marks": []}
