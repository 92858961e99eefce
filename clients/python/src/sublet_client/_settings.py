"""The settings of a client (no network)."""

import re
from collections.abc import Mapping
from importlib.metadata import version
from urllib.parse import urlsplit

from sublet_client._core import Config
from sublet_client._secret import Secret

DEADLINE_SECONDS, TIMEOUT_SECONDS = 60.0, 35.0
"""The service answers a change within 30 seconds and its wait for the DNS."""
URL, TOKEN = "SUBLET_URL", "SUBLET_TOKEN"
BASE_PATH = "/api/v1"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""The characters of a bearer token (RFC 6750, section 2.1)."""


def config_of(
    base_url: str, token: str | Secret | None, deadline_seconds: float, timeout_seconds: float
) -> Config:
    """Return the configuration of a client.

    Raises:
        ValueError: `base_url` isn't an address that begins with https:// or http://, or `token` can't be a token. Neither is in the message.
    """
    agent = f"sublet-client/{version('sublet-client')}"
    return Config(_checked_url(base_url), _checked_token(token), deadline_seconds, timeout_seconds, agent)


def _checked_url(text: str) -> str:
    """Return the address of the API: that of a host alone gets the usual path."""
    url = text.strip()
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(
            f"Give base_url ({URL}) as https://host{BASE_PATH}, as the operator of the registry says."
        )
    if "@" in parts.netloc:  # it would take the place of the token, and be in every message about the address
        raise ValueError(f"Give base_url ({URL}) without a user name and password.")
    return url.rstrip("/") + ("" if parts.path.strip("/") else BASE_PATH)


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
