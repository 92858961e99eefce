"""Where a request comes from: the client's address, and whether a browser sent it from a page of ours (against forged requests)."""

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from sublet.audit import Actor
from sublet.config import Settings
from sublet.errors import OriginRefused
from sublet.http.client_address import find_client_address, network_key, parse_trusted_proxies
from sublet.http.session_cookie import read_cookie
from sublet.secret import Secret
from sublet.sign_in.model import Browser, Site

SITES_MAX = 64
"""How many parsed addresses of the service are kept."""


class Client(NamedTuple):
    """The client of a request, and the service as this client reaches it.

    `network` is that of `address`, for the limits of a network; empty on this machine itself. `public_url` is where clients reach the
    service. `site` is the origin of its pages: of the setting `public_url`, or of the request's own host if that is empty.
    """

    address: str
    network: str
    public_url: str
    site: Site
    fields: Headers

    @property
    def source(self) -> str | None:
        """The address without a zone, as it is stored; None if it is unknown."""
        return self.address.partition("%")[0] or None

    def visitor(self, name: str, request_id: str) -> Actor:
        """Return the actor of what needs no token; `name` says what it does. The address is that of the client."""
        return Actor(kind="system", name=name, request_id=request_id, address=self.source)

    def browser(self) -> Browser:
        """Return the client as it signs in."""
        return Browser(self.source, self.network, self.fields.get("user-agent", ""), self.session_secret())

    def session_secret(self) -> Secret | None:
        """Return the secret of the session in the cookie, if there is one."""
        return read_cookie(self.fields)


class Clients:
    """Tells the clients of requests. `public_url` is where clients reach the service."""

    def __init__(self, settings: Settings, public_url: str) -> None:
        self._trusted = parse_trusted_proxies(settings.trusted_proxies)
        self._public_url = public_url
        self._own_site = _site_of(settings.public_url) if settings.public_url else None

    def find(self, scope: Scope, fields: Headers) -> Client:
        """Return the client of a request."""
        peer = scope.get("client")
        address = peer[0] if peer else ""
        if self._trusted:
            address = find_client_address(address, fields.getlist("x-forwarded-for"), self._trusted)
        site = self._own_site or _site_of(f"{scope['scheme']}://{fields.get('host', '')}")
        if not site.host:
            site = _site_of(self._public_url)
        return Client(address, network_key(address) or "", self._public_url, site, fields)


@lru_cache(SITES_MAX)
def _site_of(url: str) -> Site:
    """Return the site of a URL, with an empty host if there is none or it is malformed."""
    try:
        parts = urlsplit(url)
        return Site(f"{parts.scheme}://{parts.netloc}".lower(), parts.hostname or "")
    except ValueError:
        return Site("", "")


def is_from_site(fields: Headers, site: Site) -> bool | None:
    """True if a browser says that a page of the site sent the request, False if it was another page; None if nothing says so.

    `Sec-Fetch-Site` comes first: a form on a page without referrer sends `Origin: null`.
    """
    fetched_from = fields.get("sec-fetch-site")
    if fetched_from is not None:
        return fetched_from == "same-origin"
    origin = fields.get("origin")
    return None if origin is None else origin.lower() == site.origin


def refuse_other_sites(client: Client) -> None:
    """Raise `OriginRefused` if a page of another site sent the request, which could sign its reader in to another account."""
    if is_from_site(client.fields, client.site) is False:
        raise origin_refused(client.site)


def origin_refused(site: Site) -> OriginRefused:
    """Return the refusal of a request that a page of another site may have sent."""
    return OriginRefused(
        f"A request with a session comes from a page at {site.origin}, and its browser says so in Origin or Sec-Fetch-Site. Send it from "
        "there, or use a token."
    )
