"""The routes of the console.

Every request is checked before the handler of its page, and logged and counted after it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

import jinja2
import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from structlog.contextvars import bind_contextvars

from sublet.accounts.membership_store import list_memberships
from sublet.accounts.model import Membership, Registrant
from sublet.config import parse_nameserver_presets
from sublet.db import Tx
from sublet.errors import AccountSuspended, OrganizationNotFound, Refusal, SessionInvalid, TokenMissing
from sublet.http.calls import Calls, refuse_without_scope
from sublet.http.docs_page import Document, Reference, build_reference
from sublet.http.errors import internal_error
from sublet.http.head import Clients, check_head, request_id_of
from sublet.http.request_log import LoggedRequest, choose_request_log
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.operations.call import Context
from sublet.operations.operation import BASE_PATH, Operation
from sublet.web import filters
from sublet.web.assets import Assets
from sublet.web.filters import REASONS
from sublet.web.form import read_form
from sublet.web.page import CLEARED_MESSAGE, MESSAGE_COOKIE, Page, PageCall, Shared
from sublet.web.routes import ACCOUNT_NAVIGATION, NAVIGATION, PAGES
from sublet.web.site import Site, load_site
from sublet.web.waiting import READ_COOKIE, Waiting, count_waiting

log = structlog.get_logger()
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "referrer-policy": "same-origin",
}
"""The headers that pages have in place of the API's. Only with this referrer policy do browsers send `Origin`
with a form.
"""
SWITCHER_MAX = 20
"""The maximum number of organizations in the head of a page. The page of organizations has all."""
_NOT_SIGNED_IN = (TokenMissing, SessionInvalid)


class Console:
    """The pages. `public_url` is the address at which clients reach the service; `document` builds the
    OpenAPI document.
    """

    def __init__(
        self,
        context: Context,
        public_url: str,
        document: Callable[[], Document],
        operations: Sequence[Operation],
    ) -> None:
        @cache
        def reference() -> Reference:
            return build_reference(document())

        self._calls = Calls(context)
        self._shared = Shared(
            calls=self._calls,
            operations={each.name: each for each in operations},
            render=self.render,
            reference=reference,
            nameserver_presets=parse_nameserver_presets(context.settings.nameserver_presets),
        )
        self._clients = Clients(context.settings, public_url)
        self._context = context
        self._log_request = choose_request_log(context.settings)
        site = load_site(context.settings)
        self._assets = Assets(site.assets)
        self._template_environment = _template_environment(site, self._assets)
        self._template_environment.globals |= {
            "settings": context.settings,
            "checks_health": context.checker is not None,
            "update_server": context.update_server,
            "api_path": BASE_PATH,
            "api_url": public_url + BASE_PATH,
            "reasons": REASONS,
        }

    def routes(self) -> list[Route]:
        """Return the routes of the pages and of their assets."""
        found = self._assets.routes()
        for page in PAGES:
            if not self._shared.operations.keys() >= set(page.operations):
                continue  # the operator turned these operations off
            paths = [page.path]
            if not page.is_open and not page.is_personal:
                paths.append(f"/o/{{organization:id}}{page.path}")
            methods = [*(["GET"] if page.get else []), *(["POST"] if page.post else [])]
            found += [Route(path, self._handler(page), methods=methods) for path in paths]
        return found

    async def refuse(self, request: Request, refusal: Refusal) -> Response:
        """Return the page of a refusal for a path without a page, or for a method that
        the page doesn't have.
        """

        async def show(_call: PageCall) -> Response:
            raise refusal

        return await self._handler(Page(request.url.path, show, is_open=True))(request)

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a page as HTML."""
        return self._template_environment.get_template(f"{template}.html.j2").render(values)

    def _handler(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            request_id = request_id_of(request.headers)
            bind_contextvars(request_id=request_id)
            call = PageCall(
                shared=self._shared,
                page=page,
                request=request,
                client=self._clients.find(request.scope, request.headers),
                request_id=request_id,
                failure_limits=[],
            )
            error, response = await self._answer(call)
            self._finish(call, response)
            seconds = time.perf_counter() - started
            self._context.metrics.count("page", response.status_code, seconds)
            self._log_request(
                LoggedRequest(
                    method=request.method,
                    path=page.path,
                    endpoint="page",
                    status=response.status_code,
                    duration_ms=round(seconds * 1000, 1),
                    user_id=call.registrant.user.id if call.registrant else None,
                    error=error,
                    request_id=request_id,
                )
            )
            return response

        return answer

    async def _answer(self, call: PageCall) -> tuple[str | None, Response]:
        """Return the code of the refusal (None if the handler returned the answer), and the answer."""
        try:
            return None, await self._check_and_handle(call)
        except _NOT_SIGNED_IN as refusal:
            if call.request.method == "POST":
                return refusal.code, await self._refused(call, refusal)
            return refusal.code, RedirectResponse(f"/signin?next={quote(call.asked, safe='')}", 303)
        except Refusal as refusal:
            return refusal.code, await self._refused(call, refusal)
        except Exception:
            log.exception("fault", path=call.page.path)
            fault = internal_error(call.request_id)
            return fault.code, await self._refused(call, fault)

    async def _refused(self, call: PageCall, refusal: Refusal) -> Response:
        call.refusal = refusal
        return await call.render("refused")

    async def _check_and_handle(self, call: PageCall) -> Response:
        """Check the head, the rate limits, the form, the session and the origin of the form, then return the
        answer of the handler.
        """
        request, page = call.request, call.page
        check_head(request.scope, request.headers)
        call.failure_limits = await self._calls.count_request(call.client, call.headers)
        is_form = request.method == "POST" and page.post is not None
        if is_form:
            call.form = await read_form(request)
            call.refuse_other_sites()
        await self._authenticate(call)
        if page.post is None or not is_form:
            assert page.get is not None  # noqa: S101 - the route has no other method
            if page.scope and call.registrant is not None:
                refuse_without_scope(call.registrant, page.scope)
            return await page.get(call)
        try:
            call.refuse_forged()
            return await page.post(call)
        except Refusal as refusal:
            if page.get is None:
                raise
            call.refusal = refusal
        return await page.get(call)

    async def _authenticate(self, call: PageCall) -> None:
        """Find the session of the browser, and read what the head of a page with a session shows.

        Raises:
            Refusal: any of `authenticate_session`. An open page needs no session.
        """
        organization_id = call.request.path_params.get("organization")
        try:
            call.registrant = await self._session_of(call, organization_id)
        except _NOT_SIGNED_IN:
            if not call.page.is_open:
                raise
            return
        except (OrganizationNotFound, AccountSuspended):
            # The page of the refusal is the user's own.
            call.registrant = await self._session_of(call, None)
            raise
        call.organization_id = organization_id
        self._context.record_use(call.registrant, call.client.address)
        call.memberships, waiting = await self._context.db.read(_read_head, call.registrant)
        call.waiting = waiting.without_read(call.request.cookies.get(READ_COOKIE, ""))

    async def _session_of(self, call: PageCall, organization_id: int | None) -> Registrant:
        return await self._calls.authenticate_session(
            call.client, call.headers, call.failure_limits, organization_id
        )

    def _finish(self, call: PageCall, response: Response) -> None:
        """Set the headers of an answer."""
        for name, value in (SECURITY_HEADERS | PAGE_HEADERS).items():
            response.headers.setdefault(name, value)
        response.headers["x-request-id"] = call.request_id
        if "set-cookie" in call.headers:
            response.raw_headers.insert(0, (b"set-cookie", call.headers["set-cookie"].encode("latin-1")))
        if MESSAGE_COOKIE in call.request.cookies and response.status_code != 303:
            response.headers.append("set-cookie", CLEARED_MESSAGE)


def _read_head(tx: Tx, registrant: Registrant) -> tuple[Sequence[Membership], Waiting]:
    """Return what the head of each page shows: the user's organizations, and what waits."""
    memberships = list_memberships(tx, registrant.user.id, SWITCHER_MAX)
    return memberships, count_waiting(tx, registrant)


def _template_environment(site: Site, assets: Assets) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sublet.web", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {
        "asset": assets.url,
        "site": site,
        "navigation": NAVIGATION,
        "account_navigation": ACCOUNT_NAVIGATION,
    }
    environment.filters |= filters.FILTERS | {"unquote": unquote}
    return environment
