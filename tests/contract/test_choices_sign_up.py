"""Opening an account over HTTP (docs/spec-choices.md, "Opening an account"): who may, limits, races, and that
answers don't tell addresses apart.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from sublet.accounts.store import users
from sublet.accounts.users import add_user
from sublet.db import Tx
from sublet.mail.store import mails
from sublet.sign_up.store import mailed_codes
from support.answer_times import compare_times
from support.console_client import newest_code
from support.registry import OPERATOR
from support.repetitions import share
from support.running_service import RunningService, registry_address, running_service

pytestmark = pytest.mark.slow
EVE = "eve@example.org"
AT_ONCE = 16
TRIES = share(20, whole=200)


@pytest.fixture
def service(registry_url: str) -> Iterator[RunningService]:
    with running_service(registry_url, signup="open") as found:
        found.add_domain()
        yield found


def sign_up(service: RunningService, email: str = EVE) -> httpx.Response:
    return service.post("/auth/signup", {"email": email, "name": "Eve"})


def count(service: RunningService, table: Any) -> int:
    return service.read(
        lambda tx: int(tx.connection.execute(select(func.count()).select_from(table)).scalar_one())
    )


@pytest.mark.parametrize("signup", ["invite", "closed"])
def test_a_closed_registry_accepts_invited_people_only(tmp_path: Path, signup: str) -> None:
    with running_service(registry_address(tmp_path), signup=signup) as service:
        service.environment["SUBLET_PUBLIC_URL"] = "https://names.example.net"
        service.operator("user", "invite", EVE, "--name", "Eve")
        for email in (EVE, "other@example.org"):
            refused = sign_up(service, email)
            assert (refused.status_code, refused.json()["error"]) == (403, "signup_closed")
        done = service.post("/auth/signup/confirm", {"email": EVE, "code": newest_code(service, EVE)})
        assert done.status_code == 201


@pytest.mark.whole_on_postgresql
def test_an_invitation_needs_the_address_of_the_service(service: RunningService) -> None:
    refused = service.operator("user", "invite", EVE, "--name", "Eve", expect=1)
    assert "public_url" in refused["message"]


def test_many_sign_ups_and_uses_of_a_code_give_one_account(service: RunningService) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(lambda _: sign_up(service), range(40)))
        assert {each.status_code for each in asked} == {202}
        assert count(service, mailed_codes) == count(service, mails) == 1
        body = {"email": EVE, "code": newest_code(service, EVE)}
        done = list(pool.map(lambda _: service.post("/auth/signup/confirm", body), range(40)))
    assert sorted(each.status_code for each in done).count(201) == 1
    assert {each.status_code for each in done} <= {201, 422, 429}
    assert count(service, users) == 1
    assert service.doctor() == []


def test_a_new_user_may_do_less_until_the_account_is_old_enough(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"new_user_free_quota": 1, "new_user_days": 7, "new_user_withheld_modes": "plus"}
    with running_service(registry_address(tmp_path), signup="open", **limits) as service:
        service.add_domain()
        sign_up(service)
        done = service.post("/auth/signup/confirm", {"email": EVE, "code": newest_code(service, EVE)}).json()
        eve, since = done["secret"], service.clock()
        plus = {"fqdn": "blog.example.test", "registration_mode": "plus"}
        old = service.add_user("old@example.org")
        assert service.call(old, "POST", "/subdomains", plus).status_code == 402
        refused = service.call(eve, "POST", "/subdomains", plus).json()
        assert (refused["error"], list(refused["details"])) == (
            "registration_mode_not_allowed",
            ["available_at"],
        )
        until = datetime.fromisoformat(refused["details"]["available_at"])
        assert timedelta(days=7) - timedelta(minutes=1) < until - since <= timedelta(days=7)
        path = "/availability?fqdn=blog.example.test"
        seen = service.call(eve, "GET", path).json()["availability"]
        assert [each["mode"] for each in seen["modes"]] == ["free"]
        service.register(eve, "shop.example.test")
        seen = service.call(eve, "GET", path).json()["availability"]
        assert (seen["available"], seen["reason"], seen["modes"]) == (False, "free_quota_exceeded", [])
        refused = service.call(eve, "POST", "/subdomains", {"fqdn": "blog.example.test"}).json()
        assert (refused["error"], refused["details"]["limit"]) == ("free_quota_exceeded", 1)
        service.clock.advance(days=7)
        seen = service.call(eve, "GET", path).json()["availability"]
        assert [each["mode"] for each in seen["modes"]] == ["free", "plus"]
        assert service.call(eve, "POST", "/subdomains", plus).status_code == 402


@pytest.mark.whole_on_postgresql
def test_a_malformed_request_is_refused_as_everywhere(service: RunningService) -> None:
    auth = service.origin + "/auth"
    assert service.client.get(f"{auth}/signup").status_code == 405
    assert (
        service.client.post(
            f"{auth}/signup", content=b"{", headers={"content-type": "application/json"}
        ).json()["error"]
        == "invalid_json"
    )
    assert service.post("/auth/signup", {"mail": EVE}).json()["error"] == "invalid_request"
    missing = service.post("/auth/signup", {}).json()
    assert [each["field"] for each in missing["errors"]] == ["email", "name"]
    wrong = service.post("/auth/signup", {"email": EVE, "name": "Eve", "challenge": "e30="}).json()
    assert [each["field"] for each in wrong["errors"]] == ["challenge"]


@pytest.mark.whole_on_postgresql
def test_answers_and_times_do_not_reveal_whether_an_address_has_an_account(service: RunningService) -> None:
    service.write(_add_users)
    answers = compare_times(lambda kind, number: sign_up(service, f"{kind}{number}@example.org"), TRIES)
    seen = {
        (each.status_code, each.text, tuple(sorted(set(each.headers) - {"x-request-id"}))) for each in answers
    }
    assert len(seen) == 1


def _add_users(tx: Tx) -> None:
    for number in range(TRIES):
        add_user(tx, OPERATOR, f"known{number}@example.org", "Known")


@pytest.mark.whole_on_postgresql
def test_the_link_shows_a_button_that_opens_the_account(service: RunningService) -> None:
    sign_up(service)
    query = select(mails.c.text)
    text = service.read(lambda tx: str(tx.connection.execute(query).scalar_one()))
    link = re.search(r"^(http://\S+/signup/confirm\?token=(\S+))$", text, re.MULTILINE)
    assert link is not None
    for _ in range(2):
        page = service.client.get(link[1])
        assert page.status_code == 200
        assert f'value="{link[2]}"' in page.text
    assert count(service, users) == 0, "a mail program that follows the link opens nothing"
    url = link[1].partition("?")[0]
    opened = service.client.post(url, data={"token": link[2]})
    assert (opened.status_code, opened.headers["location"]) == (303, "/register")
    assert count(service, users) == 1
    for bad in ({"token": link[2]}, {"token": "<b>"}, {"token": ""}, {"token": "x" * 2000}):
        refused = service.client.post(url, data=bad)
        assert (refused.status_code, "This link doesn" in refused.text) == (422, True)
    hostile = service.client.get(url, params={"token": '"><script>'})
    assert "<script>" not in hostile.text
    assert "unsafe" not in hostile.headers["content-security-policy"]
    assert service.client.put(url).status_code == 405
