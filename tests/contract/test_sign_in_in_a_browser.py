"""Sign in with a real Chromium and its virtual authenticator: the cookie over plain HTTP on localhost,
passkeys, pages of other origins.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Page

from sublet.operations.client import COOKIE
from support.chromium import AUTHENTICATOR, TIMEOUT_MS, chromium, outside
from support.console_client import newest_mail
from support.running_service import RunningService

pytestmark = pytest.mark.slow
ADA, BEN = "ada@example.org", "ben@example.org"
CREATE = """async options => (await navigator.credentials.create(
    {publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options)})).toJSON()"""
GET = """async options => (await navigator.credentials.get(
    {publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options)})).toJSON()"""
FETCH = """async ([method, path, body]) => {
    const headers = body === null ? {} : {'content-type': 'application/json'}
    const answer = await fetch(path, {method, headers, body: body === null ? undefined : JSON.stringify(body)})
    return [answer.status, await answer.json()]
}"""  # noqa: E501
FORGED = "{method: 'POST', mode: 'no-cors', credentials: 'include'}"


class Browser:
    """A tab of Chromium at a page of the service, with a virtual authenticator."""

    def __init__(self, service: RunningService, page: Page) -> None:
        self.service, self.page = service, page
        self.origin = service.origin.replace("127.0.0.1", "localhost")
        page.set_default_timeout(TIMEOUT_MS)
        devtools = page.context.new_cdp_session(page)
        devtools.send("WebAuthn.enable")
        devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
        page.goto(f"{self.origin}/docs")

    def fetch(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, answer = self.page.evaluate(FETCH, [method, path, body])
        return status, answer

    def api(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self.fetch(method, f"/api/v1{path}", body)

    def mail(self, email: str) -> str:
        return outside(newest_mail, self.service, email)

    def sign_in(self, email: str) -> None:
        assert self.fetch("POST", "/auth/sessions", {"email": email})[0] == 202
        code = re.findall(r"your code is (\d{6})", self.mail(email))[0]
        assert self.fetch("POST", "/auth/sessions/confirm", {"email": email, "code": code})[0] == 201

    def add_passkey(self) -> None:
        _, asked = self.api("POST", "/passkeys/challenge", {})
        credential = self.page.evaluate(CREATE, asked["public_key"])
        status, added = self.api("POST", "/passkeys", {"name": "phone", "credential": credential})
        assert status == 201, added

    def options(self) -> Any:
        return self.fetch("POST", "/auth/passkeys/challenge", {})[1]["public_key"]

    def confirm(self, credential: Any) -> tuple[int, Any]:
        return self.fetch("POST", "/auth/passkeys/confirm", {"credential": credential})


@pytest.fixture
def browser(service: RunningService) -> Iterator[Browser]:
    service.add_user(ADA)
    service.add_user(BEN)
    # Our pages may fetch nothing; the test lets them.
    with chromium() as started, started.new_context(bypass_csp=True) as context:
        yield Browser(service, context.new_page())


@contextmanager
def other_site(html: str) -> Iterator[str]:
    """Serve a page at another origin of localhost, which is the same site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_passkeys_and_the_cookie(browser: Browser) -> None:
    browser.sign_in(ADA)
    (cookie,) = browser.page.context.cookies()
    assert (cookie["name"], cookie["domain"], cookie["path"]) == (COOKIE, "localhost", "/")
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Lax")
    assert COOKIE not in browser.page.evaluate("document.cookie")
    browser.add_passkey()
    assert browser.api("DELETE", "/sessions/current", {})[0] == 200
    assert browser.page.context.cookies() == []
    assert browser.api("GET", "/me")[1]["error"] == "token_missing"
    credential = browser.page.evaluate(GET, browser.options())
    status, signed_in = browser.confirm(credential)
    assert (status, signed_in["session"]["how"], signed_in["user"]["email"]) == (201, "passkey", ADA)
    assert browser.confirm(credential)[0] == 422, "a replayed challenge"


def test_pages_of_other_origins(browser: Browser) -> None:
    """Another port of localhost is the same site for the cookie, and the same host for passkeys, but another
    origin.
    """
    browser.sign_in(ADA)
    browser.add_passkey()
    assert browser.fetch("POST", "/auth/sessions", {"email": BEN})[0] == 202
    link = re.findall(r"\?token=(\S+)", browser.mail(BEN))[0]
    form = (
        f'<form method=post action="{browser.origin}/signin/confirm"><input name=token '
        f'value="{link}"><button>x</button></form>'
    )
    options = browser.options()
    with other_site(form) as url:
        browser.page.goto(url)
        stolen = browser.page.evaluate(GET, options)
        # Without a preflight, as a form sends it; the cookie goes with it.
        forged = f"fetch('{browser.origin}/api/v1/passkeys/recovery', {FORGED}).catch(() => null)"
        browser.page.evaluate(forged)
        with browser.page.expect_navigation() as navigation:
            browser.page.click("button")
        assert (navigation.value.status, "comes from another site" in browser.page.content()) == (403, True)
    browser.page.goto(f"{browser.origin}/docs")
    assert browser.confirm(stolen)[0] == 422, "an answer for a page of another origin"
    assert browser.api("GET", "/me")[1]["user"]["email"] == ADA
    assert browser.api("GET", "/passkeys")[1]["recovery"] is None
    browser.page.goto(f"{browser.origin}/signin/confirm?token={link}")
    with browser.page.expect_navigation() as navigation:
        browser.page.click("main button")
    assert (navigation.value.status, BEN in browser.page.content()) == (200, True)
    browser.page.goto(f"{browser.origin}/docs")
    assert browser.api("GET", "/me")[1]["user"]["email"] == BEN
