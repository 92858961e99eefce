"""Decisions, "Activity" and "A user that is deleted": reminders, what happened in an account, its export and
its deletion, over HTTP.
"""

import json
from typing import Any

import pytest
from sqlalchemy import select

from sublet.audit import audit_events
from sublet.mail.store import ERASED_WITH_USER, list_mails
from sublet.registry import declared_texts
from sublet.registry.export_store import COLUMNS_NOT_EXPORTED, NOT_EXPORTED, SECTIONS
from sublet.schema import metadata
from support.error_triggers import new_user, unused_name
from support.running_service import Registrant, RunningService
from support.waiting import wait_until

SETTINGS = {"trusted_proxies": "127.0.0.1"}


@pytest.fixture
def ada(shop: RunningService) -> Registrant:
    return new_user(shop, credit_count=100)


def activity(shop: RunningService, who: Registrant, query: str = "") -> list[dict[str, Any]]:
    answer = shop.call(who, "GET", f"/activity{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["activity"])


def test_requests_of_the_user_are_shown_with_token_and_address(shop: RunningService, ada: Registrant) -> None:
    fqdn = unused_name()
    body = {"fqdn": fqdn}
    shop.call(ada, "POST", "/subdomains", body, x_forwarded_for="198.51.100.7")
    found = activity(shop, ada)[0]
    assert (found["action"], found["by"], found["token_name"]) == ("subdomain.register", "user", "test")
    assert (found["address"], found["subdomain"]) == ("198.51.100.7", fqdn)
    assert found["after"]["registration_type"] == "free"


def test_actions_of_operator_and_system_are_shown_without_reasons(
    shop: RunningService, ada: Registrant
) -> None:
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    shop.operator("user", "edit", ada.email, "--free-quota", "7", "--reason", "a secret of the operator's")
    shop.operator("subdomain", "suspend", fqdn, "--reason", "told to the user")
    shop.operator("user", "suspend", ada.email, "--reason", "another secret")
    shop.operator("user", "unsuspend", ada.email)
    found = activity(shop, ada)
    assert [(each["action"], each["by"]) for each in found[:4]] == [
        ("user.unsuspend", "operator"),
        ("user.suspend", "operator"),
        ("subdomain.suspend", "operator"),
        ("user.edit", "operator"),
    ]
    assert found[3]["after"] == {"free_quota": 7}
    assert found[2]["after"]["suspended_reason"] == "told to the user"
    assert "secret" not in json.dumps(found)
    assert {(each["token_id"], each["address"]) for each in found[:4]} == {(None, None)}
    assert "user.add" in [each["action"] for each in found]


def test_both_sides_see_their_part_of_a_transfer(shop: RunningService, ada: Registrant) -> None:
    bob = new_user(shop)
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    offered = shop.call(ada, "POST", f"/subdomains/{fqdn}/transfer", {"to": bob.email}).json()["transfer"]
    path = f"/transfers/{offered['id']}/accept"
    shop.call(bob, "POST", path, x_forwarded_for="203.0.113.9")
    shop.operator("subdomain", "suspend", fqdn)
    mine, theirs = activity(shop, ada), activity(shop, bob)
    assert [(each["action"], each["by"]) for each in mine[:2]] == [
        ("name_transfer.accept", "other_user"),
        ("name_transfer.push", "user"),
    ]
    assert [(each["action"], each["by"]) for each in theirs[:3]] == [
        ("subdomain.suspend", "operator"),
        ("subdomain.transfer", "user"),
        ("name_transfer.accept", "user"),
    ]
    assert "203.0.113.9" not in json.dumps(mine)
    assert (theirs[1]["before"], theirs[1]["after"]) == (
        {"auto_renew_max_credits": None},
        {"auto_renew_max_credits": None},
    )


def test_activity_has_pages_and_filters(shop: RunningService, ada: Registrant) -> None:
    for _ in range(3):
        shop.call(ada, "POST", "/tokens", {"name": "ci", "scopes": ["account:read"]})
    whole = shop.list_all(ada, "/activity", "activity")
    assert whole == sorted(whole, key=lambda each: -each["id"])
    pages: list[dict[str, Any]] = []
    query = "?limit=2"
    while query:
        answer = shop.call(ada, "GET", f"/activity{query}").json()
        pages += answer["activity"]
        cursor = answer["page"]["next_cursor"]
        query = f"?limit=2&cursor={cursor}" if cursor else ""
    assert pages == whole
    assert len(activity(shop, ada, "?action=token.issue")) == 4
    own = activity(shop, ada, f"?token_id={whole[0]['token_id']}")
    assert [each["action"] for each in own] == ["token.issue"] * 3
    since, until = whole[1]["at"], whole[0]["at"]
    assert activity(shop, ada, f"?since={since}&until={until}") == [
        each for each in whole if since <= each["at"] < until
    ]


@pytest.mark.parametrize(("method", "path"), [("GET", "/activity"), ("GET", "/me/export"), ("DELETE", "/me")])
def test_a_token_restricted_to_names_can_not_read_the_account(
    shop: RunningService, ada: Registrant, method: str, path: str
) -> None:
    words = ("token", "issue", ada.email, "--name", "some", "--only-name", "a.example.test")
    token = shop.operator(*words)["token"]
    assert shop.call(token, method, path).json()["error"] == "token_restricted"
    weak = shop.issue_token(ada.email, "tokens:write", "account:read")
    answer = shop.call(weak, method, path)
    assert (answer.status_code == 200) == (path == "/activity"), answer.text


def test_an_export_has_all_lists(shop: RunningService, ada: Registrant) -> None:
    fqdn = shop.register(ada, unused_name(), registration_mode="plus", confirm=True)["subdomain"]["fqdn"]
    gone = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    shop.call(ada, "DELETE", f"/subdomains/{gone}")
    shop.call(ada, "POST", f"/subdomains/{fqdn}/transfer", {"to": "carl@example.org"})
    shop.call(ada, "POST", "/support/tickets", {"subject": "Help", "message": "Please.", "fqdn": fqdn})
    answer = shop.call(ada, "GET", "/me/export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found = answer.json()
    assert list(found) == ["ok", "account", *SECTIONS, "activity"]
    assert (found["account"]["email"], found["account"]["credit_balance"]) == (ada.email, 90)
    assert [each["fqdn"] for each in found["subdomains"]] == [fqdn, gone]
    assert found["subdomains"][1]["trashed_at"] is not None
    assert [each["credits"] for each in found["payments"]] == [100, 10]
    assert [each["message"] for each in found["messages"]] == ["Please."]
    assert [each["to"] for each in found["transfers"]] == ["carl@example.org"]
    assert [each["name"] for each in found["tokens"]] == ["test"]
    assert found["activity"] == shop.list_all(ada, "/activity", "activity")
    assert ada.token not in answer.text
    assert "carl" not in shop.call(new_user(shop), "GET", "/me/export").text


def test_no_table_of_a_user_is_forgotten_by_the_export() -> None:
    """A table with a user's rows is in a list of the export, or its reason is stated."""
    of_users = {
        table.name
        for table in metadata.tables.values()
        for column in table.columns
        if column.name.endswith("user_id")
        or any(key.column.table.name == "users" for key in column.foreign_keys)
    } | {"users"}
    exported = {table for section in SECTIONS.values() for table in tables_of(section.source)}
    assert of_users - exported == set(NOT_EXPORTED)


def test_no_text_of_a_user_is_forgotten_by_the_export() -> None:
    """A text that is erased with the user is exported before, if other columns of its table are."""
    exported = {
        (column.table.name, column.name)
        for section in SECTIONS.values()
        for column in section.columns.values()
    }
    tables = {table for table, _ in exported}
    texts = {
        (table, name)
        for declared in (declared_texts.ERASED, declared_texts.DELETED)
        for table, names in declared.items()
        for name in names.split()
        if table in tables
    }
    left_out = {(table, name) for table, names in COLUMNS_NOT_EXPORTED.items() for name in names.split()}
    assert texts - exported == left_out, "add it to SECTIONS or COLUMNS_NOT_EXPORTED in export_store.py"


def tables_of(source: Any) -> set[str]:
    return {each.name for each in source._from_objects if hasattr(each, "name")}


def test_a_deletion_lists_the_losses_before_its_confirmation(shop: RunningService, ada: Registrant) -> None:
    shop.register(ada, unused_name())
    answer = shop.call(ada, "DELETE", "/me")
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
    assert answer.json()["details"] == {"names": 1, "credits": 100}
    wrong = shop.call(ada, "DELETE", "/me", {"confirm": "bob@example.org"})
    assert wrong.json()["errors"][0]["field"] == "confirm"
    assert shop.call(ada, "GET", "/me").status_code == 200


def test_a_user_deletes_its_account(
    shop: RunningService, ada: Registrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublet.registry.delete_user.NAMES_AT_ONCE", 1)
    monkeypatch.setattr("sublet.operations.idempotency.PARTS_SECONDS_MAX", -1)
    shop.register(ada, unused_name())
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    other = shop.issue_token(ada.email)
    confirmed = (ada, "DELETE", "/me", {"confirm": ada.email.upper()})
    begun = shop.call(*confirmed, idempotency_key="k")
    assert (begun.status_code, begun.headers["retry-after"]) == (503, "1")
    assert "It has begun" in begun.json()["message"]
    assert shop.call(ada, "DELETE", "/me").json()["details"]["names"] == 1
    answer = shop.call(*confirmed, idempotency_key="k")
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "deleted": {"id": ada.id}})
    for token in (ada.token, other):
        assert shop.call(token, "GET", "/me").json()["error"] == "token_revoked"
    assert shop.operator("subdomain", "show", fqdn)["status"] == "trashed"
    addressed = audit_events.c.address.is_not(None) & (audit_events.c.user_id == ada.id)
    assert shop.read(lambda tx: tx.connection.execute(select(audit_events.c.id).where(addressed)).all()) == []

    def notices() -> list[Any]:
        found = shop.read(lambda tx: list_mails(tx, waiting=False, user_id=None, limit=50))
        return [each for each in found if each.reference == f"user.delete:{ada.id}"]

    assert len(notices()) == 1
    wait_until(lambda: notices()[0].recipient == ERASED_WITH_USER)  # once it is sent
