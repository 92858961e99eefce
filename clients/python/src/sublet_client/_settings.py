"""The settings of a client (no network)."""

from collections.abc import Mapping
from importlib.metadata import version

from sublet_client._core import Config

DEADLINE_SECONDS, TIMEOUT_SECONDS = 60.0, 35.0
"""The service answers a change within 30 seconds and its wait for the DNS."""
URL, TOKEN = "SUBLET_URL", "SUBLET_TOKEN"


def config_of(base_url: str, token: str | None, deadline_seconds: float, timeout_seconds: float) -> Config:
    """Return the configuration of a client.

    Raises:
        ValueError: `base_url` isn't an address that begins with https:// or http://.
    """
    if not base_url.startswith(("https://", "http://")):
        raise ValueError("Give base_url as https://host/api/v1, as the operator of the registry says.")
    agent = f"sublet-client/{version('sublet-client')}"
    return Config(base_url.rstrip("/"), token, deadline_seconds, timeout_seconds, agent)


def from_environment(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return address and token from `SUBLET_URL` and `SUBLET_TOKEN`.

    Raises:
        ValueError: a variable is missing.
    """
    missing = [name for name in (URL, TOKEN) if not environment.get(name)]
    if missing:
        raise ValueError(f"Set {' and '.join(missing)}.")
    return environment[URL], environment[TOKEN]
