"""Open an account at the console: by code, by the link of a mail, and by an invitation to an organization."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.operations.session_cookie import COOKIE
from support.console_client import console, newest_mail
from support.running_service import RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("sign-up")
    with running_service(registry_address(path), signup="open") as running:
        running.add_domain()
        yield running
        assert running.doctor() == []


@pytest.mark.operations("sign_up", "confirm_sign_up")
def test_a_code_opens_an_account_and_signs_in(service: RunningService) -> None:
    browser = console(service)
    page = browser.get("/register?fqdn=eve.example.test")
    assert page.path == "/signin"
    page = browser.get("/signup?next=%2Fregister%3Ffqdn%3Deve.example.test")
    refused = browser.submit(page, "/signup", name="", email="eve")
    assert (refused.status, 'aria-invalid="true"' in refused.response.text) == (422, True)
    sent = browser.submit(refused, "/signup", name="Eve", email="eve@example.org")
    code = re.findall(r"your code is (\d{6})", newest_mail(service, "eve@example.org"))[0]
    done = browser.submit(sent, "/signup/confirm", code=code)
    assert (done.status, "Your account is open" in done.text) == (200, True), done.text
    assert "/register?fqdn=eve.example.test" in done.response.text
    assert COOKIE in browser.cookies
    assert browser.get("/names").status == 200
    (token,) = re.findall(r"sublet_\w+", done.text)[:1]
    assert service.call(token, "GET", "/me").json()["user"]["email"] == "eve@example.org"


@pytest.mark.operations("confirm_sign_up")
def test_a_link_opens_an_account_by_a_click(service: RunningService) -> None:
    browser = console(service)
    browser.submit(browser.get("/signup"), "/signup", name="Fay", email="fay@example.org")
    link = re.findall(r"/signup/confirm\?token=\S+", newest_mail(service, "fay@example.org"))[0]
    page = browser.get(link)
    assert COOKIE not in browser.cookies
    assert "Your account is open" in browser.submit(page, "/signup/confirm").text
    again = browser.submit(page, "/signup/confirm")
    assert (again.status, "This did not work" in again.text) == (422, True)


@pytest.mark.operations("accept_invitation")
def test_a_link_accepts_an_invitation_to_an_organization(service: RunningService) -> None:
    gil = service.add_user("gil@example.org")
    made = service.call(gil, "POST", "/organizations", {"name": "Guild"}).json()["organization"]
    body = {"email": "hal@example.org", "role": "member"}
    assert service.call(gil, "POST", f"/organizations/{made['id']}/invitations", body).status_code == 201
    link = re.findall(r"/signup/confirm\?token=\S+", newest_mail(service, "hal@example.org"))[0]
    browser = console(service)
    done = browser.submit(browser.get(link), "/signup/confirm")
    assert ("You are in Guild" in done.text, COOKIE in browser.cookies) == (True, True)


def test_an_invitation_is_no_failed_authentication(tmp_path: Path) -> None:
    """Each click of an invited person would otherwise count as a guess, and a wrong link counts once."""
    limits = {"rate_limit_failed_auth_per_minute": 1, "trusted_proxies": "127.0.0.1"}
    with running_service(registry_address(tmp_path), signup="open", rate_limits=True, **limits) as running:
        gil = running.add_user("gil@example.org")
        made = running.call(gil, "POST", "/organizations", {"name": "Guild"}).json()["organization"]
        browser = console(running)
        for email in ("hal@example.org", "ivy@example.org", "jim@example.org"):
            body = {"email": email, "role": "member"}
            running.call(gil, "POST", f"/organizations/{made['id']}/invitations", body)
            token = re.findall(r"/signup/confirm\?token=(\S+)", newest_mail(running, email))[0]
            done = browser.post("/signup/confirm", {"token": token}, x_forwarded_for="203.0.113.9")
            assert done.status == 200, done.text
        wrong = [
            browser.post("/signup/confirm", {"token": "wrong"}, x_forwarded_for="203.0.113.9").status
            for _ in range(2)
        ]
        assert wrong == [422, 429]


def test_a_program_gets_no_session(service: RunningService) -> None:
    """Only a page of the service is signed in; a program gets its token alone."""
    browser = console(service)
    browser.submit(browser.get("/signup"), "/signup", name="Ida", email="ida@example.org")
    code = re.findall(r"your code is (\d{6})", newest_mail(service, "ida@example.org"))[0]
    answer = service.client.post(
        f"{browser.origin}/auth/signup/confirm", json={"email": "ida@example.org", "code": code}
    )
    assert (answer.status_code, "set-cookie" in answer.headers) == (201, False)
