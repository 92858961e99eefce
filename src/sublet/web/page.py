"""The types of the console's pages: an entry of the page table, and one request for a page."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct, field
from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sublet.accounts.model import Membership, Organization, Registrant, User
from sublet.accounts.sessions import RECENT_SIGN_IN
from sublet.db import Tx
from sublet.errors import NotFound, OriginRefused, Refusal
from sublet.http.calls import Calls, FailureLimits, SentRequest
from sublet.http.docs_page import Reference
from sublet.http.errors import refusal_headers, status_of
from sublet.operations.call import Call
from sublet.operations.client import Client, address_key, is_from_site
from sublet.operations.operation import Operation
from sublet.structs import replace
from sublet.web.form import KEY_FIELD, TOKEN_FIELD, USER_FIELD, Form, form_token, is_form_token, new_key
from sublet.web.waiting import NOTHING_WAITS, Waiting

ReadT = TypeVar("ReadT")
MESSAGE_COOKIE = "__Host-sublet_message"
COOKIE_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"
MESSAGE_SECONDS = 60
MESSAGE_BYTES_MAX = 1200
"""The maximum length of a message in UTF-8. Percent-encoding makes it up to three times as long, and browsers
keep 4096 bytes of a cookie (RFC 6265, section 6.1).
"""
WARNING_MARK = "!"
"""The first character of a message that is a warning."""
_SINCE = datetime(1970, 1, 1, tzinfo=UTC)
ANONYMOUS = Registrant(
    User(0, "", "", 0, None, None, None, _SINCE), Organization(0, "", "", _SINCE), token=None
)
"""The registrant of requests without a session, who may only call `ANONYMOUS_OPERATIONS`."""
ANONYMOUS_OPERATIONS = ("platform_domains", "availability")
"""The names of the operations that the console calls without a session. In the API they need a token, like
all under the base path.
"""
PAGE_LIMIT = 50
"""The number of items on a page of a list."""
LISTED_MAX = 500
"""The maximum number of items of a list without pages."""
FEW = 5
"""The number of items above which a list has the form that filters it."""


class _IdConvertor(Convertor[int]):
    """Converts an id in a path, `{name:id}`.

    Other numbers match no page: a database refuses integers of more than 64 bits.
    """

    regex = "[1-9][0-9]{0,17}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("id", _IdConvertor())


class Page(Struct, frozen=True):
    """A path with the handlers of its methods.

    `operations` are the names of the operations that the handlers call.

    If the API refuses what `post` sends, `get` shows the page with the form and the refusal. To show another
    page instead, `post` catches the refusal itself.

    A page that isn't open needs a session. A page that is neither open nor personal is also at
    `/o/{organization}` before its path.
    """

    path: str
    get: "Handler | None" = None
    post: "Handler | None" = None
    operations: tuple[str, ...] = ()
    is_open: bool = False
    scope: str = ""
    """The scope without which `get` refuses, because its form would be refused."""
    is_personal: bool = False
    """True for a page about the signed-in user, which organizations don't have."""


class Shared(Struct, frozen=True):
    """What all pages use: the calls of operations, the operations by name, and the function that renders a
    template.
    """

    calls: Calls
    operations: Mapping[str, Operation]
    render: Callable[[str, Mapping[str, Any]], str]
    reference: Callable[[], Reference]
    """Returns the API reference, which it renders at the first call."""
    nameserver_presets: Sequence[tuple[str, Sequence[str]]]


