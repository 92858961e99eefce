"""Allow a program at the console, without a browser."""

from typing import Any

import pytest

from support.console_client import console
from support.running_service import RunningService

ADA = "ada@example.org"


def post(service: RunningService, path: str, body: Any) -> Any:
    return service.client.post(service.base_url.removesuffix("/api/v1") + path, json=body).json()


@pytest.mark.operations("get_device", "allow_device", "refuse_device")
def test_a_person_allows_or_refuses_a_program(service: RunningService) -> None:
    service.add_user(ADA)
    first, second = (post(service, "/auth/device", {"name": f"<b>laptop {number}</b>"}) for number in (1, 2))
    page = first["verification_uri_complete"].removeprefix(service.base_url.removesuffix("/api/v1"))
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
    assert "is refused" in browser.submit(asked, "/device", do="refuse").text
    refused = post(service, "/auth/device/token", {"device_code": second["device_code"]})
    assert refused["error"] == "access_denied"
