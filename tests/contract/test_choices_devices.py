"""Programs that ask for a token, over HTTP (docs/spec-choices.md, "Signing in a program"): races, forged
requests, guessed codes.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from sublet.limits import USER_CODES_PER_MINUTE
from support.browsers import signed_in
from support.running_service import RunningService, running_service

pytestmark = pytest.mark.slow
AT_ONCE = 40
THREADS = 16


@pytest.fixture
def fresh(registry_url: str) -> Iterator[RunningService]:
    with running_service(registry_url) as found:
        found.add_user("ada@example.org")
        yield found
        assert found.doctor() == []


def start(service: RunningService, **body: str) -> dict[str, Any]:
    answer = service.post("/auth/device", body)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def test_many_polls_and_approvals_at_once_give_one_token(fresh: RunningService) -> None:
    browser, started = signed_in(fresh, "ada@example.org"), start(fresh, name="laptop")

    def act(number: int) -> httpx.Response:
        if number % 2:
            return browser.call("POST", f"/devices/{started['user_code']}/allow", {})
        return fresh.post("/auth/device/token", {"device_code": started["device_code"]})

    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(act, range(2 * AT_ONCE)))
    last = fresh.post("/auth/device/token", {"device_code": started["device_code"]})
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


def test_only_a_person_at_a_page_of_ours_allows(service: RunningService) -> None:
    ada = service.add_user("ada@example.org")
    started, browser = start(service, name="laptop"), signed_in(service, ada.email)
    path = f"/devices/{started['user_code']}"
    shown = browser.call("GET", path).json()["device"]
    assert (shown["name"], shown["state"], "credits:spend" in shown["scopes"]) == ("laptop", "pending", False)
    assert service.call(ada, "GET", path).json()["error"] == "session_required"
    refused = browser.call("POST", f"{path}/allow", {}, origin="https://evil.example")
    assert (refused.status_code, refused.json()["error"]) == (403, "origin_refused")
    poll = service.post("/auth/device/token", {"device_code": started["device_code"]})
    assert (poll.status_code, poll.json()["error"]) == (400, "authorization_pending")
    allowed = browser.call("POST", f"{path}/allow", {"may_spend": True})
    assert allowed.json()["device"]["state"] == "allowed"
    given = service.post("/auth/device/token", {"device_code": started["device_code"]}).json()
    assert "credits:spend" in given["token"]["scopes"]
    assert browser.call("POST", f"{path}/allow", {}).status_code == 404


def test_a_decision_with_a_key_breaks_no_invariant(service: RunningService) -> None:
    started = [start(service) for _ in range(9)][-1]  # an id that nothing else of the person has
    browser = signed_in(service, service.add_user("eve@example.org").email)
    path, key = f"/devices/{started['user_code']}/refuse", {"Idempotency-Key": "decided"}
    assert browser.call("POST", path, {}, **key).status_code == 200
    assert service.doctor() == []


def test_codes_of_people_cannot_be_guessed(tmp_path: Any) -> None:
    with running_service(f"sqlite:///{tmp_path}/registry.db", rate_limits=True) as service:
        service.add_user("ada@example.org")
        browser, started = signed_in(service, "ada@example.org"), start(service)
        statuses = [
            browser.call("GET", f"/devices/BBBB-BBB{letter}").status_code
            for letter in "BCDFGHJKLM"[:USER_CODES_PER_MINUTE]
        ]
        assert set(statuses) == {404}
        refused = browser.call("POST", f"/devices/{started['user_code']}/allow", {})
        assert refused.status_code == 429, "also the right one"
