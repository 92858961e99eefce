"""Signing in over HTTP (docs/spec-choices.md, "Signing in"): the cookie, forged requests, races, and that
answers don't tell addresses apart.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from sublet.accounts.session_store import sessions
from sublet.accounts.store import users
from sublet.accounts.users import add_user
from sublet.audit import audit_events
from sublet.db import Tx
from sublet.mail.store import mails
from sublet.operations.client import COOKIE
from sublet.sign_up.store import mailed_codes
from support.answer_times import compare_times
from support.authenticator import Authenticator
from support.browsers import Browser
from support.console_client import newest_code, newest_mail
from support.registry import OPERATOR
from support.repetitions import share
from support.running_service import RunningService, registry_address, running_service

pytestmark = pytest.mark.slow
ADA = "ada@example.org"
AT_ONCE = 16
TRIES = share(20, whole=200)


@pytest.fixture
def fresh(registry_url: str) -> Iterator[RunningService]:
    with running_service(registry_url) as found:
        found.add_user(ADA)
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One service for all tests, with a user for each."""
    with running_service(registry_address(tmp_path_factory.mktemp("sign-in"))) as found:
        found.add_domain()
        yield found
        assert found.doctor() == []


@pytest.fixture
def ada(service: RunningService, request: pytest.FixtureRequest) -> str:
    return service.add_user(f"{request.node.name[:50]}@example.org").email


def count(service: RunningService, table: Any) -> int:
    query = select(func.count()).select_from(table)
    return service.read(lambda tx: int(tx.connection.execute(query).scalar_one()))


def sessions_of(service: RunningService, email: str) -> int:
    query = select(func.count()).select_from(sessions.join(users)).where(users.c.email == email)
    return service.read(lambda tx: int(tx.connection.execute(query).scalar_one()))


def cookie_of(answer: httpx.Response) -> str:
    found = re.fullmatch(
        rf"{COOKIE}=([\w-]{{43}}); Max-Age=(\d+); Path=/; Secure; HttpOnly; SameSite=Lax",
        answer.headers.get_list("set-cookie")[0],
    )
    assert found is not None, answer.headers.get_list("set-cookie")[0]
    assert 14 * 86_400 - 60 < int(found[2]) <= 14 * 86_400
    return found[1]


def sign_in(service: RunningService, email: str, **headers: str) -> Browser:
    service.clock.advance(minutes=1)
    assert service.post("/auth/sessions", {"email": email}).status_code == 202
    body = {"email": email, "code": newest_code(service, email)}
    done = service.post("/auth/sessions/confirm", body, **headers)
    assert done.status_code == 201, done.text
    return Browser(service, cookie_of(done))


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_a_session_can_do_all_that_a_token_with_all_scopes_can(service: RunningService, ada: str) -> None:
    browser = sign_in(service, ada, user_agent="Firefox")
    me = browser.call("GET", "/me").json()
    assert (me["user"]["email"], me["token"]) == (ada, None)
    body = {"fqdn": "blog.example.test"}
    made = [browser.call("POST", "/subdomains", body, idempotency_key="k") for _ in range(2)]
    assert [each.status_code for each in made] == [201, 201]
    assert made[1].headers["idempotent-replayed"] == "true"
    token = browser.call("POST", "/tokens", {"name": "ci", "scopes": ["credits:spend", "account:read"]})
    assert token.status_code == 201
    assert service.call(token.json()["secret"], "GET", "/me").status_code == 200
    listed = browser.call("GET", "/tokens").json()["tokens"]
    assert {each["name"] for each in listed} == {"test", "ci"}
    (shown,) = browser.call("GET", "/sessions").json()["sessions"]
    assert (shown["how"], shown["user_agent"], shown["current"]) == ("mail", "Firefox", True)
    query = select(audit_events.c.action).where(audit_events.c.session_id == shown["id"])
    done = service.read(lambda tx: set(tx.connection.execute(query).scalars()))
    assert done >= {"session.sign_in", "subdomain.register", "token.issue"}


