"""The types of the console's pages: an entry of the page table, and one request for a page."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sublet.accounts.model import Membership, Registrant
from sublet.errors import NotFound, OriginRefused, Refusal
from sublet.http.anonymous import ANONYMOUS, ANONYMOUS_ENDPOINTS
from sublet.http.calls import Calls, FailureLimits, SentRequest
from sublet.http.client import Client, is_from_site, origin_refused
from sublet.http.client_address import address_key
from sublet.http.endpoints import BASE_PATH, Endpoint
from sublet.http.errors import refusal_headers, status_of
from sublet.web.form import KEY_FIELD, TOKEN_FIELD, Form, form_token, is_form_token, new_key

MESSAGE_COOKIE = "__Host-sublet_message"
COOKIE_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"
MESSAGE_SECONDS = 60
MESSAGE_CHARACTERS_MAX = 500
WARNING_MARK = "!"
"""A message that begins with it is a warning."""


class Shared(Protocol):
    """What all requests for pages share."""

    calls: Calls
    endpoints: Mapping[str, Endpoint]
    nameserver_presets: tuple[tuple[str, tuple[str, ...]], ...]

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a page as HTML."""


@dataclass(frozen=True, slots=True)
class Page:
    """A path with the handlers of its methods. `operations` are the endpoints of the API that they call, by name.

    Without `is_open` the page needs a session, and is also below `/o/{organization}` for the organizations of the user.
    """

    path: str
    get: "Handler | None" = None
    post: "Handler | None" = None
    operations: tuple[str, ...] = ()
    is_open: bool = False
    is_personal: bool = False
    """A page about the user that signed in, which organizations don't have."""


@dataclass(slots=True, kw_only=True)
class PageCall:
    """One request for a page that passed all checks before its handler. `registrant` is None if the browser isn't signed in."""

    shared: Shared
    page: Page
    request: Request
    client: Client
    request_id: str
    failure_limits: FailureLimits
    registrant: Registrant | None = None
    organization_id: int | None = None
    memberships: Sequence[Membership] = ()
    """The organizations for which the user may act, for the switcher in the head of the page."""
    form: Form = field(default_factory=Form)
    headers: dict[str, str] = field(default_factory=dict)
    """The header `Set-Cookie` of the answer, and those of the API's rate limits."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the path."""
        return self.request.path_params

    def url(self, path: str) -> str:
        """Return the path of a page for whom this page acts: the user, or the organization that its own path names."""
        return path if self.organization_id is None else f"/o/{self.organization_id}{path}"

    async def api(
        self,
        name: str,
        members: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        if_match: str = "",
        key: str = "",
        **parameters: str,
    ) -> Any:
        """Return the answer's Struct of an endpoint of the API, called with the members of its body. None and False aren't sent.

        A change uses the form's key, so that a form that is sent twice acts once. A form that changes several things gives each a `key` too.

        Raises:
            Refusal: any of the endpoint.
        """
        assert name in self.page.operations, f"{self.page.path} doesn't list {name}"  # noqa: S101
        endpoint = self.shared.endpoints[name]
        # A header has ASCII alone; what a form has that isn't, matches nothing.
        fields = {"if-match": if_match if if_match.isascii() else "-"} if if_match else {}
        if form_key := self.form.get(KEY_FIELD):
            fields["idempotency-key"] = hashlib.sha256(f"{form_key}\n{name}\n{key}".encode()).hexdigest()
        sent = SentRequest(
            fields=Headers(fields),
            client=self.client,
            request_id=self.request_id,
            path=_filled(endpoint, parameters),
            parameters=parameters,
            query_string=urlencode(_given(query or {})).encode("ascii"),
            sent_members=dict(members or {}),
            headers=self.headers,
        )
        if endpoint.is_open:
            return (await self.shared.calls.answer_open(endpoint, sent, self.failure_limits)).body
        registrant = self.registrant
        if registrant is None:
            assert name in ANONYMOUS_ENDPOINTS, "the page is open, the endpoint isn't"  # noqa: S101
            registrant, sent.counted_as = ANONYMOUS, f"anonymous-{address_key(self.client.address)}"
        return (await self.shared.calls.answer(endpoint, registrant, sent)).body

    def refuse_forged(self) -> None:
        """Raise unless the form comes from a page of ours: by what the browser says, and by the token of its session.

        The forms of an open page have no token: they use no session.

        Raises:
            OriginRefused: it doesn't.
        """
        if is_from_site(self.client.fields, self.client.site) is False:
            raise OriginRefused("Another site sent this form. Open the page here, and send it from there.")
        secret = self.client.session_secret()
        if self.page.is_open or secret is None:
            return
        if not is_form_token(self.form.get(TOKEN_FIELD, ""), secret):
            raise origin_refused(self.client.site)

    def render(
        self, template: str, *, status: int = 200, refusal: Refusal | None = None, **values: Any
    ) -> Response:
        """Return a page. With a refusal it shows what is wrong, and has its status."""
        secret = self.client.session_secret() if self.registrant is not None else None
        page = self.shared.render(
            template,
            {
                "call": self,
                "url": self.url,
                "me": self.registrant,
                "form": self.form,
                "refusal": refusal,
                "form_token": form_token(secret) if secret is not None else "",
                "new_key": new_key,
                "message": self.message,
                "is_for_all": False,
                **values,
            },
        )
        if refusal is None:
            return HTMLResponse(page, status)
        return HTMLResponse(page, status_of(type(refusal)), refusal_headers(refusal))

    def redirect(self, path: str, message: str = "", *, is_warning: bool = False) -> Response:
        """Return the answer to a form that was accepted: the browser loads another page, which shows the message once."""
        response = RedirectResponse(self.url(path), 303)
        if message:
            text = quote((WARNING_MARK if is_warning else "") + message[:MESSAGE_CHARACTERS_MAX])
            response.headers.append(
                "set-cookie", f"{MESSAGE_COOKIE}={text}; Max-Age={MESSAGE_SECONDS}; {COOKIE_ATTRIBUTES}"
            )
        return response

    @property
    def message(self) -> str:
        """The message that this page shows once, percent-encoded; empty if there is none."""
        return self.request.cookies.get(MESSAGE_COOKIE, "")[: 3 * MESSAGE_CHARACTERS_MAX]


CLEARED_MESSAGE = f"{MESSAGE_COOKIE}=; Max-Age=0; {COOKIE_ATTRIBUTES}"
Handler = Callable[[PageCall], Awaitable[Response]]


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in query.items() if value not in (None, "")}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def _filled(endpoint: Endpoint, parameters: Mapping[str, str]) -> str:
    path = endpoint.path
    for name, value in parameters.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if "{" in path:
        raise NotFound("There is nothing at this path. Check it.")
    return path if endpoint.is_open else BASE_PATH + path
