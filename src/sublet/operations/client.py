"""The client of a request, and the check against requests that pages of other sites forge."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sublet.audit import Actor
from sublet.errors import OriginRefused
from sublet.operations.session_cookie import read_cookie
from sublet.secret import Secret
from sublet.sign_in.model import Browser, Site


class Fields(Protocol):
    """The headers of a request. Names have any case."""

    def get(self, key: str, /) -> str | None:
        """Return the first value of a header."""

    def getlist(self, key: str, /) -> Sequence[str]:
        """Return all values of a header."""


class Client(NamedTuple):
    """The client of a request, and the URL and site of the service for this client.

    `network` is the rate limit key of the address's network, empty for loopback. `site` has the origin of the
    service's pages, which is that of the setting `public_url`, or of the request's `Host` if the setting is
    empty. `fields` are the headers of the request.
    """

    address: str
    network: str
    public_url: str
    site: Site
    fields: Fields

    @property
    def address_without_zone(self) -> str | None:
        """The address without an IPv6 zone, as it is stored; None if it is unknown."""
        return self.address.partition("%")[0] or None

    def system_actor(self, name: str, request_id: str) -> Actor:
        """Return the actor of a request without a token.

        `name` is the actor's name in the audit, such as `sign-up`.
        """
        return Actor(kind="system", name=name, request_id=request_id, address=self.address_without_zone)

    def browser(self) -> Browser:
        """Return the client as a browser that signs in, with the secret of its present session."""
        return Browser(
            self.address_without_zone,
            self.network,
            self.fields.get("user-agent") or "",
            self.session_secret(),
        )

    def session_secret(self) -> Secret | None:
        """Return the session's secret from the cookie; None without a cookie."""
        return read_cookie(self.fields.getlist("cookie"))


def is_from_site(fields: Fields, site: Site) -> bool | None:
    """True if the headers say that a page of the site sent the request, False if another page did, None if
    they don't say.

    `Sec-Fetch-Site` takes precedence, because a form on a page with `Referrer-Policy: no-referrer` sends
    `Origin: null`.
    """
    fetched_from = fields.get("sec-fetch-site")
    if fetched_from is not None:
        return fetched_from == "same-origin"
    origin = fields.get("origin")
    return None if origin is None else origin.lower() == site.origin


def refuse_other_sites(client: Client) -> None:
    """Raise `OriginRefused` if a page of another site sent the request.

    Such a page could sign its visitor in to an attacker's account.
    """
    if is_from_site(client.fields, client.site) is False:
        raise origin_refusal(client.site)


def origin_refusal(site: Site) -> OriginRefused:
    """Return the refusal of a request that may come from a page of another site."""
    return OriginRefused(
        f"A request with a session must come from a page at {site.origin}, with the header Origin or "
        "Sec-Fetch-Site. Send it from there, or use a token."
    )
