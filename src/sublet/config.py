"""The settings: one frozen object, every default written here; docs/settings.md explains each.

A TOML file (`--config`, or SUBLET_CONFIG) gives them by their names in lower case, the environment as `SUBLET_` and the
name in capitals; the environment wins. Unknown settings are refused, so that a typing error can't pass for a default.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any


class SettingsError(Exception):
    """A setting is unknown or has no good value; the message says which and what would be good."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Listen addresses are `host:port` (IPv6 as `[::1]:80`); port 0 picks a free one."""

    database_url: str = "sqlite:///sublet.db"
    http_listen: str = "127.0.0.1:8053"
    dns_listen: str = "127.0.0.1:5300"
    dns_addresses: str = ""
    """Public addresses of the built-in name server, comma-separated: what apex nameservers inside a zone resolve to."""
    public_url: str = ""
    """Where clients reach the API, for links and the OpenAPI document; empty: the listen address."""
    free_quota: int = 5
    publish_wait_ms: int = 1000
    """How long a change waits for its publication before it is answered with what is then true."""
    rate_limits: str = "on"
    rate_limit_read_per_minute: int = 600
    rate_limit_write_per_minute: int = 120
    rate_limit_ticket_per_minute: int = 20
    rate_limit_failed_auth_per_minute: int = 30
    trusted_proxies: str = ""
    """Addresses of reverse proxies, comma-separated, whose X-Forwarded-For is believed."""
    log_format: str = "text"
    log_level: str = "info"

    def __post_init__(self) -> None:
        _one_of("rate_limits", self.rate_limits, ("on", "off"))
        _one_of("log_format", self.log_format, ("text", "json"))
        _one_of("log_level", self.log_level, ("debug", "info", "warning", "error"))
        if not self.database_url.startswith(("sqlite:///", "postgresql://")):
            raise SettingsError(
                "database_url: give sqlite:////absolute/path, sqlite:///relative/path or postgresql://user@host:port/name"
            )
        for name in ("http_listen", "dns_listen"):
            parse_listen(name, getattr(self, name))
        for name in ("dns_addresses", "trusted_proxies"):
            _addresses(name, getattr(self, name))
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 0:
                raise SettingsError(f"{field.name}: {value} is below 0")


DESCRIPTIONS: dict[str, str] = {
    "database_url": "The database: sqlite:////absolute/path, sqlite:///relative/path, postgresql://user@host:port/name.",
    "http_listen": "Where the API listens, host:port; port 0 picks a free one.",
    "dns_listen": "Where the built-in name server listens (UDP and TCP), host:port; port 0 picks a free one.",
    "dns_addresses": "Public addresses of the built-in name server: what apex nameservers inside a zone resolve to.",
    "public_url": "Where clients reach the API, for links and the OpenAPI document; empty: the listen address.",
    "free_quota": "How many free names a user may hold who has no quota of its own.",
    "publish_wait_ms": "How long a change waits for its publication before it is answered, in milliseconds.",
    "rate_limits": "on or off, the limit on failed authentication included.",
    "rate_limit_read_per_minute": "Reading requests of one token in a minute.",
    "rate_limit_write_per_minute": "Changing requests of one token in a minute.",
    "rate_limit_ticket_per_minute": "Tickets and replies of one token in a minute.",
    "rate_limit_failed_auth_per_minute": "Requests with a bad token from one address in a minute.",
    "trusted_proxies": "Addresses of reverse proxies, comma-separated, whose X-Forwarded-For is believed.",
    "log_format": "text, for people, or json.",
    "log_level": "debug, info, warning or error.",
}
"""What each setting means, in a sentence: for `sublet settings`; docs/settings.md says more."""


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name}: {value!r} is none of {', '.join(allowed)}")


def _addresses(name: str, text: str) -> None:
    for part in (each.strip() for each in text.split(",") if each.strip()):
        try:
            ip_address(part)
        except ValueError:
            raise SettingsError(f"{name}: {part!r} is no IP address; give addresses, with commas") from None


def parse_listen(name: str, text: str) -> tuple[str, int]:
    """Return host and port of a listen address.

    Raises:
        SettingsError: it isn't `host:port` with a port of 0 to 65535.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise SettingsError(f"{name}: {text!r} is not host:port, such as 127.0.0.1:8053")
    return host.removeprefix("[").removesuffix("]"), int(port)


def load_settings(config: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings from the defaults, a TOML file and the environment, the later ones winning.

    Raises:
        SettingsError: the file can't be read, or a setting is unknown or has no good value.
    """
    environment = os.environ if environ is None else environ
    path = config or (Path(environment["SUBLET_CONFIG"]) if environment.get("SUBLET_CONFIG") else None)
    values: dict[str, Any] = _from_file(path) if path else {}
    types = {field.name: field.type for field in fields(Settings)}
    for name, text in environment.items():
        if name.startswith("SUBLET_") and name != "SUBLET_CONFIG":
            values[name.removeprefix("SUBLET_").lower()] = text
    for name, value in values.items():
        if name not in types:
            raise SettingsError(f"unknown setting {name!r}; `sublet settings` lists those there are")
        values[name] = _typed(name, value, int if types[name] in (int, "int") else str)
    return Settings(**values)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"can't read the settings file {path}: {error}") from error


def _typed(name: str, value: Any, kind: type) -> Any:
    if kind is int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise SettingsError(f"{name}: {value!r} is not a whole number")
    if isinstance(value, str):
        return value
    raise SettingsError(f"{name}: {value!r} is not a text")
