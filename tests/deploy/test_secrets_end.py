"""Codes, links and tokens of mails and sign-ins, sent through the nginx of `deploy/nginx/`: once the mails
are sent, no copy is left.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from sublet.db import Tx
from sublet.mail.store import mails
from sublet.operations.client import COOKIE
from sublet.schema import metadata
from support.console_client import ConsoleClient, Shown
from support.nginx import NAME, Proxy, nginx
from support.postgresql import find_postgresql, fresh_database
from support.serve_process import ServeProcess, serve_process
from support.smtp_server import Mailbox, smtp_server, text_of
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_only]
ORIGIN = f"https://{NAME}"
EVE, NEW, HAL, IVY = (f"{name}@example.org" for name in ("eve", "eva", "hal", "ivy"))


@dataclass(slots=True)
class Visitor:
    """A person with a browser and a mailbox, and all secrets that this person sees."""

    browser: ConsoleClient
    mailbox: Mailbox
    read: int = 0
    codes: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)

    def mail_to(self, email: str) -> str:
        """Wait for the next mail to an address, and return its text."""
        found: list[str] = []

        def has_come() -> bool:
            found[:] = [
                text_of(each) for each in self.mailbox.messages()[self.read :] if str(each["To"]) == email
            ]
            return bool(found)

        wait_until(has_come)
        self.read = len(self.mailbox.taken)
        self.codes.update(re.findall(r"your code is (\d{6})", found[-1]))
        self.secrets.update(re.findall(r"\?token=(\S+)", found[-1]))
        return found[-1]

    def open_link(self, text: str) -> Shown:
        """Open the link in a mail.

        The assets of the page get a request with the link as referrer, as from a careless browser.
        """
        (path,) = re.findall(rf"{ORIGIN}(/\S+\?token=\S+)", text)
        page = self.browser.get(path)
        assert page.status == 200, page.text
        self.browser.get("/register", referer=ORIGIN + path)
        return page

    def send(self, page: Shown, action: str, **fields: str) -> Shown:
        """Fill in a form of a page, and send it as from the public URL."""
        done = self.browser.post(action, page.form(action).fields | fields, origin=ORIGIN)
        assert done.status == 200, done.text
        self.secrets.update(re.findall(r"sublet_\w{16,}", done.text))
        self.secrets.update(self.browser.cookies.get(COOKIE, "").split())
        return done

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request of the API with the session."""
        sent = {"cookie": f"{COOKIE}={self.browser.cookies[COOKIE]}", "origin": ORIGIN}
        answer = self.browser.service.call(None, method, path, body, **sent)
        assert answer.is_success, answer.text
        return dict(answer.json())

    def post(self, path: str, body: Any) -> dict[str, Any]:
        """Send a request without a session, outside the API's base."""
        answer: httpx.Response = self.browser.service.client.post(self.browser.origin + path, json=body)
        assert answer.is_success, answer.text
        return dict(answer.json())


@contextmanager
def visit(serving: ServeProcess, proxy: Proxy, mailbox: Mailbox) -> Iterator[Visitor]:
    host, port = proxy.https
    client = proxy.client()
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # the browser keeps them
    behind = replace(serving.service, base_url=f"https://{host}:{port}/api/v1", client=client)
    with client:
        yield Visitor(ConsoleClient(behind), mailbox)


def use_everything(eve: Visitor) -> None:
    """Sign up, sign in, invite members, change the address, and allow a program: by code and by link."""
    eve.send(eve.browser.get("/signin"), "/signin", email=EVE)
    eve.send(eve.open_link(eve.mail_to(EVE)), "/signup/confirm")
    eve.browser.cookies.clear()
    started = eve.post("/auth/device", {"name": "laptop"})
    eve.secrets |= {started["device_code"], started["user_code"], started["user_code"].replace("-", "")}
    asked = eve.browser.get(started["verification_uri_complete"].removeprefix(ORIGIN))
    assert asked.path == "/signin"
    sent = eve.send(asked, "/signin", email=EVE)
    text = eve.mail_to(EVE)
    eve.open_link(text)
    (code,) = re.findall(r"your code is (\d{6})", text)
    eve.send(sent, "/signin/code", code=code)
    made = eve.call("POST", "/organizations", {"name": "Guild"})["organization"]
    session = dict(eve.browser.cookies)
    for email, by in ((HAL, "page"), (IVY, "API")):
        eve.call("POST", f"/organizations/{made['id']}/invitations", {"email": email, "role": "member"})
        text = eve.mail_to(email)
        eve.browser.cookies.clear()
        page = eve.open_link(text)
        if by == "page":
            eve.send(page, "/signup/confirm")
        else:
            (secret,) = re.findall(r"\?token=(\S+)", text)
            eve.post(f"/auth/invitations/{secret}/accept", {})
        eve.browser.cookies = dict(session)
    eve.call("PATCH", "/me", {"email": NEW})
    (code,) = re.findall(r"your code is (\d{6})", eve.mail_to(NEW))
    eve.call("POST", "/me/email", {"code": code})
    eve.call("GET", f"/devices/{started['user_code']}")
    eve.call("POST", f"/devices/{started['user_code']}/allow", {})
    eve.secrets.add(eve.post("/auth/device/token", {"device_code": started["device_code"]})["secret"])


