"""Sign in users of `support.registry` with the codes in their mails or with passkeys."""

import re
from datetime import timedelta

from sqlalchemy import select

from sublet.audit import Actor
from sublet.db import Tx
from sublet.mail.store import mails
from sublet.secret import Secret
from sublet.sign_in.codes import request_code
from sublet.sign_in.identify import identify_by_code, identify_by_passkey
from sublet.sign_in.model import Browser, SignedIn, Site
from sublet.sign_in.passkeys import add_passkey, offer_passkey
from sublet.sign_in.sessions import open_session
from sublet.sign_in.webauthn_answers import SIGN_IN_CHALLENGE, new_challenge, use_options
from sublet.sign_up.store import find_signing_key
from support.authenticator import Authenticator
from support.registry import Registry

URL = "https://names.example.net"
SITE = Site(URL, "names.example.net")
LIFETIME = timedelta(days=14)
ANY_BROWSER = Browser()


def texts_to(registry: Registry, email: str) -> list[str]:
    """Return the texts of the mails to an address, the oldest first."""
    query = select(mails.c.text).where(mails.c.recipient == email).order_by(mails.c.id)
    return registry.read(lambda tx: list(tx.connection.execute(query).scalars()))


def newest_code(registry: Registry, email: str) -> str:
    """Return the code in the newest mail that has a code."""
    found = [
        each for text in texts_to(registry, email) for each in re.findall(r"(?i)your code is (\d{6})", text)
    ]
    return str(found[-1])


def newest_link(registry: Registry, email: str) -> str:
    """Return the token of the link in the newest mail that has a link."""
    found = [each for text in texts_to(registry, email) for each in re.findall(r"\?token=(\S+)", text)]
    return str(found[-1])


def wrong(code: str) -> str:
    """Return a code that differs from the given one."""
    return f"{(int(code) + 1) % 1_000_000:06d}"


def enter(
    registry: Registry,
    *,
    email: str = "",
    code: str = "",
    link_token: str = "",
    browser: Browser = ANY_BROWSER,
) -> SignedIn | None:
    """Sign in with a code or a link in a browser."""

    def verb(tx: Tx) -> SignedIn | None:
        who = identify_by_code(tx, email=email, code=code, link_token=link_token)
        return open_session(tx, who, browser, LIFETIME, "r-1", URL) if who is not None else None

    return registry.write(verb)


def sign_in(registry: Registry, name: str = "ann", browser: Browser = ANY_BROWSER) -> SignedIn:
    """Sign a user in by a mailed code. Advance the clock by a minute first if a code was just mailed."""
    email = f"{name}@example.org"
    registry.advance(minutes=1)
    registry.write(request_code, email, "", URL)
    done = enter(registry, email=email, code=newest_code(registry, email), browser=browser)
    assert done is not None
    return done


def session_actor(done: SignedIn) -> Actor:
    """Return the actor of a request with this session."""
    return Actor("user", done.member.user.id, session_id=done.session.id, request_id="r-2")


def again(done: SignedIn) -> Browser:
    """Return the browser of this session."""
    return Browser(secret=Secret(done.secret.reveal()))


def new_passkey(registry: Registry, done: SignedIn, name: str = "phone", origin: str = URL) -> Authenticator:
    """Add a passkey in a session."""
    authenticator = Authenticator(origin)
    actor = session_actor(done)
    credential = authenticator.create(registry.write(offer_passkey, actor, SITE))
    registry.write(add_passkey, actor, name, credential, SITE, URL)
    return authenticator


def sign_in_with(
    registry: Registry, authenticator: Authenticator, browser: Browser = ANY_BROWSER
) -> SignedIn | None:
    """Sign in with a passkey."""
    credential = authenticator.get(options(registry))

    def verb(tx: Tx) -> SignedIn | None:
        who = identify_by_passkey(tx, credential, SITE)
        return open_session(tx, who, browser, LIFETIME, "r-1", URL) if who is not None else None

    return registry.write(verb)


def options(registry: Registry) -> dict[str, object]:
    """Return the options of a sign-in with a passkey."""
    key = registry.read(find_signing_key)
    return use_options(SITE, new_challenge(key, SIGN_IN_CHALLENGE, registry.now))