class PageCall(Struct, kw_only=True):
    """A request for a page. `registrant` is None if the browser isn't signed in."""

    shared: Shared
    page: Page
    request: Request
    client: Client
    request_id: str
    failure_limits: FailureLimits
    registrant: Registrant | None = None
    organization_id: int | None = None
    memberships: Sequence[Membership] = ()
    """The organizations for which the user may act, shown in the head of the page."""
    waiting: Waiting = NOTHING_WAITS
    form: Form = field(default_factory=Form)
    refusal: Refusal | None = None
    """The refusal that the page shows, and whose status it has."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers for the answer: `Set-Cookie`, and the API's rate limits."""
    counted_classes: set[str] = field(default_factory=set)
    """The rate classes that this page has counted. All its reads of a class count once, because the user sees
    one page.
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the path."""
        return self.request.path_params

    @property
    def asked(self) -> str:
        """The path and query of this page, percent-encoded as the browser sent them."""
        path, query = self.request.scope["raw_path"].decode("ascii"), self.request.url.query
        return f"{path}?{query}" if query else path

    def url(self, path: str) -> str:
        """Return the path of another page for the same holder: the user, or the organization in the path of
        this page.
        """
        return path if self.organization_id is None else f"/o/{self.organization_id}{path}"

    async def api(
        self,
        name: str,
        /,
        members: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        if_match: str = "",
        key: str = "",
        is_guess: bool = True,
        **parameters: str,
    ) -> Any:
        """Call an operation of the API with the members of its body, and return the Struct of its answer.

        The form's idempotency key is sent, so a form that is sent twice acts once. A form that calls an
        operation several times needs another `key` for each call. Pass `is_guess=False` for a call whose
        refusal is no failed authentication, because another call follows.

        Raises:
            Refusal: any of the operation.
        """
        assert name in self.page.operations, f"{self.page.path} doesn't list {name}"  # noqa: S101
        operation = self.shared.operations[name]
        # A header must be ASCII. A form with another text gets a tag that matches nothing.
        fields = {"if-match": if_match if if_match.isascii() else "-"} if if_match else {}
        if form_key := self.form.get(KEY_FIELD):
            fields["idempotency-key"] = hashlib.sha256(f"{form_key}\n{name}\n{key}".encode()).hexdigest()
        sent = SentRequest(
            fields=Headers(fields),
            client=self.client,
            request_id=self.request_id,
            path=_request_path(operation, parameters),
            parameters=parameters,
            query_string=urlencode(_query_values(query or {})).encode("ascii"),
            sent_members=dict(members or {}),
            headers=self.headers,
            counted_classes=self.counted_classes,
        )
        if operation.is_open:
            limits = self.failure_limits if is_guess else []
            return (await self.shared.calls.answer_open(operation, sent, limits)).body
        registrant = self.registrant
        if registrant is None:
            assert name in ANONYMOUS_OPERATIONS, f"the operation {name} of an open page needs a token"  # noqa: S101
            registrant, sent.counted_as = ANONYMOUS, f"anonymous-{address_key(self.client.address)}"
        return (await self.shared.calls.answer(operation, registrant, sent)).body

    async def read(self, name: str, function: Callable[[Tx, Call[None, None]], ReadT]) -> ReadT:
        """Return what a function reads in one transaction.

        Scope, role and limit of an operation apply, and its reads count once.

        Raises:
            Refusal: RateLimited, InsufficientRole, or a refusal of the function.
        """
        assert name in self.page.operations, f"{self.page.path} doesn't list {name}"  # noqa: S101
        assert self.registrant is not None, "the page needs a session"  # noqa: S101
        calls = self.shared.calls
        operation = self.shared.operations[name]
        sent = SentRequest(
            fields=Headers(),
            client=self.client,
            request_id=self.request_id,
            path=self.request.url.path,
            headers=self.headers,
            counted_classes=self.counted_classes,
        )
        await calls.admit(operation, self.registrant, sent)
        return await calls.context.db.read(function, self.as_call())

    async def acting_for(self, organization_id: int | None) -> "PageCall":
        """Return this request acting for another organization of the user, or for the user.

        Raises:
            Refusal: any of `authenticate_session`.
        """
        registrant = await self.shared.calls.authenticate_session(
            self.client, self.headers, self.failure_limits, organization_id
        )
        return replace(self, registrant=registrant, organization_id=organization_id)

    def as_call(self) -> Call[None, None]:
        """Return this request as operations take it, with the parameters of the page's path."""
        assert self.registrant is not None, "the page needs a session"  # noqa: S101
        return Call(
            context=self.shared.calls.context,
            request_id=self.request_id,
            registrant=self.registrant,
            path={name: str(value) for name, value in self.parameters.items()},
            body=None,
            query=None,
            idempotency_key=None,
            fingerprint="",
            status=200,
            request_path=self.request.url.path,
            query_string="",
            client=self.client,
        )

    def filters(self, *names: str) -> dict[str, str]:
        """Return these parameters of the query; a missing one is empty."""
        return {name: self.request.query_params.get(name, "") for name in names}

    async def find_page(self, name: str, filters: Mapping[str, str], *, limit: int = PAGE_LIMIT) -> Any:
        """Return the answer of an operation that lists.

        Return None if it refuses the filters, and show the refusal on the page.
        """
        try:
            return await self.api(name, query={**filters, "limit": limit})
        except Refusal as refusal:
            self.refusal = refusal
            return None

    def refuse_other_sites(self) -> None:
        """Raise if the browser's headers say that a form comes from another site.

        Raises:
            OriginRefused: a page of another site sent the form.
        """
        if is_from_site(self.client.fields, self.client.site) is False:
            raise OriginRefused(
                "This form comes from another site. Open the page here, and fill it in there."
            )

    def refuse_forged(self) -> None:
        """Raise if the token of a form isn't of this session.

        A form of a former session of the same user is accepted if the browser says that a page of this site
        sent it. The forms of an open page have no token, because they use no session.

        Raises:
            OriginRefused: the form is of another user's session, or of another site.
        """
        secret = self.client.session_secret()
        if self.page.is_open or secret is None or is_form_token(self.form.get(TOKEN_FIELD, ""), secret):
            return
        if not is_from_site(self.client.fields, self.client.site):
            self.form = Form()  # Another site may have chosen its fields, so the page doesn't show them.
        elif self.registrant is not None and self.form.get(USER_FIELD) == str(self.registrant.user.id):
            return
        who = f", as {self.registrant.user.email}," if self.registrant is not None else ""
        raise OriginRefused(
            f"You have signed in again{who} since you opened this form. Nothing is changed yet."
        )

    @property
    def typed(self) -> list[tuple[str, str]]:
        """The fields of a form, besides those that each form has, to show them again.

        Empty if the browser doesn't say that a page of this site sent the form.
        """
        if not is_from_site(self.client.fields, self.client.site):
            return []
        return [
            (name, value)
            for name, values in self.form.lists.items()
            if name not in (TOKEN_FIELD, KEY_FIELD, USER_FIELD)
            for value in values
        ]

    @property
    def has_old_sign_in(self) -> bool:
        """True if the sign-in of this browser is too old for a sensitive operation.

        Its method isn't checked.
        """
        session = self.registrant.session if self.registrant is not None else None
        now = self.shared.calls.context.db.now()
        return session is not None and now - session.signed_in_at > RECENT_SIGN_IN

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the user's role in the organization for which the user acts;
        none without a session.
        """
        return frozenset() if self.registrant is None else frozenset(self.registrant.restrictions.scopes)

    async def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Return a page. If there is a refusal, the page shows it and has its status.

        A thread renders it, because the first view of a page also compiles the template.
        """
        refusal = self.refusal
        secret = self.client.session_secret() if self.registrant is not None else None
        page = await asyncio.to_thread(
            self.shared.render,
            template,
            {
                "call": self,
                "url": self.url,
                "me": self.registrant,
                "scopes": self.scopes,
                "form": self.form,
                "refusal": refusal,
                "form_token": form_token(secret) if secret is not None else "",
                "new_key": new_key,
                "few": FEW,
                "message": self.message,
                **values,
            },
        )
        if refusal is None:
            return HTMLResponse(page, status)
        return HTMLResponse(page, status_of(type(refusal)), refusal_headers(refusal))

    def redirect(
        self, path: str, message: str = "", *, is_warning: bool = False, is_personal: bool = False
    ) -> Response:
        """Redirect to another page after an accepted form. That page shows the message once.

        Pass `is_personal=True` for a page that organizations don't have.
        """
        response = RedirectResponse(path if is_personal else self.url(path), 303)
        if message:
            text = quote((WARNING_MARK if is_warning else "") + _cut(message))
            set_cookie(response, MESSAGE_COOKIE, text, MESSAGE_SECONDS)
        return response

    @property
    def message(self) -> str:
        """The message that this page shows once, percent-encoded; empty if there is none."""
        return self.request.cookies.get(MESSAGE_COOKIE, "")


def set_cookie(response: Response, name: str, value: str, seconds: int) -> None:
    """Set a cookie of the console, which the browser keeps for some seconds.

    `value` has no blank, comma, semicolon, quotation mark or backslash (RFC 6265, section 4.1.1).
    """
    response.headers.append("set-cookie", f"{name}={value}; Max-Age={seconds}; {COOKIE_ATTRIBUTES}")


def _cut(message: str) -> str:
    """Return a message, cut to `MESSAGE_BYTES_MAX`."""
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES_MAX:
        return message
    return encoded[:MESSAGE_BYTES_MAX].decode(errors="ignore") + " …"


CLEARED_MESSAGE = f"{MESSAGE_COOKIE}=; Max-Age=0; {COOKIE_ATTRIBUTES}"
Handler = Callable[[PageCall], Awaitable[Response]]


def _query_values(query: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in query.items() if value not in (None, "")}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def _request_path(operation: Operation, parameters: Mapping[str, str]) -> str:
    path = operation.full_path
    for name, value in parameters.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if "{" in path:
        raise NotFound("There is nothing at this path. Check it.")
    return path
