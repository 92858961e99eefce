"""Open an account at the console: by code, by the link of a mail, and by an invitation to an organization."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.operations.client import COOKIE
from support.console_client import console, newest_mail
from support.running_service import RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("sign-up")
    with running_service(registry_address(path), signup="open") as running:
        running.add_domain()
        yield running
        assert running.doctor() == []


def code_to(service: RunningService, email: str) -> str:
    return str(re.findall(r"your code is (\d{6})", newest_mail(service, email))[0])


@pytest.mark.operations("challenge", "sign_up", "confirm_sign_up")
def test_one_form_opens_an_account_and_keeps_the_chosen_name(service: RunningService) -> None:
    browser = console(service)
    page = browser.get("/register?fqdn=eve.example.test")
    assert (page.path, "Then you register eve.example.test" in page.text) == ("/signin", True)
    refused = browser.submit(page, "/signin", email="eve")
    assert (refused.status, 'aria-invalid="true"' in refused.response.text) == (422, True)
    sent = browser.submit(refused, "/signin", email="eve@example.org")
    wrong = browser.submit(sent, "/signin/code", code="1")
    assert (wrong.status, "This code is wrong, used or too old" in wrong.text) == (422, True)
    assert wrong.form("/signin/code").fields["code"] == "", "the right code is typed into an empty field"
    done = browser.submit(wrong, "/signin/code", code=code_to(service, "eve@example.org"))
    assert (done.path, done.response.url.query) == ("/register", b"fqdn=eve.example.test"), done.text
    assert "Your account is open, and you are signed in." in done.text
    again = console(service)
    sent = again.submit(again.get("/signup?next=%2Ftokens"), "/signin", email="eve@example.org")
    assert again.submit(sent, "/signin/code", code=code_to(service, "eve@example.org")).path == "/tokens"


def test_known_and_unknown_addresses_see_the_same_pages(service: RunningService) -> None:
    service.add_user("known@example.org")
    pages = []
    for email in ("known@example.org", "fresh@example.org"):
        browser = console(service)
        sent = browser.submit(browser.get("/signin"), "/signin", email=email)
        early = browser.submit(sent, "/signin", email=email)
        wrong = browser.submit(early, "/signin/code", code="1")
        texts = [each.text.replace(email, "") for each in (sent, early, wrong)]
        # The seconds left are those of the clock, which may go on between two pages.
        texts[1], waits = re.subn(
            r"(There was no second mail yet\. Another code in) \d+ s\.", r"\1 … s.", texts[1]
        )
        assert waits == 1
        pages.append(([each.status for each in (sent, early, wrong)], texts))
    assert pages[0] == pages[1]


def test_an_account_without_a_chosen_name_starts_with_the_form_for_one(service: RunningService) -> None:
    browser = console(service)
    sent = browser.submit(browser.get("/signin"), "/signin", email="fay@example.org")
    done = browser.submit(sent, "/signin/code", code=code_to(service, "fay@example.org"))
    assert (done.path, "Your account is open" in done.text) == ("/register", True), done.text
    assert COOKIE in browser.cookies
    assert "You have no tokens." in browser.get("/tokens").text, "no one would know the secret"


def test_a_link_opens_an_account_by_a_click(service: RunningService) -> None:
    browser = console(service)
    browser.submit(
        browser.get("/signin?next=%2Fregister%3Ffqdn%3Dida.example.test"), "/signin", email="ida@example.org"
    )
    link = re.findall(r"/signup/confirm\?token=\S+", newest_mail(service, "ida@example.org"))[0]
    page = browser.get(link)
    assert COOKIE not in browser.cookies
    done = browser.submit(page, "/signup/confirm")
    assert (done.path, done.response.url.query) == ("/register", b"fqdn=ida.example.test"), done.text
    assert "Your account is open" in done.text
    again = browser.submit(page, "/signup/confirm")
    assert (again.status, "This link was used already, or is too old." in again.text) == (422, True)


@pytest.mark.operations("accept_invitation")
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
            assert done.path == f"/o/{made['id']}/names", done.text
            assert f"{email} is in Guild now, as member." in done.text
        wrong = [
            browser.post("/signup/confirm", {"token": "wrong"}, x_forwarded_for="203.0.113.9").status
            for _ in range(2)
        ]
        assert wrong == [422, 429]