def test_a_change_from_another_origin_is_refused(service: RunningService, ada: str) -> None:
    browser = sign_in(service, ada)
    for forged in (
        {"origin": ""},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": service.origin + "0"},
        {"origin": service.origin, "sec_fetch_site": "same-site"},
        {"origin": "", "sec_fetch_site": "cross-site"},
        {"origin": "", "sec_fetch_site": "none"},
    ):
        refused = browser.call("POST", "/tokens", {"name": "x", "scopes": ["tickets:read"]}, **forged)
        assert refusal(refused) == (403, "origin_refused"), forged
    assert browser.call("GET", "/me", origin="https://evil.example").status_code == 200
    fetched = browser.call("PATCH", "/me", {"name": "Ada L."}, origin="null", sec_fetch_site="same-origin")
    assert fetched.json()["user"]["name"] == "Ada L."


def test_a_sign_in_from_another_site_is_refused(service: RunningService, ada: str) -> None:
    service.post("/auth/sessions", {"email": ada})
    body = {"email": ada, "code": newest_code(service, ada)}
    for path in ("/auth/sessions/confirm", "/auth/passkeys/confirm"):
        sent: Any = body if "sessions" in path else {"credential": {}}
        refused = service.post(path, sent, origin="https://evil.example")
        assert refusal(refused) == (403, "origin_refused")
    assert service.post("/auth/sessions/confirm", body, origin=service.origin).status_code == 201


def test_the_authorization_header_precedes_the_cookie(service: RunningService, ada: str) -> None:
    browser = sign_in(service, ada)
    token = service.issue_token(ada)
    answer = browser.call("POST", "/tokens", None, authorization=f"Bearer {token}", origin="")
    assert answer.status_code == 422, "no origin is needed"
    assert browser.call("GET", "/me", authorization=f"Bearer {token}").json()["token"]["name"] == "test"
    assert refusal(browser.call("GET", "/me", authorization="Bearer x")) == (401, "token_invalid")
    for method, path in (("GET", "/sessions"), ("GET", "/passkeys"), ("PATCH", "/me")):
        refused = service.call(token, method, path, None if method == "GET" else {"name": "x"})
        assert refusal(refused) == (403, "session_required")


def test_a_session_that_has_ended_loses_its_cookie(service: RunningService, ada: str) -> None:
    first, second = sign_in(service, ada), sign_in(service, ada)
    listed = first.call("GET", "/sessions").json()["sessions"]
    assert len(listed) == 2
    other = next(each["id"] for each in listed if not each["current"])
    done = first.call("DELETE", f"/sessions/{other}")
    assert (done.json(), "set-cookie" in done.headers) == ({"ok": True, "deleted": {"id": other}}, False)
    for ended in (second, Browser(service, "x"), Browser(service, first.secret + "x")):
        refused = ended.call("GET", "/me")
        assert refusal(refused) == (401, "session_invalid")
        assert refused.headers["set-cookie"].startswith(f"{COOKIE}=; Max-Age=0; Path=/; Secure")
    twice = service.call(None, "GET", "/me", cookie=f"{COOKIE}={first.secret}; {COOKIE}={first.secret}")
    assert refusal(twice) == (401, "token_missing")
    done = first.call("DELETE", "/sessions/current")
    assert done.headers["set-cookie"].startswith(f"{COOKIE}=; Max-Age=0;")
    assert refusal(first.call("GET", "/me")) == (401, "session_invalid")
    assert refusal(sign_in(service, ada).call("DELETE", "/sessions/99")) == (404, "session_not_found")


