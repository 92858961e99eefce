"""A browser that is signed in at a running service.

It sends the cookie of its session, and `Origin` with changes.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx

from sublet.accounts.sessions import MAIL
from sublet.accounts.store import find_user_by_email
from sublet.db import Tx
from sublet.operations.client import COOKIE
from sublet.secret import Secret
from sublet.sign_in.model import Browser as Client
from sublet.sign_in.model import IdentifiedUser, SignedIn
from sublet.sign_in.sessions import open_session
from support.running_service import RunningService


@dataclass
class Browser:
    """A browser with a session."""

    service: RunningService
    secret: str

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request like a page of the service. A header that is empty is left out."""
        more = {} if method == "GET" else {"origin": self.service.origin}
        sent = {"cookie": f"a=b; {COOKIE}={self.secret}"} | more | headers
        sent = {name: value for name, value in sent.items() if value}
        return self.service.call(None, method, path, body, **sent)


def signed_in(service: RunningService, email: str, former: Browser | None = None) -> Browser:
    """Return a browser in which a user has just signed in by mail.

    With a `former` browser its session is signed in again.
    """

    def verb(tx: Tx) -> SignedIn:
        user = find_user_by_email(tx, email)
        assert user is not None
        client = Client(secret=Secret(former.secret)) if former is not None else Client()
        return open_session(tx, IdentifiedUser(user, MAIL), client, timedelta(days=14), "r-1", "")

    return Browser(service, service.write(verb).secret.reveal())
