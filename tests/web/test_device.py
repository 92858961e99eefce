"""Allow a program at the console, without a browser."""

import html
import re
from typing import Any

import pytest

from sublet.mail.model import SIGN_IN_PATH
from support.console_client import console, newest_mail
from support.running_service import RunningService

ADA = "ada@example.org"


def post(service: RunningService, path: str, body: Any) -> Any:
    return service.post(path, body).json()


@pytest.mark.operations("get_device", "allow_device", "refuse_device")
def test_a_person_allows_or_refuses_a_program(service: RunningService) -> None:
    service.add_user(ADA)
    first, second = (post(service, "/auth/device", {"name": f"<b>laptop {number}</b>"}) for number in (1, 2))
    page = first["verification_uri_complete"].removeprefix(service.origin)
    assert console(service).get(page).path == "/signin"
    browser = console(service, ADA)
    wrong = browser.get("/device?code=BBBB-BBBB")
    assert "No program waits with this code" in wrong.text
    asked = browser.get(page)
    assert "Allow <b>laptop 1</b>?" in asked.text
    done = browser.submit(asked, "/device", do="allow", spend="yes")
    assert "is allowed" in done.text
    given = post(service, "/auth/device/token", {"device_code": first["device_code"]})
    assert "credits:spend" in given["token"]["scopes"]
    asked = browser.get("/device?code=" + second["user_code"].lower().replace("-", ""))
    assert f"It shows the code {second['user_code']}" in asked.text, "as the terminal shows it"
    assert "is refused" in browser.submit(asked, "/device", do="refuse").text
    refused = post(service, "/auth/device/token", {"device_code": second["device_code"]})
    assert refused["error"] == "access_denied"


@pytest.mark.parametrize("by", ["code", "link"])
def test_the_code_is_kept_during_a_new_sign_in(service: RunningService, by: str) -> None:
    service.add_user(ADA)
    browser = console(service, ADA)
    service.clock.advance(minutes=11)
    started = post(service, "/auth/device", {"name": "laptop"})
    asked = browser.get(f"/device?code={started['user_code']}")
    refused = browser.submit(asked, "/device", do="allow", spend="yes")
    (again,) = re.findall(r'href="(/signin\?[^"]+)"', refused.response.text)
    sent = browser.submit(browser.get(html.unescape(again)), "/signin", email=ADA)
    mail = newest_mail(service, ADA)
    if by == "code":
        (code,) = re.findall(r"your code is (\d{6})", mail)
        asked = browser.submit(sent, "/signin/code", code=code)
    else:
        (link,) = re.findall(rf"{SIGN_IN_PATH}\S+", mail)
        asked = browser.submit(browser.get(link), SIGN_IN_PATH)
    assert "Allow laptop?" in asked.text
    assert "is allowed" in browser.submit(asked, "/device", do="allow", spend="yes").text
