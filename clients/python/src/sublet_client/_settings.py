"""The settings of a client (no network)."""

import re
from collections.abc import Mapping
from importlib.metadata import version
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

import httpx2

from sublet_client._core import Config
from sublet_client._secret import Secret

DEADLINE_SECONDS, TIMEOUT_SECONDS = 75.0, 35.0
"""The service answers a change within 30 seconds and its wait for the DNS. The deadline is longer than the
minute for which a rate limit may refuse requests.
"""
URL, TOKEN = "SUBLET_URL", "SUBLET_TOKEN"
BASE_PATH = "/api/v1"
EXAMPLE = f"https://names.example.net{BASE_PATH}"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""The characters of a bearer token (RFC 6750, section 2.1)."""


def config_of(
    base_url: str, token: str | Secret | None, deadline_seconds: float, timeout_seconds: float
) -> Config:
    """Return the configuration of a client.

    Raises:
        ValueError: `base_url` isn't the address of a registry, or `token` can't be a token. Neither is in the
            message.
    """
    agent = f"sublet-client/{version('sublet-client')}"
    return Config(base_url_of(base_url), _checked_token(token), deadline_seconds, timeout_seconds, agent)


def base_url_of(address: str) -> str:
    """Return the URL of the API.

    A missing scheme becomes `https://`, for this machine itself `http://`; a missing path becomes `/api/v1`.

    Raises:
        ValueError: it isn't the address of a registry. It isn't in the message, because it may contain a
            password.
    """
    text = address.strip()
    if "://" not in text:
        text = ("http://" if _is_loopback(text) else "https://") + text
    parts = _split(text)
    if parts is None:
        raise ValueError(f"This is not the address of a registry. Give one such as {EXAMPLE} ({URL}).")
    if "@" in parts.netloc:  # it would replace the token, and be in every message about the address
        raise ValueError(f"Give the address of the registry ({URL}) without a user name and password.")
    return text.rstrip("/") + ("" if parts.path.strip("/") else BASE_PATH)


def _is_loopback(address: str) -> bool:
    """True if an address without a scheme is one of this machine itself, where a
    registry has no certificate.
    """
    parts = _split(f"http://{address}")
    host = (parts.hostname or "") if parts else ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")  # RFC 6761, section 6.3


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it isn't one of HTTP.

    The messages of `urlsplit` may contain the URL, so they are dropped.
    """
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
        httpx2.URL(url).raw_host.decode().encode("idna")  # refuses hosts that no request can have
    except (ValueError, httpx2.InvalidURL):
        return None
    return parts if is_http and not parts.query and not parts.fragment else None


def _checked_token(token: str | Secret | None) -> str | None:
    """Return a token without the spaces and lines around it."""
    if token is None:
        return None
    text = (token.reveal() if isinstance(token, Secret) else token).strip()
    if not _TOKEN.fullmatch(text):
        what = "has characters that no token has" if text else "is empty"
        raise ValueError(f"The token ({TOKEN}) {what}. Give it as the registry showed it, without quotes.")
    return text


def from_environment(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return address and token from `SUBLET_URL` and `SUBLET_TOKEN`.

    Raises:
        ValueError: a variable is missing.
    """
    missing = [name for name in (URL, TOKEN) if not environment.get(name)]
    if missing:
        raise ValueError(f"Set {' and '.join(missing)}.")
    return environment[URL], environment[TOKEN]
