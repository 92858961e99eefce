"""Decisions, "Tokens": creating, changing, rotating and revoking tokens over HTTP."""

from datetime import timedelta, timezone
from typing import Any

from support.open_registry import instant
from support.running_service import Registrant, RunningService

MEMBERS = [
    "id", "name", "scopes", "names", "domains", "networks", "record_names", "daily_credits", "organization_id", "created_at", "expires_at",  # noqa: E501
    "last_used_at", "last_used_from", "revoked_at",
]  # fmt: skip


def create(shop: RunningService, who: Registrant | str, **members: Any) -> dict[str, Any]:
    answer = shop.call(who, "POST", "/tokens", {"name": "ci", "scopes": ["account:read"], **members})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def test_a_created_token_works_and_its_secret_is_shown_once(shop: RunningService, ada: Registrant) -> None:
    created = create(shop, ada, names=["*.example.test"], networks=["127.0.0.0/8"], daily_credits=3)
    token = created["token"]
    assert list(created) == ["ok", "token", "secret"]
    assert list(token) == MEMBERS
    assert (token["name"], token["scopes"], token["organization_id"]) == (
        "ci",
        ["account:read"],
        ada.organization["id"],
    )
    assert (token["names"], token["domains"], token["networks"]) == (
        ["*.example.test"],
        None,
        ["127.0.0.0/8"],
    )
    assert (token["daily_credits"], token["last_used_at"], token["revoked_at"]) == (3, None, None)
    assert instant(token["expires_at"]) - instant(token["created_at"]) == timedelta(days=30)
    assert shop.call(created["secret"], "GET", "/credits").status_code == 200
    path = f"/tokens/{token['id']}"
    for answer in (shop.call(ada, "GET", path), shop.call(ada, "GET", "/tokens")):
        assert created["secret"] not in answer.text
    assert shop.call(ada, "GET", path).json()["token"] == token


def test_null_removes_a_restriction_and_omitted_members_keep_theirs(
    shop: RunningService, ada: Registrant
) -> None:
    token = create(shop, ada, names=["a.example.test"], daily_credits=3)["token"]
    path = f"/tokens/{token['id']}"
    changed = shop.call(ada, "PATCH", path, {"names": None, "name": "cd"}).json()["token"]
    assert changed == {**token, "name": "cd", "names": None}
    noon = (shop.clock() + timedelta(days=99)).replace(hour=12, minute=0, second=0, microsecond=0)
    expires_at = noon.replace(tzinfo=timezone(timedelta(hours=1))).isoformat()
    changed = shop.call(ada, "PATCH", path, {"expires_at": expires_at, "scopes": None}).json()["token"]
    assert (changed["expires_at"], changed["scopes"]) == (f"{noon:%Y-%m-%d}T11:00:00Z", ["account:read"])
    malformed = {"expires_at": "soon", "names": "a.example.test", "daily_credits": "3", "scope": []}
    answer = shop.call(ada, "PATCH", path, malformed)
    assert answer.status_code == 400
    assert {each["field"] for each in answer.json()["errors"]} == set(malformed)


def test_a_repeated_request_takes_effect_once_and_hides_the_secret(
    shop: RunningService, ada: Registrant
) -> None:
    body = {"name": "once", "scopes": ["account:read"]}
    first = shop.call(ada, "POST", "/tokens", body, idempotency_key="k")
    again = shop.call(ada, "POST", "/tokens", body, idempotency_key="k")
    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 201, "true")
    assert again.json() == {**first.json(), "secret": None}
    path = f"/tokens/{first.json()['token']['id']}/rotate"
    rotated = shop.call(ada, "POST", path, {}, idempotency_key="r")
    again = shop.call(ada, "POST", path, {}, idempotency_key="r")
    assert again.json() == {**rotated.json(), "secret": None}
    assert shop.call(rotated.json()["secret"], "GET", "/me").status_code == 200


def test_changes_take_if_match(shop: RunningService, ada: Registrant) -> None:
    path = f"/tokens/{create(shop, ada)['token']['id']}"
    tag = shop.call(ada, "GET", path).headers["etag"]
    assert shop.call(ada, "GET", path, if_none_match=tag).status_code == 304
    changed = shop.call(ada, "PATCH", path, {"name": "new"}, if_match=tag)
    assert changed.status_code == 200
    for method, end in (("PATCH", ""), ("DELETE", ""), ("POST", "/rotate")):
        answer = shop.call(ada, method, path + end, {}, if_match=tag)
        assert (answer.status_code, answer.json()["error"]) == (412, "precondition_failed")
    assert (
        shop.call(ada, "DELETE", path, if_match=shop.call(ada, "GET", path).headers["etag"]).status_code
        == 200
    )


def test_a_token_revokes_itself(shop: RunningService, ada: Registrant) -> None:
    created = create(shop, ada, scopes=["tokens:write"])
    path = f"/tokens/{created['token']['id']}"
    answer = shop.call(created["secret"], "DELETE", path)
    assert answer.status_code == 200
    assert answer.json()["token"]["revoked_at"] is not None
    assert shop.call(created["secret"], "GET", "/me").json()["error"] == "token_revoked"
    assert shop.call(ada, "DELETE", path).json() == answer.json()
    assert shop.call(ada, "PATCH", path, {"name": "x"}).json()["error"] == "conflict"