def unsent(tx: Tx) -> int:
    query = select(func.count()).select_from(mails).where(mails.c.sent_at.is_(None))
    return int(tx.connection.execute(query).scalar_one())


def dump(tx: Tx) -> str:
    return str(
        [[tuple(row) for row in tx.connection.execute(select(each))] for each in metadata.sorted_tables]
    )


def leaks(text: str, eve: Visitor) -> list[str]:
    """Return the secrets in a text, and the codes that are not a part of a longer number."""
    codes = [each for each in eve.codes if re.search(rf"(?<![\w.:-]){each}(?![\w-])", text)]
    return codes + [each for each in eve.secrets if each in text]


def copies(serving: ServeProcess, folder: Path) -> dict[str, str]:
    """Return the texts of all copies of the database: the rows, and the backup or PostgreSQL's dump."""
    service, copy = serving.service, folder / "copy"
    if not service.settings.database_url.startswith("sqlite"):
        words = [find_postgresql("pg_dump"), f"--file={copy}", service.settings.database_url]
        subprocess.run(words, check=True, timeout=300)
    else:
        service.operator("backup", str(copy))
    return {"rows": service.read(dump), "copy": copy.read_bytes().decode("latin-1")}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.whole)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry.db"
        return
    with fresh_database(request.getfixturevalue("postgresql_server")) as url:
        yield url


def test_no_code_link_or_token_is_left_once_the_mails_are_sent(address: str, tmp_path: Path) -> None:
    mailbox = Mailbox()
    with smtp_server(mailbox) as port, serve_process(address, tmp_path) as serving:
        serving.environment |= {
            "SUBLET_PUBLIC_URL": ORIGIN,
            "SUBLET_TRUSTED_PROXIES": "127.0.0.1",
            "SUBLET_SIGNUP": "open",
            "SUBLET_LOG_LEVEL": "debug",
            "SUBLET_MAIL_TRANSPORT": "smtp",
            "SUBLET_MAIL_FROM": f"hello@{NAME}",
            "SUBLET_SMTP_HOST": "127.0.0.1",
            "SUBLET_SMTP_PORT": str(port),
            "SUBLET_SMTP_SECURITY": "none",
        }
        serving.start()
        with (
            nginx(tmp_path, serving.service.settings.http_listen) as proxy,
            visit(serving, proxy, mailbox) as eve,
        ):
            use_everything(eve)
            assert (len(eve.codes), len(eve.secrets)) == (3, 11)
            wait_until(lambda: serving.service.read(unsent) == 0)
            texts = copies(serving, tmp_path)
            assert serving.stop() == 0
            for path in (
                f"/signup/confirm?token={min(eve.secrets)}",
                f"/api/v1/devices/{min(eve.secrets)}/allow",
            ):
                assert eve.browser.service.client.get(eve.browser.origin + path).status_code == 503
    files = [serving.log, tmp_path / "access.log", tmp_path / "nginx.log", *tmp_path.glob("registry.db")]
    texts |= {each.name: each.read_bytes().decode("latin-1") for each in files}
    assert {name: found for name, text in texts.items() if (found := leaks(text, eve))} == {}
    # The logs have the requests nevertheless, and the registry the mails.
    log = texts["access.log"]
    assert 'GET /api/v1/devices/[hidden] HTTP/1.1" 200' in log
    assert 'GET /api/v1/devices/[hidden]/allow HTTP/1.1" 503' in log
    assert [log.count(f'"GET /signup/confirm HTTP/1.1" {status} ') for status in (200, 503)] == [3, 1]
    assert "/signup/confirm" in texts[serving.log.name]
    assert all(email in texts["copy"] for email in (EVE, NEW, HAL, IVY))
