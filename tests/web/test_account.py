"""Sessions, passkeys and the account at the console."""

import re

import pytest

from sublet.operations.client import COOKIE
from support.console_client import ConsoleClient, console, newest_mail
from support.running_service import RunningService

ADA = "ada@example.org"


@pytest.fixture
def browser(service: RunningService) -> ConsoleClient:
    service.add_domain()
    service.register(service.add_user(ADA), "a.example.test")
    return console(service, ADA)


@pytest.mark.operations("list_sessions", "end_session", "end_other_sessions")
def test_other_browsers_are_signed_out(service: RunningService, browser: ConsoleClient) -> None:
    others = [console(service, ADA) for _ in range(3)]
    page = browser.get("/sessions")
    assert page.text.count("Sign out session") == 3
    (ending, *_) = [each.action for each in page.forms if each.action.endswith("/end")]
    assert "The other browser is signed out." in browser.submit(page, ending).text
    assert [each.get("/sessions").path for each in others].count("/signin") == 1
    ended = browser.post(ending, page.form(ending).fields | {"idempotency_key": ""})
    assert (ended.status, "no such session" in ended.text.lower()) == (404, True)
    assert "All other browsers are signed out." in browser.submit(page, "/sessions/end-others").text
    assert {each.get("/sessions").path for each in others} == {"/signin"}


@pytest.mark.operations("me", "change_account", "confirm_email", "set_reminders")
def test_the_account_is_changed(service: RunningService, browser: ConsoleClient) -> None:
    page = browser.get("/account")
    assert "The name is changed." in browser.submit(page, "/account", name="Ada <i>").text
    assert browser.submit(page, "/account", name=" ").status == 422
    off = browser.post("/account/reminders", page.form("/account/reminders").fields | {"enabled": ""})
    assert "Reminders are off." in off.text
    for address in ("nowhere", ""):
        wrong = browser.submit(page, "/account/email", email=address)
        assert (wrong.status, 'id="email-error"' in wrong.response.text) == (422, True), address
    same = browser.submit(browser.get("/account"), "/account/email", email="ADA@example.org")
    assert "is your address already." in same.text
    sent = browser.submit(page, "/account/email", email="ada@new.example.org")
    code = re.findall(r"\b(\d{6})\b", newest_mail(service, "ada@new.example.org"))[0]
    wrong = browser.submit(sent, "/account/email/code", code="000000" if code != "000000" else "000001")
    assert (wrong.status, "This code is wrong, used or too old" in wrong.text) == (422, True)
    done = browser.submit(wrong, "/account/email/code", code=code)
    assert ("The address is changed." in done.text, "ada@new.example.org" in done.text) == (True, True)
    assert "on its way" not in browser.get("/account/email/code").text  # nothing was mailed


@pytest.mark.operations("export", "delete_me")
def test_an_account_is_exported_and_deleted(service: RunningService, browser: ConsoleClient) -> None:
    assert '"/api/v1/me/export" download' in browser.get("/account").response.text
    exported = browser.get("/api/v1/me/export").response
    assert (exported.json()["account"]["email"], exported.headers["content-disposition"][:10]) == (
        ADA,
        "attachment",
    )
    page = browser.get("/account/delete")
    assert ("1 name goes to the trash" in page.text, "credits are lost" in page.text) == (True, False)
    wrong = browser.submit(page, "/account/delete", confirm="ben@example.org")
    assert (wrong.status, 'id="confirm-error"' in wrong.response.text) == (422, True)
    service.clock.advance(minutes=11)
    assert "Sign in again" in browser.submit(wrong, "/account/delete", confirm=ADA).text
    service.clock.advance(minutes=-11)
    browser.submit(wrong, "/account/delete", confirm=ADA)
    assert (browser.get("/account").path, COOKIE in browser.cookies) == ("/signin", False)


def test_a_suspended_name_keeps_the_account(service: RunningService, browser: ConsoleClient) -> None:
    service.operator("subdomain", "suspend", "a.example.test", "--reason", "abuse")
    page = browser.get("/account/delete")
    assert (page.status, "so you can't delete the account now" in page.text) == (409, True)
    assert [each.action for each in page.forms if each.action == "/account/delete"] == []
