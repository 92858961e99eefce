"""The page of the link in a mail. A button opens the account, because mail programs follow links on their own. The page runs nothing."""

import asyncio
import base64
import hashlib
from urllib.parse import parse_qs

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sublet.audit import Actor
from sublet.db import Database
from sublet.errors import Unavailable
from sublet.ids import new_request_id
from sublet.sign_up.sign_up import CODE_SENTENCE, CONFIRM_PATH, confirm_sign_up

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
    """GET shows the button, POST opens the account and shows the first token. `base_url` is that of the API."""

    def __init__(self, db: Database, base_url: str) -> None:
        self._db = db
        self._base_url = base_url

    async def __call__(self, request: Request) -> Response:
        """Answer a request. The token of the link is 256 random bits, so guesses need no limit."""
        if request.method != "POST":
            return self._page(link_token=request.query_params.get("token", ""))
        try:
            link_token = await sent_token(request)
            actor = Actor(kind="system", name="sign-up", request_id=new_request_id())
            done = await self._db.write(confirm_sign_up, actor, link_token=link_token) if link_token else None
        except (Unavailable, TimeoutError):
            return self._page(problem="The service can't be reached now. Open the link again.", status=503)
        if done is None:
            return self._page(problem=CODE_SENTENCE, status=422)
        secret = done.issued.secret.reveal()
        return self._page(member=done.member, token=done.issued.token, secret=secret)

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
