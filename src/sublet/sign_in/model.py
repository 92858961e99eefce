"""The types of signing in: an identified person, the browser, the site, a passkey."""

from datetime import datetime

from msgspec import Struct

from sublet.accounts.model import Member, Session, User
from sublet.secret import Secret


class IdentifiedUser(Struct, frozen=True):
    """A user whose identity was verified, and the method, one of `sessions.SIGN_IN_METHODS`."""

    user: User
    how: str


class Browser(Struct, frozen=True):
    """The client that signs in: its address and network, its `User-Agent`, and the secret of the session that
    it already has.
    """

    address: str | None = None
    network: str = ""
    user_agent: str = ""
    secret: Secret | None = None


class SignedIn(Struct, frozen=True):
    """A session, its user, and its new secret, which only the browser stores."""

    member: Member
    session: Session
    secret: Secret


class Site(Struct, frozen=True):
    """The service as browsers see it: its origin, and the host name that passkeys belong to (the RP ID)."""

    origin: str
    host: str


class Passkey(Struct, frozen=True):
    """A passkey. `credential_id` and `public_key` are in base64url.

    `sign_count` stays 0 if the authenticator doesn't count.
    """

    id: int
    user_id: int
    name: str
    credential_id: str
    public_key: str
    sign_count: int
    transports: list[str]
    created_at: datetime
    last_used_at: datetime | None
