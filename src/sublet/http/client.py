"""Find the client of a request, and the site of the service that it sees."""

from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from sublet.config import Settings
from sublet.operations.client import Client
from sublet.operations.client_address import find_client_address, network_key, parse_trusted_proxies
from sublet.sign_in.model import Site

SITES_MAX = 64
"""The maximum number of parsed URLs in the cache."""


class Clients:
    """Finds the client of a request. `public_url` is the URL of the service."""

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
    """Return the site of a URL. Its host is empty if the URL has no host or is malformed."""
    try:
        parts = urlsplit(url)
        return Site(f"{parts.scheme}://{parts.netloc}".lower(), parts.hostname or "")
    except ValueError:
        return Site("", "")
