"""Chromium with the console: with or without JavaScript, narrow or wide, light or dark.

A fault in a page fails the test.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response, expect, sync_playwright

from sublet.operations.client import COOKIE
from support.programs import find_program
from support.running_service import RunningService

R = TypeVar("R")
TIMEOUT_MS = 180_000
"""The timeout of each wait, on a busy machine."""
expect.set_options(timeout=TIMEOUT_MS)
NARROW, WIDE = (360, 740), (1440, 900)
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
"""The options of a virtual authenticator that accepts each request for a passkey."""
VARIANTS = [
    pytest.param({"javascript": True, "size": WIDE}, id="javascript-1440"),
    pytest.param({"javascript": False, "size": NARROW}, id="plain-360", marks=pytest.mark.whole),
    pytest.param({"javascript": True, "size": NARROW}, id="javascript-360", marks=pytest.mark.whole),
    pytest.param({"javascript": False, "size": WIDE}, id="plain-1440", marks=pytest.mark.whole),
]
"""The variants in which a test runs: with and without JavaScript, on a narrow and on a wide page. Without a
browser, most tests of this folder run without JavaScript too.
"""
PLAIN = pytest.param({"javascript": False, "size": NARROW}, id="plain-360")
"""The variant without JavaScript on a narrow page, for a test that runs in it each time."""


def outside(fn: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Run a function in a thread of its own, because playwright has an event loop in the test's thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fn, *args, **kwargs).result()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Debian's Chromium."""
    path = find_program("chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=sandbox, timeout=TIMEOUT_MS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Loaded:
    """The requests of a page, and the octets received over the network."""

    urls: list[str] = field(default_factory=list)
    octets: int = 0


@dataclass  # without slots, because playwright adds an attribute
class Tab:
    """A browser tab with the console.

    `faults` are the browser's messages, failed scripts, and requests to other hosts.
    """

    page: Page
    origin: str
    javascript: bool = True
    faults: list[str] = field(default_factory=list)
    loaded: Loaded = field(default_factory=Loaded)

    def watch(self) -> None:
        """Record faults and loaded resources from now on."""
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("request", self._requested)
        self.page.on("requestfinished", self._finished)

    def open(self, path: str) -> Response:
        """Load a page, and reset the record of loaded resources."""
        self.loaded = Loaded()
        response = self.page.goto(self.origin + path, wait_until="load")
        assert response is not None
        return response

    def press(self, name: str) -> None:
        """Press the button or link with this label, and wait for the next page."""
        target = self.page.get_by_role("button", name=name, exact=True).or_(
            self.page.get_by_role("link", name=name, exact=True)
        )
        with self.page.expect_navigation():
            target.first.click()

    def fill(self, label: str, text: str) -> None:
        """Type into the field with this label."""
        self.page.get_by_label(label).first.fill(text)

    @property
    def text(self) -> str:
        """The text of the page."""
        return self.page.inner_text("body")

    def _note(self, kind: str, text: str) -> None:
        # Chromium logs the status of a refused form, and its text in a field of numbers or days. No faults.
        expected = ("Failed to load resource: the server responded", "The specified value ")
        if kind in ("error", "warning") and not text.startswith(expected):
            self.faults.append(f"{kind}: {text}")

    def _requested(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.origin).netloc:
            self.faults.append(f"another host: {request.url}")
        self.loaded.urls.append(request.url)

    def _finished(self, request: Request) -> None:
        sizes = request.sizes()
        self.loaded.octets += sizes["responseHeadersSize"] + sizes["responseBodySize"]


@contextmanager
def tab(
    browser: Browser,
    service: RunningService,
    *,
    secret: str = "",
    javascript: bool = True,
    size: tuple[int, int] = WIDE,
    dark: bool = False,
) -> Iterator[Tab]:
    """Open a tab, signed in with the secret of a session. Fail at the end if one of its pages had a fault."""
    with browser.new_context(
        java_script_enabled=javascript,
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
    ) as context:
        context.set_default_timeout(TIMEOUT_MS)
        found = Tab(context.new_page(), origin_of(service), javascript)
        if secret:
            sign_in(context, found.origin, secret)
        found.watch()
        yield found
        assert found.faults == [], found.faults


def origin_of(service: RunningService) -> str:
    """Return the origin of the console, on localhost, because browsers accept its cookie over plain HTTP only
    there.
    """
    return service.origin.replace("127.0.0.1", "localhost")


def sign_in(context: BrowserContext, origin: str, secret: str) -> None:
    """Give a browser the cookie of a session."""
    context.add_cookies(
        [
            {
                "name": COOKIE,
                "value": secret,
                "url": origin.replace("http://", "https://"),
                "secure": True,
                "httpOnly": True,
                "sameSite": "Lax",
            }
        ]
    )
