"""Organizations over HTTP (docs/spec-choices.md, "Organizations")."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import delete

from sublet.accounts.users import add_user
from sublet.db import Tx
from sublet.limits import INVITATIONS_OF_ORGANIZATION, INVITATIONS_TO_ADDRESS
from sublet.operations.client import COOKIE
from sublet.sign_up.store import mailed_codes
from support.answer_times import compare_times
from support.browsers import signed_in
from support.console_client import newest_mail
from support.error_triggers import new_user, unused_name
from support.open_registry import opened
from support.registry import OPERATOR
from support.repetitions import share
from support.running_service import Registrant, RunningService

ORGANIZATION = ["id", "name", "slug", "role", "created_at"]
MEMBER = ["user_id", "email", "name", "role", "created_at"]
INVITATION = ["id", "email", "role", "created_at", "expires_at"]
RECEIVED = [
    *("id", "organization_id", "organization_name", "organization_slug", "role"),
    *("inviter_name", "inviter_email", "created_at", "expires_at"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("organizations")) as service:
        yield service


def create(service: RunningService, who: Registrant, name: str = "Coop") -> dict[str, Any]:
    answer = service.call(who, "POST", "/organizations", {"name": name})
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["organization"])


def invite(
    service: RunningService, who: Registrant, organization: dict[str, Any], email: str, role: str
) -> str:
    """Invite an address, and return the code in the mail."""
    path = f"/organizations/{organization['id']}/invitations"
    answer = service.call(who, "POST", path, {"email": email, "role": role})
    assert answer.status_code == 201, answer.text
    assert list(answer.json()["invitation"]) == INVITATION
    return str(re.findall(r"confirm\?token=(\S+)", newest_mail(service, email))[0])


def accept(service: RunningService, code: str, **body: str) -> Any:
    return service.post(f"/auth/invitations/{code}/accept", body)


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_a_token_of_the_users_own_organization_acts_for_the_user(service: RunningService) -> None:
    ada = new_user(service)
    (own,) = service.call(ada, "GET", "/organizations").json()["organizations"]
    assert list(own) == ORGANIZATION
    assert (own["id"], own["role"]) == (ada.organization["id"], "owner")
    token = service.token_for(ada, own["id"])
    fqdn = unused_name()
    assert service.call(token, "POST", "/subdomains", {"fqdn": fqdn}).status_code == 201
    assert service.call(ada, "GET", f"/subdomains/{fqdn}").status_code == 200
    for path, body in (("invitations", {"email": "x@example.org", "role": "owner"}),):
        answer = service.call(ada, "POST", f"/organizations/{own['id']}/{path}", body)
        assert (answer.status_code, answer.json()["error"]) == (409, "conflict")


def test_an_organization_from_creation_to_the_last_member(service: RunningService) -> None:
    ada, bob = new_user(service), new_user(service)
    coop = create(service, ada)
    path = f"/organizations/{coop['id']}"
    assert (coop["role"], service.call(ada, "GET", path).json()["organization"]) == ("owner", coop)
    code = invite(service, ada, coop, bob.email, "member")
    (invitation,) = service.call(ada, "GET", f"{path}/invitations").json()["invitations"]
    assert (list(invitation), invitation["email"]) == (INVITATION, bob.email)
    answer = accept(service, code)
    assert (answer.status_code, answer.json()["organization"]["role"]) == (201, "member")
    assert (answer.json()["token"], answer.json()["secret"]) == (None, None)
    assert accept(service, code).status_code == 422
    members = service.call(bob, "GET", f"{path}/members").json()["members"]
    assert [list(each) for each in members] == [MEMBER] * 2
    assert {each["email"]: each["role"] for each in members} == {ada.email: "owner", bob.email: "member"}
    token = service.token_for(bob, coop["id"])
    assert service.call(token, "POST", "/subdomains", {"fqdn": unused_name()}).status_code == 201
    assert [each["id"] for each in service.call(token, "GET", "/organizations").json()["organizations"]] == [
        coop["id"]
    ]
    renamed = service.call(ada, "PATCH", path, {"name": "Collective"}).json()["organization"]
    assert renamed == {**coop, "name": "Collective"}
    changed = service.call(ada, "PATCH", f"{path}/members/{bob.id}", {"role": "owner"})
    assert changed.json()["member"]["role"] == "owner"
    left = service.call(ada, "DELETE", f"{path}/members/{ada.id}", {})
    assert left.json() == {"ok": True, "removed": {"organization_id": coop["id"], "user_id": ada.id}}
    assert service.call(ada, "GET", path).status_code == 404
    assert service.call(bob, "DELETE", f"{path}/members/{bob.id}", {}).status_code == 409


def test_an_invitation_waits_for_the_user(service: RunningService) -> None:
    ada, bob = new_user(service), new_user(service)
    made = [create(service, ada, name) for name in ("Coop", "Choir")]
    codes = [invite(service, ada, each, bob.email, "member") for each in made]
    seen = service.call(bob, "GET", "/me/invitations?limit=1").json()
    (choir,) = seen["invitations"]
    assert list(choir) == RECEIVED
    assert (choir["organization_name"], choir["inviter_email"], choir["role"]) == (
        "Choir",
        ada.email,
        "member",
    )
    query = f"?limit=1&cursor={seen['page']['next_cursor']}"
    (coop,) = service.call(bob, "GET", f"/me/invitations{query}").json()["invitations"]
    assert (coop["organization_id"], coop["organization_slug"]) == (made[0]["id"], made[0]["slug"])
    accepting, declining = f"/me/invitations/{coop['id']}/accept", f"/me/invitations/{choir['id']}/decline"
    assert refused(service.call(ada, "POST", accepting)) == (404, "organization_not_found")
    answers = [service.call(bob, "POST", accepting, idempotency_key="once") for _ in range(2)]
    assert [each.json()["organization"] for each in answers] == 2 * [{**made[0], "role": "member"}]
    answers = [service.call(bob, "POST", declining, idempotency_key="twice") for _ in range(2)]
    assert [each.json() for each in answers] == 2 * [{"ok": True, "declined": {"id": choir["id"]}}]
    for path in (accepting, declining):
        assert refused(service.call(bob, "POST", path)) == (404, "organization_not_found")
    assert service.call(bob, "GET", "/me/invitations").json()["invitations"] == []
    assert [accept(service, each).status_code for each in codes] == [422, 422]
    token = service.token_for(ada, made[0]["id"])
    for method, path in (("GET", "/me/invitations"), ("POST", accepting), ("POST", declining)):
        assert refused(service.call(token, method, path)) == (403, "token_restricted")
    assert service.doctor() == []


def test_a_token_of_an_organization_creates_tokens_for_this_organization_only(
    service: RunningService,
) -> None:
    ada = new_user(service)
    coop, other = create(service, ada), create(service, ada)
    shared = service.token_for(ada, coop["id"])
    body = {"name": "child", "scopes": ["account:read"]}
    child = service.call(shared, "POST", "/tokens", body).json()["token"]
    assert child["organization_id"] == coop["id"]
    for organization_id in (other["id"], ada.organization["id"], 777777):
        answer = service.call(shared, "POST", "/tokens", {**body, "organization_id": organization_id})
        assert answer.json()["errors"][0]["code"] == "exceeds_token", organization_id
    answer = service.call(new_user(service), "POST", "/tokens", {**body, "organization_id": coop["id"]})
    assert answer.json()["errors"][0]["code"] == "value_invalid"
    listed = service.call(shared, "GET", "/tokens").json()["tokens"]
    assert {each["organization_id"] for each in listed} == {coop["id"]}
    assert {each["organization_id"] for each in service.call(ada, "GET", "/tokens").json()["tokens"]} == {
        coop["id"],
        ada.organization["id"],
    }


def test_a_token_for_some_names_of_its_user_gets_no_token_of_an_organization(
    service: RunningService,
) -> None:
    ada = new_user(service)
    coop = create(service, ada)
    service.token_for(ada, coop["id"], names=["*.example.test"])
    own_id = ada.organization["id"]
    limited = service.token_for(ada, own_id, names=["*.example.test"])
    body = {"name": "child", "scopes": ["account:read"], "organization_id": coop["id"]}
    answer = service.call(limited, "POST", "/tokens", body)
    assert answer.json()["errors"][0]["code"] == "exceeds_token"
    listed = service.call(limited, "GET", "/tokens").json()["tokens"]
    assert {each["organization_id"] for each in listed} == {own_id}


def test_an_idempotency_key_is_not_replayed_for_another_holder(service: RunningService) -> None:
    ada = new_user(service)
    shared = service.token_for(ada, create(service, ada)["id"])
    body = {"fqdn": unused_name()}
    assert service.call(ada, "POST", "/subdomains", body, idempotency_key="k").status_code == 201
    answer = service.call(shared, "POST", "/subdomains", body, idempotency_key="k")
    assert answer.json()["error"] == "idempotency_key_reused"
    answers = [
        service.call(shared, "POST", "/subdomains", {"fqdn": "k.example.test"}, idempotency_key="l")
        for _ in range(2)
    ]
    assert [each.status_code for each in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    made = [
        service.call(ada, "POST", "/organizations", {"name": "Once"}, idempotency_key="m") for _ in range(2)
    ]
    assert made[0].json() == made[1].json()


def test_a_former_member_whose_key_changed_nothing_breaks_no_invariant(service: RunningService) -> None:
    ada, bob = new_user(service), new_user(service)
    coop, fqdn = create(service, ada), unused_name()
    service.operator("organization", "set-role", str(coop["id"]), "--user", bob.email, "--role", "member")
    shared = service.token_for(ada, coop["id"])
    assert service.call(shared, "POST", "/subdomains", {"fqdn": fqdn}).status_code == 201
    path, of_bob = f"/subdomains/{fqdn}/nameservers", service.token_for(bob, coop["id"])
    answer = service.call(of_bob, "PUT", path, {"nameservers": []}, idempotency_key="unchanged")
    assert answer.status_code == 200, answer.text
    assert service.call(ada, "DELETE", f"/organizations/{coop['id']}/members/{bob.id}").status_code == 200
    assert service.doctor() == []


def test_the_key_of_a_deleted_invitation_breaks_no_invariant(service: RunningService) -> None:
    ada = new_user(service)
    path = f"/organizations/{create(service, ada)['id']}/invitations"
    for key in map(str, range(9)):  # the last id is of nothing else of the user
        body = {"email": f"eve{key}@example.org", "role": "member"}
        answer = service.call(ada, "POST", path, body, idempotency_key=key)
    old = mailed_codes.c.id == answer.json()["invitation"]["id"]
    service.write(lambda tx: tx.connection.execute(delete(mailed_codes).where(old)))
    assert service.doctor() == []


def test_a_repeated_deletion_of_an_organization_gets_the_first_answer(service: RunningService) -> None:
    ada = new_user(service)
    coop = create(service, ada)
    path, body = f"/organizations/{coop['id']}", {"confirm": coop["slug"]}
    answers = [service.call(ada, "DELETE", path, body, idempotency_key="once") for _ in range(2)]
    assert [each.json() for each in answers] == [{"ok": True, "deleted": {"id": coop["id"]}}] * 2
    assert "idempotent-replayed" in answers[1].headers


def test_two_owners_can_not_remove_each_other_concurrently(service: RunningService) -> None:
    ada, bob = new_user(service), new_user(service)
    coop = create(service, ada)
    service.operator("organization", "set-role", str(coop["id"]), "--user", bob.email, "--role", "owner")

    def remove(pair: tuple[Registrant, Registrant]) -> int:
        path = f"/organizations/{coop['id']}/members/{pair[1].id}"
        return service.call(pair[0], "DELETE", path, {}).status_code

    with ThreadPoolExecutor(2) as threads:
        statuses = sorted(threads.map(remove, ((ada, bob), (bob, ada))))
    assert statuses == [200, 404]


def test_a_session_acts_for_the_organization_in_its_header(service: RunningService) -> None:
    ada, bob = new_user(service, credit_count=5), new_user(service)
    coop = create(service, ada)
    chosen, browser = str(coop["id"]), signed_in(service, ada.email)
    fqdn = unused_name()
    made = browser.call("POST", "/subdomains", {"fqdn": fqdn}, sublet_organization=chosen)
    assert made.status_code == 201, made.text
    # Two tabs of one browser: each acts for what its own requests name.
    for _ in range(2):
        mine, ours = browser.call("GET", "/me"), browser.call("GET", "/me", sublet_organization=chosen)
        assert mine.json()["organization"]["id"] == ada.organization["id"]
        assert (ours.json()["organization"]["id"], ours.json()["user"]["id"]) == (coop["id"], ada.id)
        path = f"/subdomains/{fqdn}"
        assert browser.call("GET", path).status_code == 404
        assert browser.call("GET", path, sublet_organization=chosen).status_code == 200
    own = browser.call("GET", "/credits", sublet_organization=str(ada.organization["id"]))
    assert own.json()["credit_balance"] == 5
    other = signed_in(service, bob.email).call("GET", "/me", sublet_organization=chosen)
    assert refused(other) == (404, "organization_not_found")


@pytest.mark.parametrize("text", ["", "0", "-1", "Coop", "1 2", "9" * 20])
def test_a_malformed_header_is_refused(service: RunningService, text: str) -> None:
    ada = new_user(service)
    sent = {"sublet-organization": text, "cookie": f"{COOKIE}={signed_in(service, ada.email).secret}"}
    answer = service.client.get(f"{service.base_url}/me", headers=sent)
    assert refused(answer) == (400, "invalid_request")


def test_a_session_of_a_suspended_user_or_a_former_member_does_nothing_for_the_organization(
    service: RunningService,
) -> None:
    ada, bob = new_user(service), new_user(service)
    coop = create(service, ada)
    accept(service, invite(service, ada, coop, bob.email, "member"))
    chosen, browser = str(coop["id"]), signed_in(service, bob.email)
    assert browser.call("GET", "/credits", sublet_organization=chosen).status_code == 200
    service.operator("user", "suspend", bob.email, "--reason", "test")
    refusal = browser.call("GET", "/credits", sublet_organization=chosen)
    assert refused(refusal) == (403, "account_suspended")
    assert browser.call("GET", "/credits").status_code == 200
    service.operator("user", "unsuspend", bob.email)
    service.call(ada, "DELETE", f"/organizations/{chosen}/members/{bob.id}", {})
    refusal = browser.call("GET", "/credits", sublet_organization=chosen)
    assert refused(refusal) == (404, "organization_not_found")


def test_the_suspension_of_a_user_names_the_organizations_that_keep_names(service: RunningService) -> None:
    ada, fqdn = new_user(service), unused_name()
    coop, _ = create(service, ada), create(service, ada, "Without names")
    registered = service.call(service.token_for(ada, coop["id"]), "POST", "/subdomains", {"fqdn": fqdn})
    assert registered.status_code == 201
    done = service.operator("user", "suspend", ada.email, "--with-names")
    assert done["organizations"] == [{"id": coop["id"], "name": "Coop", "role": "owner", "names": 1}]
    done = service.operator("user", "suspend", f"organization:{coop['id']}", "--with-names")
    assert (done["names"], done["organizations"]) == ([fqdn], [])


TRIES = share(50, whole=200)


def test_invitations_do_not_reveal_whether_an_address_has_an_account(service: RunningService) -> None:
    def add_users(tx: Tx) -> None:
        for number in range(0, TRIES, INVITATIONS_TO_ADDRESS.most):
            add_user(tx, OPERATOR, f"known{number}@example.org", "Known")

    service.write(add_users)
    owners = [new_user(service) for _ in range(-(-2 * TRIES // INVITATIONS_OF_ORGANIZATION.most))]
    paths = [f"/organizations/{create(service, each)['id']}/invitations" for each in owners]

    def ask(kind: str, number: int) -> httpx.Response:
        turn = 2 * number // INVITATIONS_OF_ORGANIZATION.most
        email = f"{kind}{number - number % INVITATIONS_TO_ADDRESS.most}@example.org"
        return service.call(owners[turn], "POST", paths[turn], {"email": email, "role": "viewer"})

    seen = set()
    for answer in compare_times(ask, TRIES):
        invitation = answer.json()["invitation"]
        seen.add((answer.status_code, tuple(invitation), invitation["role"], str(sorted(answer.headers))))
    assert len(seen) == 1