def test_signing_in_again_rotates_the_secret(service: RunningService, ada: str) -> None:
    browser = sign_in(service, ada)
    service.clock.advance(minutes=11)
    wish = {"name": "ci", "scopes": ["credits:spend"]}
    refused = browser.call("POST", "/tokens", wish)
    assert refusal(refused) == (403, "sign_in_required")
    assert refused.json()["details"]["limit_seconds"] == 600
    again = sign_in(service, ada, cookie=f"{COOKIE}={browser.secret}")
    assert refusal(browser.call("GET", "/me")) == (401, "session_invalid")
    assert again.call("POST", "/tokens", wish).status_code == 201
    assert sessions_of(service, ada) == 1
    service.clock.advance(hours=24)
    assert refusal(again.call("GET", "/me")) == (401, "session_invalid")


def test_many_uses_of_a_code_give_one_session(fresh: RunningService) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(lambda _: fresh.post("/auth/sessions", {"email": ADA}), range(40)))
        assert {each.status_code for each in asked} == {202}
        assert count(fresh, mailed_codes) == count(fresh, mails) == 1
        body = {"email": ADA, "code": newest_code(fresh, ADA)}
        done = list(pool.map(lambda _: fresh.post("/auth/sessions/confirm", body), range(40)))
    assert [each.status_code for each in done].count(201) == 1
    assert {each.status_code for each in done} == {201, 422}
    assert count(fresh, sessions) == 1
    assert fresh.doctor() == []


def test_answers_and_times_do_not_reveal_whether_an_address_has_an_account(service: RunningService) -> None:
    """Also when a code is entered."""
    service.write(_add_users)
    bodies: dict[str, dict[str, str]] = {"/auth/sessions": {}, "/auth/sessions/confirm": {"code": "x"}}
    for path, body in bodies.items():

        def ask(kind: str, number: int, path: str = path, body: dict[str, str] = body) -> httpx.Response:
            return service.post(path, {"email": f"{kind}{number}@example.org", **body})

        seen = {
            (
                each.status_code,
                re.sub(r'"request_id":"\w+"', "", each.text),
                tuple(sorted(set(each.headers) - {"x-request-id"})),
            )
            for each in compare_times(ask, TRIES)
        }
        assert len(seen) == 1


def _add_users(tx: Tx) -> None:
    for number in range(TRIES):
        add_user(tx, OPERATOR, f"known{number}@example.org", "Known")


def test_wrong_codes_passkeys_and_sessions_count_as_failed_attempts(tmp_path: Path) -> None:
    bad: list[tuple[str, Any]] = [
        ("/auth/sessions/confirm", {"email": ADA, "code": "000000"}),
        ("/auth/passkeys/confirm", {"credential": {}}),
        ("/auth/signup/confirm", {"email": ADA, "code": "000000"}),
    ]
    with running_service(
        registry_address(tmp_path), rate_limits=True, rate_limit_failed_auth_per_minute=3
    ) as service:
        statuses = [service.post(*bad[number % 3]).status_code for number in range(4)]
        assert statuses == [422, 422, 422, 429]
        assert Browser(service, "x").call("GET", "/me").status_code == 429


def test_a_session_has_its_own_rate_limits(tmp_path: Path) -> None:
    with running_service(
        registry_address(tmp_path), rate_limits=True, rate_limit_read_per_minute=2
    ) as service:
        service.add_user(ADA)
        first, second = sign_in(service, ADA), sign_in(service, ADA)
        assert [first.call("GET", "/me").status_code for _ in range(3)] == [200, 200, 429]
        assert second.call("GET", "/me").status_code == 200


