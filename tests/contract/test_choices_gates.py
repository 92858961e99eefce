"""The gate of sensitive operations over HTTP (docs/gates.md): which operations a session sends only after a
recent sign-in, and who gets a mail.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from sublet.errors import AccountSuspended
from sublet.mail.store import mails
from sublet.operations.operation import WRITE_METHODS, Operation
from sublet.restrictions import SCOPES
from sublet.surfaces import API_OPERATIONS, OPERATIONS
from support.authenticator import Authenticator
from support.browsers import Browser, signed_in
from support.error_triggers import new_user, unused_name
from support.open_registry import instant, opened
from support.running_service import Registrant, RunningService

WRITES = [each for each in API_OPERATIONS if each.method in WRITE_METHODS]
SENSITIVE = {each.name for each in WRITES if each.gate is not None and each.gate.is_before_body}
"""The operations whose gate is checked before the body. docs/gates.md lists them for people."""
ANY_METHOD = {each.name for each in WRITES if each.gate is not None and each.gate.any_method}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("gates")) as service:
        yield service


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    return new_user(service, credit_count=200)


@pytest.fixture(scope="module")
def old(service: RunningService, ada: Registrant) -> Browser:
    """A browser whose sign-in is eleven minutes old."""
    browser = signed_in(service, ada.email)
    service.clock.advance(minutes=11)
    return browser


@pytest.fixture(scope="module")
def by_mail(service: RunningService) -> Browser:
    """A browser that has just signed in by mail to an account with a passkey, as a
    thief of the mailbox can.
    """
    user = new_user(service)
    browser = signed_in(service, user.email)
    options = browser.call("POST", "/passkeys/challenge", {}).json()["public_key"]
    credential = Authenticator(service.origin).create(options)
    added = browser.call("POST", "/passkeys", {"name": "phone", "credential": credential})
    assert added.status_code == 201, added.text
    return signed_in(service, user.email)


def send(browser: Browser, operation: Operation) -> httpx.Response:
    """Send an operation about a missing thing, with a body that no operation accepts."""
    path = re.sub(r"{\w+}", "777777", operation.path)
    return browser.call(operation.method, path, {"unknown": [1]})


def test_each_writing_operation_declares_its_gate() -> None:
    for operation in OPERATIONS:
        assert (operation.gate is not None) is (operation.method in WRITE_METHODS), operation.name
        assert operation.gate is None or operation.gate.reason
    assert {"delete_me", "create_token", "change_member", "add_passkey", "push"} <= SENSITIVE


def test_few_operations_change_something_for_a_suspended_user() -> None:
    assert {each.name for each in OPERATIONS if each.method in WRITE_METHODS} - {
        each.name for each in OPERATIONS if AccountSuspended in each.refusals
    } == {
        *("open_ticket", "end_session", "end_other_sessions", "stop_recovery", "refuse_device"),
        *("sign_up", "confirm_sign_up", "request_sign_in", "confirm_sign_in"),
        *("challenge_passkey", "confirm_passkey", "start_device", "poll_device"),
    }


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_an_old_sign_in_sends_no_sensitive_operation(
    service: RunningService, ada: Registrant, old: Browser, by_mail: Browser, operation: Operation
) -> None:
    answer = send(old, operation)
    assert (answer.json()["error"] == "sign_in_required") is (operation.name in SENSITIVE), answer.text
    answer = send(by_mail, operation)
    is_refused = operation.name in SENSITIVE - ANY_METHOD
    assert (answer.json()["error"] == "sign_in_required") is is_refused, answer.text
    if is_refused:
        assert answer.json()["details"] == {"limit_seconds": 600, "how": ["passkey", "operator"]}
    with_token = service.call(
        ada, operation.method, re.sub(r"{\w+}", "777777", operation.path), {"unknown": [1]}
    )
    assert with_token.json()["error"] in ("session_required", "invalid_request")


def test_a_browser_signs_itself_out_at_any_time(service: RunningService) -> None:
    user = new_user(service)
    first, second = signed_in(service, user.email), signed_in(service, user.email)
    (second_id, _) = [each["id"] for each in first.call("GET", "/sessions").json()["sessions"]]
    service.clock.advance(minutes=11)
    assert first.call("DELETE", f"/sessions/{second_id}").json()["error"] == "sign_in_required"
    assert second.call("DELETE", f"/sessions/{second_id}").status_code == 200
    assert first.call("DELETE", "/sessions/current").status_code == 200


def test_an_old_sign_in_spends_no_credits(service: RunningService, ada: Registrant, old: Browser) -> None:
    fqdn, order = unused_name(), {"registration_mode": "plus"}
    assert old.call("POST", "/subdomains", {"fqdn": unused_name()}).status_code == 201, "a free name"
    quoted = old.call("POST", "/subdomains", {"fqdn": fqdn, **order})
    assert quoted.json()["error"] == "payment_confirmation_required"
    for method, path, body in (
        ("POST", "/subdomains", {"fqdn": fqdn, **order, "confirm": True}),
        ("PUT", f"/subdomains/{fqdn}/auto-renew", {"enabled": True, "max_credits": 10}),
    ):
        refused = old.call(method, path, body)
        assert (refused.status_code, refused.json()["error"]) == (403, "sign_in_required")
        assert signed_in(service, ada.email).call(method, path, body).status_code in (200, 201)
    path = f"/subdomains/{fqdn}/auto-renew"
    assert old.call("PUT", path, {"enabled": True, "max_credits": 0}).status_code == 200
    assert old.call("PUT", path, {"enabled": False}).status_code == 200
    assert old.call("GET", "/credits").json()["credit_balance"] == 190
    service.pass_days(350)
    late = signed_in(service, ada.email)
    service.clock.advance(minutes=11)
    refused = late.call("POST", f"/subdomains/{fqdn}/renew", {"confirm": True})
    assert refused.json()["error"] == "sign_in_required"
    assert signed_in(service, ada.email).call(
        "POST", f"/subdomains/{fqdn}/renew", {"confirm": True}
    ).status_code == 200  # fmt: skip


def expiry(answer: httpx.Response) -> timedelta:
    """Return the life that a token has left."""
    return instant(answer.json()["token"]["expires_at"]) - instant(answer.json()["token"]["created_at"])


def test_a_token_lives_30_days_and_a_year_at_most(service: RunningService) -> None:
    user = new_user(service)
    now = service.clock()
    wish = {"name": "ci", "scopes": ["account:read"]}
    for who in (signed_in(service, user.email), None):

        def call(method: str, path: str, body: Any, who: Browser | None = who) -> httpx.Response:
            return who.call(method, path, body) if who else service.call(user, method, path, body)

        made = call("POST", "/tokens", wish)
        assert timedelta(days=30) == expiry(made)
        path = f"/tokens/{made.json()['token']['id']}"
        for until, status in (
            (now + timedelta(days=365), 201),
            (now + timedelta(days=366, minutes=5), 422),
            (datetime(2096, 1, 1, tzinfo=UTC), 422),
            (None, 422),
        ):
            sent = None if until is None else until.isoformat()
            answer = call("POST", "/tokens", {**wish, "expires_at": sent})
            assert answer.status_code == status, (until, answer.text)
            answer = call("PATCH", path, {"expires_at": sent})
            assert answer.status_code == (200 if status == 201 else 422), (until, answer.text)
            if status == 422:
                assert answer.json()["errors"][0]["field"] == "expires_at"
    endless = service.call(user, "GET", "/me").json()["token"]
    assert endless["expires_at"] is None, "issued by the operator"
    renamed = service.call(user, "PATCH", f"/tokens/{endless['id']}", {"name": "mine", "expires_at": None})
    assert renamed.json()["token"]["expires_at"] is None


COOP_READ = ["account:read", "subdomains:read", "tickets:read", "tokens:write"]
NO_SPENDING = [each for each in SCOPES if each != "credits:spend"]


@pytest.mark.parametrize(
    ("restrictions", "given"),
    [
        ({}, {"owner", "member", "billing", "viewer"}),
        ({"scopes": ["organization:write"]}, set()),
        ({"scopes": ["organization:write", "tickets:write", *COOP_READ]}, {"viewer", "billing"}),
        ({"scopes": NO_SPENDING}, {"viewer", "billing"}),
        ({"daily_credits": 1000}, {"viewer", "billing"}),
        ({"networks": ["127.0.0.0/8", "::1/128"]}, set()),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_token_gives_no_role_that_may_do_more_than_the_token(
    service: RunningService, restrictions: dict[str, Any], given: set[str]
) -> None:
    owner, member = new_user(service), new_user(service)
    made = service.call(owner, "POST", "/organizations", {"name": f"Coop {owner.id}"}).json()["organization"]
    service.operator(
        "organization", "set-role", str(made["slug"]), "--user", member.email, "--role", "viewer"
    )
    for organization_id in (made["id"], None):
        wish = {"name": "t", "scopes": list(SCOPES), **restrictions}
        if organization_id is not None:
            wish["organization_id"] = organization_id
        token = service.call(owner, "POST", "/tokens", wish).json()["secret"]
        for role in ("owner", "member", "billing", "viewer"):
            path = f"/organizations/{made['id']}"
            body = {"email": f"{role}{owner.id}@example.com", "role": role}
            invited = service.call(token, "POST", f"{path}/invitations", body)
            assert (invited.status_code == 201) is (role in given), (role, invited.text)
            changed = service.call(token, "PATCH", f"{path}/members/{member.id}", {"role": role})
            # A viewer may stay a viewer: that gives nothing.
            assert (changed.status_code == 200) is (role in given or role == "viewer"), (role, changed.text)
            for answer in (invited, changed):
                if answer.status_code not in (200, 201):
                    (error,) = answer.json()["errors"]
                    assert (error["field"], error["code"]) == ("role", "exceeds_token")
            if changed.status_code == 200 and role != "viewer":
                service.operator(
                    "organization", "set-role", str(made["slug"]), "--user", member.email, "--role", "viewer"
                )


def recipients(service: RunningService, after: int, text: str) -> list[str]:
    """Return the addresses that got a mail with this text, after the mail with this id."""
    query = select(mails.c.recipient).where((mails.c.id > after) & mails.c.text.contains(text))
    return sorted(service.read(lambda tx: list(tx.connection.execute(query).scalars())))


def newest_mail(service: RunningService) -> int:
    query = select(mails.c.id).order_by(mails.c.id.desc()).limit(1)
    return int(service.read(lambda tx: tx.connection.execute(query).scalar_one_or_none()) or 0)


def test_each_new_and_widened_token_is_mailed(service: RunningService) -> None:
    owner, member = new_user(service), new_user(service)
    made = service.call(owner, "POST", "/organizations", {"name": f"Coop {owner.id}"}).json()["organization"]
    service.operator(
        "organization", "set-role", str(made["slug"]), "--user", member.email, "--role", "member"
    )
    browser = signed_in(service, member.email)
    for body, expected in (
        ({}, [member.email]),
        ({"organization_id": made["id"]}, sorted([owner.email, member.email])),
    ):
        before = newest_mail(service)
        wish = {"name": "evil name", "scopes": ["account:read"], **body}
        token = browser.call("POST", "/tokens", wish).json()["token"]
        path = f"/tokens/{token['id']}"
        assert recipients(service, before, f"The token {token['id']} was created") == expected
        browser.call("PATCH", path, {"scopes": ["account:read", "tickets:read"]})
        assert recipients(service, before, "may do more than before, by scopes") == expected
        browser.call("PATCH", path, {"scopes": ["account:read"], "name": "narrower"})
        assert len(recipients(service, before, f"The token {token['id']}")) == 2 * len(expected)
        browser.call("POST", f"{path}/rotate", {})
        assert recipients(service, before, "got a new secret") == expected
        assert recipients(service, before, "evil name") == []
    before = newest_mail(service)
    by_token = service.call(owner, "POST", "/tokens", {"name": "child", "scopes": ["account:read"]})
    assert recipients(service, before, f"The token {by_token.json()['token']['id']} was created") == [
        owner.email
    ]
