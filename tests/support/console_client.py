"""A minimal browser without JavaScript. It keeps cookies, and reads and sends the forms of a page."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urljoin

import httpx
from sqlalchemy import select

from sublet.mail.store import mails
from sublet.operations.client import COOKIE
from support.browsers import signed_in
from support.running_service import RunningService


@dataclass(slots=True)
class PageForm:
    """A form of a page: its action, the values of its fields, and the other values that a person can choose
    for a field by a click.
    """

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)


class _Reader(HTMLParser):
    """Reads the forms and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[PageForm] = []
        self.text: list[str] = []
        self._inside: PageForm | None = None
        self._ids: dict[str, PageForm] = {}
        self._target: PageForm | None = None
        self._area = self._select = ""
        self._is_required = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        name, value = found.get("name") or "", found.get("value") or ""
        if tag == "form":
            self._inside = PageForm((found.get("method") or "get").upper(), found.get("action") or "")
            self.forms.append(self._inside)
            self._ids[found.get("id") or ""] = self._inside
        elif tag != "option":
            # A field may be outside of its form.
            self._target = self._ids.get(found.get("form") or " ", self._inside)
            if self._target is not None:
                self._add_field(self._target, tag, name, value, found)
        elif self._select and self._target is not None:
            # A browser refuses the empty option of a required field.
            self._target.choices.setdefault(self._select, []).extend(
                [value] if value or not self._is_required else []
            )
            if "selected" in found or self._select not in self._target.fields:
                self._target.fields[self._select] = value

    def _add_field(
        self, form: PageForm, tag: str, name: str, value: str, found: dict[str, str | None]
    ) -> None:
        if tag == "textarea":
            self._area = name
            form.fields[name] = ""
        elif tag == "select":
            self._select, self._is_required = name, "required" in found
        elif name and (tag == "button" or found.get("type") in ("checkbox", "radio")):
            form.choices.setdefault(name, []).append(value)
            if tag == "input" and "checked" in found:
                form.fields[name] = value
        elif tag == "input" and name:
            form.fields[name] = value

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = None
        if tag == "textarea":
            self._area = ""
        if tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._area and self._target is not None:
            self._target.fields[self._area] += data
        self.text.append(data)


@dataclass(slots=True)
class Shown:
    """A page that the service returned."""

    response: httpx.Response
    forms: list[PageForm]
    text: str

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.response.status_code

    @property
    def path(self) -> str:
        """The path, after redirects."""
        return self.response.url.path

    def form(self, action: str) -> PageForm:
        """Return the only form with this action. Fail if there is none, or several."""
        (found,) = [each for each in self.forms if each.action == action and each.method == "POST"]
        return found


@dataclass(slots=True)
class ConsoleClient:
    """A browser that uses the console of a service."""

    service: RunningService
    cookies: dict[str, str] = field(default_factory=dict)
    origin: str = ""

    def __post_init__(self) -> None:
        self.origin = self.service.origin

    def get(self, path: str, **headers: str) -> Shown:
        """Load a page, and follow its redirects."""
        return self._send("GET", path, headers={"sec-fetch-site": "same-origin", **headers})

    def post(self, path: str, fields: dict[str, Any], **headers: str) -> Shown:
        """Send a form like a page of the service, and follow the redirect.

        A header that is empty is left out.
        """
        sent = {"origin": self.origin, "sec-fetch-site": "same-origin"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self._send("POST", path, {name: value for name, value in sent.items() if value}, fields)

    def submit(self, page: Shown, action: str, **fields: str) -> Shown:
        """Fill in a form of a page, and send it."""
        form = page.form(action)
        unknown = [
            name for name in fields if name not in form.fields and f'name="{name}"' not in page.response.text
        ]
        assert unknown == [], f"the form has no {unknown}"
        return self.post(urljoin(page.path, action), form.fields | fields)

    def _send(
        self, method: str, path: str, headers: dict[str, str], fields: dict[str, Any] | None = None
    ) -> Shown:
        for _ in range(5):
            sent = headers | {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
            if not self.cookies:
                del sent["cookie"]
            response = self.service.client.request(
                method, self.origin + path, headers=sent, data=fields, follow_redirects=False
            )
            self._keep(response)
            if response.status_code != 303:
                break
            method, fields = "GET", None
            headers = {name: value for name, value in headers.items() if name != "origin"}
            path = response.headers["location"]
        reader = _Reader()
        reader.feed(response.text)
        return Shown(response, reader.forms, " ".join(" ".join(reader.text).split()))

    def _keep(self, response: httpx.Response) -> None:
        for line in response.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(line).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.coded_value


def console(service: RunningService, email: str = "") -> ConsoleClient:
    """Return a browser that uses the console. If an address is given, its user is signed in."""
    client = ConsoleClient(service)
    if email:
        client.cookies[COOKIE] = signed_in(service, email).secret
    return client


def newest_mail(service: RunningService, email: str) -> str:
    """Return the text of the newest mail to an address."""
    query = select(mails.c.text).where(mails.c.recipient == email).order_by(mails.c.id.desc()).limit(1)
    return service.read(lambda tx: str(tx.connection.execute(query).scalar_one()))


def newest_code(service: RunningService, email: str) -> str:
    """Return the code in the newest mail to an address."""
    return str(re.findall(r"your code is (\d{6})", newest_mail(service, email), re.IGNORECASE)[0])
