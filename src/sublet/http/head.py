"""Read the head of a request: check it, and find its id, its client, and the organization that its session
acts for.

The organization isn't stored in the session, because two tabs of a browser share a session and may act for
different organizations.
"""

import re
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from sublet.config import Settings
from sublet.errors import InvalidRequest, NotFound, UriTooLong
from sublet.ids import new_request_id, parse_id
from sublet.operations.client import Client, find_client_address, network_key, parse_trusted_proxies
from sublet.secret import without_secrets
from sublet.sign_in.model import Site

URI_MAX_BYTES = 16 * 1024
"""The maximum length of path and query together; RFC 9110, section 4.1, recommends at least 8,000 bytes."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{0,5})?")
"""A host name, an address or nothing, with or without a port (RFC 9110, section 7.2). Names of containers
have underscores.
"""


def check_head(scope: Scope, fields: Headers) -> None:
    """Raise if a proxy and this service could read the head differently.

    Not checked: an absolute URI in the request line, which uvicorn hides and the proxy handles.

    Raises, in this order:
        UriTooLong: path and query are longer than `URI_MAX_BYTES`.
        InvalidRequest: the version is neither 1.0 nor 1.1; `Host` is missing, repeated or malformed; HTTP/1.0
            has `Transfer-Encoding`; the path has an empty segment or a control character.
        NotFound: the path has an encoded slash.
    """
    path, version, query = scope["path"], scope["http_version"], scope["query_string"]
    hosts = fields.getlist("host")
    target_bytes = len(scope["raw_path"]) + (len(query) + 1 if query else 0)
    if target_bytes > URI_MAX_BYTES:
        raise UriTooLong(f"Path and query are too long. Send {URI_MAX_BYTES} bytes at most.")
    if version not in ("1.0", "1.1"):
        raise InvalidRequest(f"HTTP/{version} is not supported. Send the request in HTTP/1.1.")
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        raise InvalidRequest("HTTP/1.1 needs one header Host. Send it once.")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise InvalidRequest(
            "The header Host is malformed. Send a host name or an address, with or without a port."
        )
    if version == "1.0" and "transfer-encoding" in fields:
        raise InvalidRequest("HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or use HTTP/1.1.")
    if "//" in path:
        raise InvalidRequest("The path has an empty segment (`//`). Remove it.")
    if _CONTROL.search(path):
        raise InvalidRequest("The path has a control character. Remove it.")
    if b"%2f" in scope["raw_path"].lower():  # `path` has it as a slash, and so leads to another resource
        raise NotFound("There is nothing at this path: no name or id has a slash (`%2F`).")


SITES_MAX = 64
"""The maximum number of parsed URLs in the cache."""


def request_id_of(fields: Headers) -> str:
    """Return the client's `X-Request-Id` if it has 1 to 64 characters of `A-Za-z0-9._-` and no token;
    otherwise a new id.
    """
    text = fields.get("x-request-id")
    is_accepted = text is not None and _REQUEST_ID.fullmatch(text) and without_secrets(text) == text
    return text if text is not None and is_accepted else new_request_id()


class Clients:
    """Finds the client of a request. `public_url` is the URL of the service."""

    def __init__(self, settings: Settings, public_url: str) -> None:
        self._trusted = parse_trusted_proxies(settings.trusted_proxies)
        self._public_url = public_url
        self._own_site = _site_of(settings.public_url) if settings.public_url else None

    def find(self, scope: Scope, fields: Headers) -> Client:
        """Return the client of a request."""
        peer = scope.get("client")
        forwarded_for = fields.getlist("x-forwarded-for") if self._trusted else []
        address = find_client_address(peer[0] if peer else "", forwarded_for, self._trusted)
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


ORGANIZATION_HEADER = "Sublet-Organization"


def read_organization(fields: Headers, *, is_of_session: bool) -> int | None:
    """Return the id in the header, or None without the header.

    Raises:
        InvalidRequest: a request with a token has the header, or the header isn't a single id.
    """
    values = fields.getlist(ORGANIZATION_HEADER)
    if not values:
        return None
    if not is_of_session:
        raise InvalidRequest(
            f"{ORGANIZATION_HEADER} is for sessions. Leave it out: a token acts for the organization that "
            "it was created for."
        )
    organization_id = parse_id(values[0]) if len(values) == 1 else None
    if organization_id is None:
        raise InvalidRequest(
            f"{ORGANIZATION_HEADER} is malformed or repeated. Send it once, with the id of an organization."
        )
    return organization_id
