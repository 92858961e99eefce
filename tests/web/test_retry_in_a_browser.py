"""A publication that failed, and its retry at the console, with a real primary that is away."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Error

from support.browsers import signed_in
from support.chromium import chromium, outside, tab
from support.repetitions import share
from support.running_service import Registrant, RunningService
from support.service_on_primary import ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow
DOMAIN = "example.test"


@pytest.fixture(scope="module")
def on_primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOn]:
    with service_on("knot", tmp_path_factory.mktemp("primary"), publish_wait_ms=200) as on:
        yield on


@pytest.fixture(scope="module")
def browser(on_primary: ServiceOn) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.operations("retry")
@pytest.mark.parametrize("javascript", share([True], whole=[True, False]))
def test_a_failed_publication_is_retried(on_primary: ServiceOn, browser: Browser, javascript: bool) -> None:
    service = on_primary.service
    label = f"late-{javascript}".lower()
    ada, secret = outside(_add_user, service, f"{label}@example.org")
    fqdn = f"{label}.{DOMAIN}"
    on_primary.primary.stop()
    with tab(browser, service, secret=secret, javascript=javascript) as opened:
        opened.open(f"/register?fqdn={fqdn}")
        opened.fill("Nameservers", "ns1.provider.example")
        opened.press(f"Register {fqdn}")
        wait_until(
            lambda: service.call(ada, "GET", f"/subdomains/{fqdn}").json()["subdomain"]["status"] == "failed",
            60,
        )
        opened.open(f"/names/{fqdn}")
        assert "is stored, but isn't in the DNS" in opened.text
        outside(on_primary.primary.start)
        with suppress(Error):  # The page reloads itself if the publisher retries first.
            opened.press("Try again now")
        opened.page.locator(".chip.good", has_text="Active").first.wait_for()
    assert fqdn in {each[0] for each in outside(on_primary.records)}


def _add_user(service: RunningService, email: str) -> tuple[Registrant, str]:
    return service.add_user(email), signed_in(service, email).secret
