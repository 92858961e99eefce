"""A stranger gets from nothing to a published delegation, without the operator: at most six requests, on both
databases.
"""

import re
import time

import httpx
import pytest

from support.running_service import RunningService, running_service
from support.smtp_server import Mailbox, smtp_server, text_of
from support.waiting import wait_until

NAME = "blog.example.test"
BOUND_SECONDS = 120


def test_a_stranger_publishes_a_name(registry_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    mailbox = Mailbox()
    with smtp_server(mailbox) as port:
        settings = {
            "signup": "open",
            "mail_transport": "smtp",
            "mail_from": "Example Names <names@example.net>",
            "smtp_host": "127.0.0.1",
            "smtp_port": port,
            "smtp_security": "none",
        }
        with running_service(registry_url, **settings) as service:
            service.add_domain()
            began = time.monotonic()
            calls = _from_nothing_to_a_name(service, mailbox)
            seconds = time.monotonic() - began
            assert service.doctor() == []
    with capsys.disabled():
        print(f" [{calls} requests, {seconds:.1f} s]", end="")  # noqa: T201 - the figure that is promised
    assert calls <= 6
    assert seconds < BOUND_SECONDS


def _from_nothing_to_a_name(service: RunningService, mailbox: Mailbox) -> int:
    """Sign up, register a name and see its delegation; return the number of requests."""
    auth = service.origin + "/auth"
    client: httpx.Client = service.client
    asked = client.post(f"{auth}/signup", json={"email": "eve@example.org", "name": "Eve"})
    assert (asked.status_code, asked.json()["expires_in_seconds"]) == (202, 900)
    wait_until(lambda: bool(mailbox.messages()))
    (message,) = mailbox.messages()
    assert message["To"] == "eve@example.org"
    code = re.search(r"your code is (\d{6})", text_of(message))
    assert code is not None
    assert code[1] not in str(message["Subject"]), "subjects are logged"
    confirmed = client.post(f"{auth}/signup/confirm", json={"email": "eve@example.org", "code": code[1]})
    assert confirmed.status_code == 201, confirmed.text
    token = confirmed.json()["secret"]
    domains = service.call(token, "GET", "/platform-domains").json()["platform_domains"]
    assert [each["domain"] for each in domains] == ["example.test"]
    answer = service.register(token, NAME, nameservers=["ns1.provider.example", "ns2.provider.example"])
    assert answer["subdomain"]["status"] == "active"
    assert service.delegation(NAME) == {"ns1.provider.example", "ns2.provider.example"}
    return 4
