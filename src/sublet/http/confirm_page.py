"""The page of the link in a mail. A button opens the account, or accepts the invitation, because mail programs follow links on their own.

The page runs nothing.
"""

import asyncio
import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sublet.config import Settings
from sublet.db import Database
from sublet.errors import Refusal, Unavailable
from sublet.http.client import Client, Clients
from sublet.ids import new_request_id
from sublet.organizations.accept_invitation import Accepted, accept_invitation, opens_accounts
from sublet.sign_up.sign_up import CODE_SENTENCE, CONFIRM_PATH, SignedUp, confirm_sign_up

BODY_MAX_BYTES = 1024
BODY_SECONDS = 10.0
_LOADER = jinja2.PackageLoader("sublet.http", "docs_templates")
_TEMPLATE = jinja2.Environment(loader=_LOADER, autoescape=True).get_template("confirm.html.j2")
STYLE = _LOADER.get_source(jinja2.Environment(autoescape=True), "confirm.css")[0]
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
}


class ConfirmPage:
    """GET shows the button, POST uses the code and shows a first token, if there is one. `base_url` is that of the API."""

    def __init__(self, db: Database, settings: Settings, base_url: str) -> None:
        self._db = db
        self._base_url = base_url
        self._clients = Clients(settings, base_url)
        self._opens_accounts = opens_accounts(settings)

    async def __call__(self, request: Request) -> Response:
        """Answer a request. The token of the link is 256 random bits, so guesses need no limit."""
        if request.method != "POST":
            return self._page(link_token=request.query_params.get("token", ""))
        try:
            link_token = await sent_token(request)
            client = self._clients.find(request.scope, request.headers)
            done = await self._use(link_token, client) if link_token else None
        except (Unavailable, TimeoutError):
            return self._page(problem="The service can't be reached now. Open the link again.", status=503)
        except Refusal as refusal:
            return self._page(problem=refusal.message, status=403)
        if done is None:
            return self._page(problem=CODE_SENTENCE, status=422)
        shown: dict[str, Any] = {"member": done.member}
        if isinstance(done, Accepted):
            shown["membership"] = done.membership
        if done.issued is not None:
            shown |= {"token": done.issued.token, "secret": done.issued.secret.reveal()}
        return self._page(**shown)

    async def _use(self, link_token: str, client: Client) -> SignedUp | Accepted | None:
        """Use the code for what it was sent for. A sign-up doesn't find the code of an invitation, and leaves it alone."""
        request_id = new_request_id()
        actor = client.visitor("sign-up", request_id)
        opened = await self._db.write(confirm_sign_up, actor, link_token=link_token)
        if opened is not None:
            return opened
        actor = client.visitor("invitation", request_id)
        return await self._db.write(accept_invitation, actor, link_token, opens_accounts=self._opens_accounts)

    def _page(self, *, status: int = 200, **values: object) -> Response:
        shown = {"style": STYLE, "path": CONFIRM_PATH, "base_url": self._base_url, **values}
        return HTMLResponse(_TEMPLATE.render(shown), status, PAGE_HEADERS)


async def sent_token(request: Request) -> str:
    """Return the field `token` of the form; empty if there is none, or if the form is too long."""
    body = b""
    async with asyncio.timeout(BODY_SECONDS):
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_MAX_BYTES:
                return ""
    return parse_qs(body.decode("ascii", "replace")).get("token", [""])[0]
