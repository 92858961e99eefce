"""Who sends a request: the client's address behind proxies, its browser, and the cookie of its session."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, Protocol

from sublet.audit import Actor
from sublet.config import split_list
from sublet.errors import OriginRefused
from sublet.secret import Secret
from sublet.sign_in.model import Browser, Site

CACHE_SIZE = 4096
NETWORK_BITS = {4: 24, 6: 48}
"""The prefix length of a network, by IP version. RFC 6177 gives an IPv6 site a /48 to a /64."""


_HOP = re.compile(r"\[(?P<ipv6>[^\]]*)\](:[0-9]+)?|(?P<ipv4>[0-9.]+)(:[0-9]+)?|(?P<other>.*)")
"""An element of `X-Forwarded-For`. Some proxies append the port of the connection, and write an IPv6 address
in brackets then.
"""


COOKIE = "__Host-sublet_session"
_ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax"
CLEARED_COOKIE = f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}"
"""The value of `Set-Cookie` that deletes the cookie."""


def parse_trusted_proxies(text: str) -> frozenset[str]:
    """Return the addresses of the setting `trusted_proxies`, in canonical form."""
    return frozenset(_plain(part) or part for part in split_list(text))


def find_client_address(peer: str, forwarded_for: list[str], trusted: frozenset[str]) -> str:
    """Return the address of the client: an IPv4 address also if an IPv6 socket took the connection, which
    shows it as `::ffff:192.0.2.1`.

    `peer` is the other end of the connection, `forwarded_for` has the `X-Forwarded-For` headers.

    A trusted proxy appends the address that it sees, with or without its port, so the last address that isn't
    a trusted proxy counts. A client can invent earlier addresses. The header of an untrusted peer is ignored.
    """
    peer = _plain(peer) or peer
    if peer not in trusted:
        return peer
    hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
    for hop in reversed(hops):
        address = _plain(_without_port(hop))
        if address is None:
            return peer
        if address not in trusted:
            return address
        peer = address
    return peer


@lru_cache(CACHE_SIZE)
def _plain(text: str) -> str | None:
    """Return an address in canonical form, and that of an IPv4-mapped IPv6 address as IPv4; None if the text
    isn't an address.
    """
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _without_port(hop: str) -> str:
    found = _HOP.fullmatch(hop)
    return next(each for each in found.group("ipv6", "ipv4", "other") if each is not None) if found else hop


@lru_cache(CACHE_SIZE)
def address_key(address: str) -> str:
    """Return the rate limit key of an address: an IPv4 address, or the /64 of an IPv6 address, because a
    customer has a whole /64.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))


@lru_cache(CACHE_SIZE)
def network_key(address: str) -> str | None:
    """Return the rate limit key of an address's network; None for loopback, and for a text that isn't an
    address.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if parsed.is_loopback:
        return None
    return str(ipaddress.ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False))


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
