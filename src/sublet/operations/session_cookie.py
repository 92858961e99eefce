"""The cookie of a session.

The prefix `__Host-` binds the cookie to this host, TLS and the path /; browsers trust localhost without TLS.
"""

from collections.abc import Iterable
from datetime import datetime

from sublet.secret import Secret

COOKIE = "__Host-sublet_session"
_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"
CLEARED_COOKIE = f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}"
"""The value of `Set-Cookie` that deletes the cookie."""


def set_cookie(secret: Secret, expires_at: datetime, now: datetime) -> str:
    """Return the value of `Set-Cookie` with the secret of a session."""
    return f"{COOKIE}={secret.reveal()}; Max-Age={int((expires_at - now).total_seconds())}; {_ATTRIBUTES}"


def read_cookie(lines: Iterable[str]) -> Secret | None:
    """Return the secret in the headers `Cookie` of a request; None if it has no such cookie, or several."""
    found = [
        value
        for line in lines
        for name, equals, value in (each.strip().partition("=") for each in line.split(";"))
        if equals and name == COOKIE
    ]
    return Secret(found[0]) if len(found) == 1 and found[0] else None
