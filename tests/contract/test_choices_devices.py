"""Programs that ask for a token, over HTTP (docs/spec-choices.md, "Signing in a program"): races, forged requests, guessed codes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from sublet.http.limits import USER_CODES_PER_MINUTE
from support.browsers import signed_in
from support.running_service import RunningService, running_service

pytestmark = pytest.mark.slow
AT_ONCE = 100
THREADS = 16


@pytest.fixture
def fresh(database_url: str) -> Iterator[RunningService]:
    with running_service(database_url) as found:
        found.add_user("ada@example.org")
        yield found
        assert found.doctor() == []


def post(service: RunningService, path: str, body: Any) -> httpx.Response:
    return service.client.post(service.base_url.removesuffix("/api/v1") + path, json=body)


def start(service: RunningService, **body: str) -> dict[str, Any]:
    answer = post(service, "/auth/device", body)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def test_many_polls_and_approvals_at_once_give_one_token(fresh: RunningService) -> None:
    browser, started = signed_in(fresh, "ada@example.org"), start(fresh, name="laptop")

    def act(number: int) -> httpx.Response:
        if number % 2:
            return browser.open("POST", "/device", {"code": started["user_code"], "do": "allow"})
        return post(fresh, "/auth/device/token", {"device_code": started["device_code"]})

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(act, range(2 * AT_ONCE)))
    last = post(fresh, "/auth/device/token", {"device_code": started["device_code"]})
    assert [each.status_code for each in answers[1::2]].count(200) == 1
    polls = [*answers[::2], last]
    (given,) = [each.json() for each in polls if each.status_code == 200]
    errors = {each.json()["error"] for each in polls if each.status_code != 200}
    assert errors <= {"authorization_pending", "slow_down", "expired_token"}
    assert fresh.call(given["secret"], "GET", "/me").json()["token"]["name"] == "laptop"
    tokens = fresh.call(given["secret"], "GET", "/tokens").json()["tokens"]
    assert [each["name"] for each in tokens].count("laptop") == 1
    done = [each["action"] for each in browser.call("GET", "/activity").json()["activity"]]
    assert done.count("device.allow") == 1


def test_the_page_asks_before_anything_is_allowed(service: RunningService) -> None:
    service.add_user("ada@example.org")
    started = start(service, name="<b>laptop</b>")
    origin = service.base_url.removesuffix("/api/v1")
    assert started["verification_uri"].endswith("/device")
    path = started["verification_uri_complete"].removeprefix(started["verification_uri"])
    unknown = service.client.get(f"{origin}/device{path}")
    assert "Sign in first" in unknown.text
    assert "laptop" not in unknown.text
    mailed = service.client.post(
        f"{origin}/device", data={"do": "mail", "email": "ada@example.org"}, headers={"origin": origin}
    )
    assert "Look into your mail" in mailed.text
    browser = signed_in(service, "ada@example.org")
    assert "Enter the code" in browser.open("GET", "/device").text
    shown = browser.open("GET", f"/device{path}")
    assert "Allow &lt;b&gt;laptop&lt;/b&gt;?" in shown.text
    assert "ada@example.org" in shown.text
    assert "script" not in shown.headers["content-security-policy"]
    form = {"code": started["user_code"], "do": "allow"}
    for forged in ({"origin": "https://evil.example"}, {"origin": ""}, {"sec_fetch_site": "cross-site"}):
        assert browser.open("POST", "/device", form, **forged).status_code == 403
    assert service.client.post(f"{origin}/device", data=form, headers={"origin": origin}).status_code == 401
    poll = post(service, "/auth/device/token", {"device_code": started["device_code"]})
    assert (poll.status_code, poll.json()["error"]) == (400, "authorization_pending")
    assert poll.json()["details"] == {"interval": 5}
    done = browser.open("POST", "/device", {**form, "spend": "yes"})
    assert done.status_code == 200
    assert "is allowed" in done.text
    given = post(service, "/auth/device/token", {"device_code": started["device_code"]}).json()
    assert "credits:spend" in given["token"]["scopes"]
    assert browser.open("POST", "/device", form).status_code == 422


def test_codes_of_people_cannot_be_guessed(tmp_path: Any) -> None:
    with running_service(f"sqlite:///{tmp_path}/registry.db", rate_limits=True) as service:
        service.add_user("ada@example.org")
        browser, started = signed_in(service, "ada@example.org"), start(service)
        statuses = [
            browser.open("GET", f"/device?code=BBBB-BBB{letter}").status_code
            for letter in "BCDFGHJKLM"[:USER_CODES_PER_MINUTE]
        ]
        assert set(statuses) == {422}
        form = {"code": started["user_code"], "do": "allow"}
        assert browser.open("POST", "/device", form).status_code == 429, "also the right one"