def test_passkeys_over_http(service: RunningService, ada: str) -> None:
    browser = sign_in(service, ada)
    authenticator = Authenticator(service.origin)
    asked = browser.call("POST", "/passkeys/challenge", {})
    credential = authenticator.create(asked.json()["public_key"])
    body = {"name": "phone", "credential": credential}
    added = [browser.call("POST", "/passkeys", body, idempotency_key="p") for _ in range(2)]
    assert [each.status_code for each in added] == [201, 201]
    assert added[0].json() == added[1].json()
    passkey_id = added[0].json()["passkey"]["id"]
    wanted = service.post("/auth/passkeys/challenge", {}).json()["public_key"]
    done = service.post("/auth/passkeys/confirm", {"credential": authenticator.get(wanted)})
    assert (done.status_code, done.json()["session"]["how"]) == (201, "passkey")
    by_passkey, by_mail = Browser(service, cookie_of(done)), sign_in(service, ada)
    refused = by_mail.call("DELETE", f"/passkeys/{passkey_id}")
    assert refusal(refused) == (403, "sign_in_required")
    began = by_mail.call("POST", "/passkeys/recovery", {})
    assert began.json()["recovery"]["ready_at"] > began.json()["recovery"]["asked_at"]
    assert refusal(by_mail.call("POST", "/passkeys/recovery", {})) == (409, "conflict")
    stopped = by_mail.call("DELETE", "/passkeys/recovery")
    assert (stopped.status_code, stopped.json()["recovery"]) == (200, None)
    assert refusal(by_passkey.call("DELETE", "/passkeys/99")) == (404, "passkey_not_found")
    removed = by_passkey.call("DELETE", f"/passkeys/{passkey_id}").json()
    assert removed == {"ok": True, "deleted": {"id": passkey_id}}
    assert by_passkey.call("GET", "/passkeys").json()["passkeys"] == []
    assert refusal(browser.call("POST", "/passkeys", body, idempotency_key="p")) == (404, "passkey_not_found")


def test_the_setting_public_url_determines_the_accepted_origin(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path), public_url="https://Names.example.net/") as service:
        service.add_user(ADA)
        browser = sign_in(service, ADA)
        wish = {"name": "Ada L."}
        refused = browser.call("PATCH", "/me", wish)
        assert refusal(refused) == (403, "origin_refused")
        assert "https://names.example.net" in refused.json()["message"]
        assert browser.call("PATCH", "/me", wish, origin="https://names.example.net").status_code == 200
        options = service.post("/auth/passkeys/challenge", {}).json()["public_key"]
        assert options["rpId"] == "names.example.net"


def test_the_activity_shows_the_address_of_a_sign_in(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path), trusted_proxies="127.0.0.1", signup="open") as service:
        service.add_user(ADA)
        browser = sign_in(service, ADA, x_forwarded_for="198.51.100.7")
        again = sign_in(service, ADA, x_forwarded_for="2001:db8::7%eth0", cookie=f"{COOKIE}={browser.secret}")
        link = re.findall(r"/signin/confirm\?token=(\S+)", _ask_code(service, ADA))[0]
        page = service.client.post(
            f"{service.origin}/signin/confirm",
            data={"token": link},
            headers={"x-forwarded-for": "198.51.100.9"},
        )
        assert page.status_code == 303
        found = again.call("GET", "/activity?action=session.sign_in").json()["activity"]
        assert [each["address"] for each in found] == ["198.51.100.9", "2001:db8::7", "198.51.100.7"]


def test_the_activity_shows_the_address_of_a_sign_up(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path), trusted_proxies="127.0.0.1", signup="open") as service:
        service.post("/auth/signup", {"email": ADA, "name": "Ada"})
        link = re.findall(r"/signup/confirm\?token=(\S+)", newest_mail(service, ADA))[0]
        service.post("/auth/signup/confirm", {"token": link}, x_forwarded_for="198.51.100.7")
        browser = sign_in(service, ADA)
        found = browser.call("GET", "/activity").json()["activity"]
        assert {(each["action"], each["address"]) for each in found if each["by"] == "system"} == {
            ("user.add", "198.51.100.7"),
            ("token.issue", "198.51.100.7"),
        }
        assert browser.call("DELETE", "/me", {"confirm": ADA}).status_code == 200
        query = select(audit_events.c.address).where(audit_events.c.address.is_not(None))
        assert service.read(lambda tx: tx.connection.execute(query).all()) == []


def _ask_code(service: RunningService, email: str) -> str:
    service.clock.advance(minutes=1)
    assert service.post("/auth/sessions", {"email": email}).status_code == 202
    return newest_mail(service, email)
