"""The page of a link that signs in, from a mail or the operator. A button does it, because mail programs follow links. The page runs nothing."""

from datetime import timedelta

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sublet.config import Settings
from sublet.db import Database, Tx
from sublet.errors import OriginRefused, Unavailable
from sublet.http.client import Clients, refuse_other_sites
from sublet.http.confirm_page import PAGE_HEADERS, STYLE, sent_token
from sublet.http.session_cookie import set_cookie
from sublet.ids import new_request_id
from sublet.sign_in.identify import CODE_SENTENCE, identify_by_code
from sublet.sign_in.model import SignedIn
from sublet.sign_in.open_session import open_session
from sublet.sign_in.request_code import LINK_PATH

_LOADER = jinja2.PackageLoader("sublet.http", "docs_templates")
_TEMPLATE = jinja2.Environment(loader=_LOADER, autoescape=True).get_template("sign_in.html.j2")


class SignInPage:
    """GET shows the button, POST signs the browser in. `public_url` is where clients reach the service."""

    def __init__(self, db: Database, settings: Settings, public_url: str) -> None:
        self._db = db
        self._lifetime = timedelta(days=settings.session_max_days)
        self._clients = Clients(settings, public_url)

    async def __call__(self, request: Request) -> Response:
        """Answer a request. The token of the link is 256 random bits, so guesses need no limit."""
        if request.method != "POST":
            return _page(link_token=request.query_params.get("token", ""))
        try:
            done = await self._sign_in(request)
        except (Unavailable, TimeoutError):
            return _page(problem="The service can't be reached now. Open the link again.", status=503)
        except OriginRefused:
            return _page(
                problem="Another site sent this form. Open the link again, and use its button.", status=403
            )
        if done is None:
            return _page(problem=CODE_SENTENCE, status=422)
        page = _page(user=done.member.user)
        page.headers["set-cookie"] = set_cookie(done.secret, done.session.expires_at, self._db.now())
        return page

    async def _sign_in(self, request: Request) -> SignedIn | None:
        client = self._clients.find(request.scope, request.headers)
        refuse_other_sites(client)
        link_token = await sent_token(request)

        def verb(tx: Tx) -> SignedIn | None:
            who = identify_by_code(tx, link_token=link_token)
            if who is None:
                return None
            return open_session(
                tx, who, client.browser(), self._lifetime, new_request_id(), client.public_url
            )

        return await self._db.write(verb) if link_token else None


def _page(*, status: int = 200, **values: object) -> Response:
    shown = {"style": STYLE, "path": LINK_PATH, **values}
    return HTMLResponse(_TEMPLATE.render(shown), status, PAGE_HEADERS)
