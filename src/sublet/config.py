"""Load and check the settings (docs/settings.md).

Settings come from a TOML file (`--config`, or SUBLET_CONFIG) and from environment variables: `SUBLET_` and
the name in capitals. The environment overrides the file. Unknown keys of the file are refused, and so are
variables whose names are almost those of settings: a misspelt SUBLET_DATABASE_URL must not start an empty
registry. Other unknown variables cause a warning.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from email.utils import getaddresses
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit


class SettingsError(Exception):
    """Settings are unknown or their values invalid.

    The message has a line for each, with its name and what to give.
    """


REMOVED_SETTINGS = {"one_processor": "The operating system places every process on the processors."}
"""Removed settings with the reason of their removal. A removed setting has no effect, and causes a warning
instead of an error.
"""

KEY_ALGORITHMS = ("hmac-sha256", "hmac-sha384", "hmac-sha512")
"""The algorithms allowed for TSIG keys: SHA-256 or better (RFC 8945, section 6)."""

PORT_MAX = 65535
NUMBER_MAX = 2**31 - 1
"""The largest number in a setting: PostgreSQL computes rate limits with 32 bits."""
NEW_USER_DAYS_MAX = 36_500
"""A hundred years. Dates beyond the year 9999 can't be computed."""
_MAIL_ADDRESS = re.compile(r"""[^\s@:/"(),;<>\[\]\\]{1,64}@[\w-]++(\.[\w-]++)++\.?""")
"""An address that can get mail: no `<>`, and a full domain. It may have non-ASCII letters. `++` never gives
characters back, so a long text that isn't an address is refused at once.
"""
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_KEY_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}

PRIMARY_KEY_VARIABLE = "SUBLET_PRIMARY_KEY_"
"""The prefix of environment variables with the secret of a primary's key. After it comes the primary's name,
in capitals, with `_` for `-` and `.`.
"""


CLIENT_VARIABLES = frozenset({"SUBLET_URL", "SUBLET_TOKEN", "SUBLET_PROFILE", "SUBLET_DEADLINE_SECONDS"})
"""The variables of the clients (docs/clients.md), which may be in the same environment."""

_SERVICE_PORT = re.compile(r"_PORT_[0-9]{1,5}_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://[!-~]+")
_NEAR = 0.75
"""The least similarity (of `difflib`) of a misspelt name. `DATABSE_URL` has 0.96, `DATABASE_DSN` 0.75,
`HOSTNAME` and `SITE_NAME` 0.71.
"""


@dataclass(frozen=True, slots=True)
class PrimarySettings:
    """A primary server: its address, and the key that signs updates.

    The key's secret is in `key_file` or in the environment.
    """

    name: str
    address: str
    key_name: str
    port: int = 53
    key_algorithm: str = "hmac-sha256"
    key_file: str = ""
    batch_max: int = 100
    """The maximum number of names in an UPDATE message."""

    def __post_init__(self) -> None:
        prefix = f"primaries.{self.name}"
        if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", self.name) is None or self.name == "built-in":
            raise SettingsError(
                f"{prefix}: Give a name of a-z, 0-9, dot, hyphen and underscore, other than built-in."
            )
        _check_addresses(f"{prefix}.address", self.address)
        if not self.address or "," in self.address:
            raise SettingsError(f"{prefix}.address: Give one IP address.")
        _check_range(f"{prefix}.port", self.port, 1, PORT_MAX)
        _check_range(f"{prefix}.batch_max", self.batch_max, 1, 1000)
        if len(self.key_name) > 253 or _KEY_NAME.fullmatch(self.key_name.removesuffix(".")) is None:
            raise SettingsError(
                f"{prefix}.key_name: {_quoted(self.key_name)} is not the name of a key. Give the name in the "
                "configuration of the primary."
            )
        _check_one_of(f"{prefix}.key_algorithm", self.key_algorithm, KEY_ALGORITHMS)

    @property
    def key_variable(self) -> str:
        """The environment variable with the key's secret if there is no `key_file`."""
        return PRIMARY_KEY_VARIABLE + self.name.upper().replace("-", "_").replace(".", "_")


def _setting(default: Any, description: str) -> Any:
    """Return a field of `Settings` with its default and its description."""
    return field(default=default, metadata={"description": description})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. Listen addresses are `host:port` (IPv6 as `[::1]:80`). Port 0 means a free port."""

    database_url: str = _setting(
        "sqlite:///sublet.db",
        "The database: sqlite:////absolute/path, sqlite:///relative/path, postgresql://user@host:port/name.",
    )
    database_may_lose_writes: bool = _setting(
        default=False,
        description="Accept a PostgreSQL with fsync, full_page_writes or synchronous_commit off.",
    )
    http_listen: str = _setting(
        "127.0.0.1:8053", "The listen address of the API, host:port; port 0: a free port."
    )
    http_connections_max: int = _setting(
        1000, "The maximum number of concurrent client connections of an API process."
    )
    dns_listen: str = _setting(
        "127.0.0.1:5300",
        "The listen address of the built-in name server (UDP and TCP), host:port; port 0: a free port.",
    )
    update_listen: str = _setting(
        "",
        "The listen address for DNS UPDATE (UDP and TCP), host:port, in each API process; empty: not "
        "served. Needs update_key_file.",
    )
    update_address: str = _setting(
        "",
        "The IP address and port of update_listen as registrants reach it, host:port; empty: update_listen.",
    )
    update_key_file: str = _setting(
        "", "The file with the secret from which update keys are derived, the same on all hosts; keep a copy."
    )
    dns_addresses: str = _setting(
        "",
        "Public addresses of the built-in name server, for apex nameservers inside a zone, comma-separated.",
    )
    dns_servers: str = _setting(
        "",
        "Addresses of the built-in name servers as seen from this host, host:port, comma-separated; empty: "
        "dns_listen.",
    )
    worker_status_listen: str = _setting(
        "", "The listen address of /healthz, /readyz and /metrics of `sublet worker`; empty: not served."
    )
    dns_status_listen: str = _setting(
        "", "The listen address of /healthz, /readyz and /metrics of `sublet dns`; empty: not served."
    )
    public_url: str = _setting(
        "",
        "The service's URL for clients, without /api/v1, for links and the OpenAPI document; empty: the "
        "listen address.",
    )
    signup: str = _setting(
        "invite",
        "Sign-up: open (anyone), invite (by `sublet user invite`, or by an organization's owner) or closed.",
    )
    session_idle_hours: int = _setting(
        24, "Hours without a request until a browser's session ends (2 to 8760)."
    )
    session_max_days: int = _setting(
        14, "Days from the last sign-in until a browser's session ends (1 to 365)."
    )
    new_user_days: int = _setting(7, "Days after sign-up for which a user counts as new (0 to 36500).")
    new_user_free_quota: int = _setting(
        2, "The maximum number of free names of a new user; at most free_quota."
    )
    new_user_withheld_modes: str = _setting(
        "",
        "Modes in which a new user can't register names yet (free, plus, premium, special), comma-separated.",
    )
    free_quota: int = _setting(5, "The maximum number of free names of a user without their own quota.")
    organizations_per_user: int = _setting(
        3, "The maximum number of organizations that a user can create. Each has its own free quota."
    )
    nameserver_changes_per_day: int = _setting(
        300,
        "The maximum number of changes of a name's nameservers, glue and DS within 24 hours; 0: no limit.",
    )
    record_changes_per_day: int = _setting(
        1000, "The maximum number of changes of a name's records within 24 hours; 0: no limit."
    )
    publish_wait_ms: int = _setting(
        1000,
        "The maximum time that the response to a change waits until a primary and its secondaries have it, "
        "in milliseconds.",
    )
    rate_limits: bool = _setting(
        default=True,
        description="Limit requests, including failed authentication and changes of a name.",
    )
    rate_limit_read_per_minute: int = _setting(600, "Read requests per token and minute.")
    rate_limit_write_per_minute: int = _setting(120, "Write requests per token and minute.")
    rate_limit_ticket_per_minute: int = _setting(
        20,
        "New tickets and replies per user and minute, with all tokens and sessions. Refused requests count "
        "as write requests.",
    )
    rate_limit_availability_per_minute: int = _setting(60, "GET /availability per token and minute.")
    rate_limit_address_per_minute: int = _setting(
        1200, "Requests per address (IPv6: per /64) and minute, with all tokens."
    )
    rate_limit_network_per_minute: int = _setting(6000, "Requests per network (/24, IPv6: /48) and minute.")
    rate_limit_failed_auth_per_minute: int = _setting(
        30, "Requests with an invalid token per address and minute."
    )
    rate_limit_failed_auth_network_per_minute: int = _setting(
        120, "Requests with an invalid token per network and minute."
    )
    rate_limit_health_per_minute: int = _setting(10, "Checks of delegations per token and minute.")
    rate_limit_dyndns_per_minute: int = _setting(
        60, "Requests at /nic/update per token and minute; more are answered with `abuse`."
    )
    health_checks: bool = _setting(
        default=False,
        description="Check the nameservers of names. Queries then go to servers that registrants choose.",
    )
    health_resolver: str = _setting(
        "",
        "The validating resolver for checks of nameservers and of the platform domains, host:port; empty: "
        "checks of nameservers follow referrals from the root.",
    )
    health_root_hints: str = _setting(
        "",
        "Addresses of the root servers for checks, comma-separated; empty: those that health_resolver "
        "names, or the Internet's.",
    )
    health_allowed_networks: str = _setting(
        "", "Networks that aren't public, but whose nameservers checks may query, comma-separated."
    )
    trusted_proxies: str = _setting(
        "", "Addresses of reverse proxies whose X-Forwarded-For is trusted, comma-separated."
    )
    mail_transport: str = _setting(
        "log", "log (mail is only logged, not sent), print (to the terminal, for trials) or smtp."
    )
    mail_from: str = _setting("", "The sender of mail: name@example.net, or Name <name@example.net>.")
    smtp_host: str = _setting("", "The mail server's name, as in its certificate.")
    smtp_port: int = _setting(
        587, "The mail server's port: usually 587 for starttls, 465 for tls, 25 for none."
    )
    smtp_security: str = _setting(
        "starttls", "starttls, tls (from the first byte) or none. Certificates are verified."
    )
    smtp_username: str = _setting("", "The user name for the mail server; empty: no authentication.")
    smtp_password_file: str = _setting("", "The file with the password for the mail server.")
    operator_mail: str = _setting(
        "",
        "The operator's address, for mails about new tickets and problems; empty: site_contact if that is "
        "an address, otherwise no such mails.",
    )
    log_format: str = _setting("text", "text or json.")
    log_level: str = _setting("info", "debug, info, warning or error.")
    site_name: str = _setting("Sublet", "The name of the registry on its pages.")
    site_color: str = _setting("#3451d1", "The colour of links and buttons on the pages, as #rrggbb.")
    site_logo: str = _setting(
        "", "A file with the logo on the pages: svg, png or webp, of at most 64 kB; empty: none."
    )
    site_contact: str = _setting(
        "", "The operator's mail address, or a page of contacts (https://…), for the foot of the pages."
    )
    site_imprint_url: str = _setting("", "The page of the imprint (https://…), for the foot of the pages.")
    site_terms_url: str = _setting(
        "", "The page of the terms (https://…), for the foot of the pages and for RDAP."
    )
    abuse_contact: str = _setting(
        "",
        "Who gets reports of abuse: a mail address, or a page (https://…); empty: site_contact. Anyone can "
        "read it.",
    )
    rdap: bool = _setting(
        default=True,
        description="Answer RDAP queries about names at /rdap, and show a page about each name at /about.",
    )
    nameserver_presets: str = _setting(
        "",
        "DNS providers whose nameservers the forms offer, each `name: host host`, comma-separated.",
    )
    primaries: tuple["PrimarySettings", ...] = _setting(
        (),
        "The primary servers for platform domains: tables [primaries.NAME] of the settings file.",
    )

    def __post_init__(self) -> None:
        _check_one_of("log_format", self.log_format, ("text", "json"))
        _check_one_of("signup", self.signup, ("open", "invite", "closed"))
        _check_one_of("log_level", self.log_level, ("debug", "info", "warning", "error"))
        _check_one_of("mail_transport", self.mail_transport, ("log", "print", "smtp"))
        _check_one_of("smtp_security", self.smtp_security, ("starttls", "tls", "none"))
        check_database_url("database_url", self.database_url)
        _check_listen(self)
        parse_dns_servers(self.dns_servers)
        if self.health_resolver:
            host, port = parse_listen("health_resolver", self.health_resolver)
            _check_addresses("health_resolver", host)
            _check_range("health_resolver", port, 1, PORT_MAX)
        networks = self.health_allowed_networks
        _check_addresses("health_allowed_networks", networks, ip_network, "a network such as 10.0.0.0/8")
        for name in ("dns_addresses", "trusted_proxies", "health_root_hints"):
            _check_addresses(name, getattr(self, name))
        if "%" in self.dns_addresses:
            raise SettingsError(
                "dns_addresses: A zone id such as %eth0 is only valid on one machine. Give public addresses."
            )
        _check_modes("new_user_withheld_modes", self.new_user_withheld_modes)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int):
                would_refuse_all = each.name.startswith(("rate_limit_", "http_connections_"))
                _check_range(each.name, value, 1 if would_refuse_all else 0, NUMBER_MAX)
        _check_range("session_idle_hours", self.session_idle_hours, 2, 8760)
        _check_range("session_max_days", self.session_max_days, 1, 365)
        _check_range("new_user_days", self.new_user_days, 0, NEW_USER_DAYS_MAX)
        _check_mail(self)
        _check_site(self)
        _check_primaries(self.primaries)


DESCRIPTIONS: dict[str, str] = {each.name: each.metadata["description"] for each in fields(Settings)}
"""The description of each setting, for `sublet settings`."""


def _quoted(value: object) -> str:
    """Return a value in quotes for a message, with at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def split_list(text: str) -> list[str]:
    """Return the parts of a setting that are separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def check_database_url(name: str, text: str) -> None:
    """Raise `SettingsError` if a text can't be the address of a database."""
    if not text.startswith(("sqlite:///", "postgresql://")):
        raise SettingsError(
            f"{name}: Give sqlite:////absolute/path, sqlite:///relative/path or "
            "postgresql://user@host:port/name."
        )


def _check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name}: {_quoted(value)} is unknown. Give one of {', '.join(allowed)}.")


def _check_modes(name: str, text: str) -> None:
    for mode in split_list(text):
        _check_one_of(name, mode, ("free", "plus", "premium", "special"))


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise SettingsError(f"{name}: {value} is out of range. Give {least} to {most}.")


def _check_addresses(
    name: str, text: str, parse: Callable[[str], object] = ip_address, what: str = "an IP address"
) -> None:
    for part in split_list(text):
        try:
            parse(part)
        except ValueError:
            raise SettingsError(
                f"{name}: {_quoted(part)} is not {what}. Check it; several are separated by commas."
            ) from None


def _check_listen(settings: Settings) -> None:
    for name in ("http_listen", "dns_listen"):
        parse_listen(name, getattr(settings, name))
    for name in ("worker_status_listen", "dns_status_listen", "update_listen", "update_address"):
        if getattr(settings, name):
            parse_listen(name, getattr(settings, name))
    if settings.update_listen and not settings.update_key_file:
        raise SettingsError("update_listen: Give update_key_file too, a file with a random secret.")
    if shown := settings.update_address or settings.update_listen:
        host, _ = parse_listen("update_address", shown)
        _check_addresses("update_address", host)
        if ip_address(host).is_unspecified:
            raise SettingsError("update_address: Give the address that registrants reach.")


def _check_primaries(primaries: tuple[PrimarySettings, ...]) -> None:
    names: dict[str, str] = {}
    for each in primaries:
        other = each.name if each.key_file else names.setdefault(each.key_variable, each.name)
        if other != each.name:
            raise SettingsError(
                f"primaries: {other} and {each.name} have the same variable {each.key_variable}. Rename "
                "one, or give it a key_file."
            )


def _check_mail(settings: Settings) -> None:
    if settings.mail_from:
        parse_mail_from(settings.mail_from)
    if settings.operator_mail and not _is_mail_address(settings.operator_mail):
        raise SettingsError(
            f"operator_mail: {_quoted(settings.operator_mail)} is not a mail address. Give one such as "
            "operator@example.net."
        )
    _check_smtp_host(settings.smtp_host)
    if settings.mail_transport == "smtp":
        missing = [name for name in ("smtp_host", "mail_from") if not getattr(settings, name)]
        if missing:
            raise SettingsError(
                f"{' and '.join(missing)}: required with mail_transport smtp. Set "
                f"{'it' if len(missing) == 1 else 'both'}."
            )
    _check_range("smtp_port", settings.smtp_port, 1, PORT_MAX)
    if bool(settings.smtp_username) != bool(settings.smtp_password_file):
        raise SettingsError("smtp_username and smtp_password_file: Give both, or neither.")
    if settings.smtp_username and settings.smtp_security == "none":
        raise SettingsError(
            "smtp_security: Give starttls or tls with smtp_username, because a password is never sent "
            "unencrypted."
        )


def _check_site(settings: Settings) -> None:
    if re.fullmatch(r"#[0-9A-Fa-f]{6}", settings.site_color) is None:
        raise SettingsError(
            f"site_color: {_quoted(settings.site_color)} is not a colour. Give one such as #3451d1."
        )
    if settings.site_logo and Path(settings.site_logo).suffix not in (".svg", ".png", ".webp"):
        raise SettingsError(
            f"site_logo: {_quoted(settings.site_logo)} has another type. "
            "Give a file with .svg, .png or .webp."
        )
    for name in ("site_contact", "abuse_contact", "site_imprint_url", "site_terms_url"):
        text = getattr(settings, name)
        is_contact = name.endswith("_contact")
        if text and not (_is_url(text) or (is_contact and _is_mail_address(text))):
            mail = " or contact@example.net" if is_contact else ""
            raise SettingsError(
                f"{name}: {_quoted(text)} is not an address. Give one such as "
                f"https://example.net/contact{mail}."
            )
    url = settings.public_url
    if url and not (_is_url(url) and re.search(r"[?#]|/api/v1/?$", url) is None):
        raise SettingsError(
            f"public_url: {_quoted(url)} is not the URL of a service. Give one such as "
            "https://names.example.net, without /api/v1."
        )
    parse_nameserver_presets(settings.nameserver_presets)


def _is_url(text: str) -> bool:
    if re.fullmatch(r"https?://[^\s/]\S*", text) is None or not text.isprintable():
        return False
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as https://[ and https://names.example.net:99999
        return False


def _is_mail_address(text: str) -> bool:
    return _MAIL_ADDRESS.fullmatch(text) is not None and text.isprintable()


def operator_address(settings: Settings) -> str:
    """Return the address for mails to the operator: `operator_mail`, or `site_contact` if that is an address,
    or an empty text.
    """
    is_usable = _is_mail_address(settings.site_contact)
    return settings.operator_mail or (settings.site_contact if is_usable else "")


def abuse_contact(settings: Settings) -> str:
    """Return the address or page for reports of abuse: `abuse_contact`, or else `site_contact`, or an empty
    text.
    """
    return settings.abuse_contact or settings.site_contact


def contact_url(contact: str) -> str:
    """Return a contact, a mail address or the URL of a page, as a URL in ASCII.

    Other characters are percent-encoded (RFC 3987, section 3.1; RFC 6068, section 2).
    """
    if "@" in contact and "://" not in contact:
        return f"mailto:{quote(contact, safe='@+')}"
    return quote(contact, safe="%:/?#[]@!$&'()*+,;=")


def _check_smtp_host(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        if text and (re.fullmatch(r"[^\s/:,@\[\]]+", text) is None or not text.isprintable()):
            raise SettingsError(
                f"smtp_host: {_quoted(text)} is neither a host name nor an IP address. Give the host only; "
                "the port is smtp_port."
            ) from None


def parse_mail_from(text: str) -> tuple[str, str]:
    """Return the name (may be empty) and address of a sender, `name@example.net` or `Name
    <name@example.net>`.

    Raises:
        SettingsError: the text has another form, or the address isn't ASCII. Some servers accept ASCII
            addresses only.
    """
    found = getaddresses([text])
    name, address = found[0] if len(found) == 1 else ("", "")
    local, at, domain = address.rpartition("@")
    is_whole = text.strip() == address or text.strip().endswith(f"<{address}>")
    is_local_part = local.isascii() and local.isprintable() and not any(char in ' "@<>' for char in local)
    is_domain = domain == "localhost" or _HOST.fullmatch(domain) is not None
    if not (text.isprintable() and at and local and is_whole and is_local_part and is_domain):
        raise SettingsError(
            f"mail_from: {_quoted(text)} is not a sender. Give name@example.net or Name <name@example.net>."
        )
    return name, address


def parse_listen(name: str, text: str) -> tuple[str, int]:
    """Return the host and port of a listen address.

    Raises:
        SettingsError: the text isn't `host:port` with a port of 0 to 65535.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > PORT_MAX:
        raise SettingsError(
            f"{name}: {_quoted(text)} is not an address with a port. Give host:port, such as 127.0.0.1:8053."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_dns_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Return the IP address and port of each built-in name server.

    Raises:
        SettingsError: an entry isn't an IP address with a port of 1 to 65535.
    """
    found = []
    for part in split_list(text):
        host, port = parse_listen("dns_servers", part)
        _check_addresses("dns_servers", host)
        if port == 0:
            raise SettingsError(
                f"dns_servers: {_quoted(part)} has port 0. Give the port at which the server answers."
            )
        found.append((host, port))
    return tuple(found)


def parse_nameserver_presets(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the name and the nameservers of each preset.

    Raises:
        SettingsError: an entry isn't a name, a colon and host names with spaces between them.
    """
    found = []
    for part in split_list(text):
        name, _, hosts = (each.strip() for each in part.partition(":"))
        words = tuple(hosts.split())
        if not name or not words or not all(_HOST.fullmatch(each) for each in words):
            raise SettingsError(
                f"nameserver_presets: {_quoted(part)} has another form. Give each preset as `Provider: "
                "ns1.provider.example ns2.provider.example`."
            )
        found.append((name, words))
    return tuple(found)


def public_dns_addresses(settings: Settings) -> tuple[str, ...]:
    """Return the addresses of apex nameservers inside a zone: `dns_addresses`, or the address in
    `dns_listen`.
    """
    texts = split_list(settings.dns_addresses)
    try:
        values = [ip_address(text) for text in texts or [parse_listen("dns_listen", settings.dns_listen)[0]]]
    except ValueError:
        return ()
    return tuple(str(address) for address in values if not address.is_unspecified)


def load_settings(
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    warn: Callable[[str], None] = lambda _: None,
) -> Settings:
    """Return the settings. The environment overrides the TOML file, and the file overrides the defaults.

    Calls `warn` with a message for each removed setting, and for each unknown variable that is not similar to
    a setting.

    Raises:
        SettingsError: the file can't be read; settings are unknown or have a wrong type (one line for each);
            a value is invalid.
    """
    environment = os.environ if environ is None else environ
    path = config or (Path(environment["SUBLET_CONFIG"]) if environment.get("SUBLET_CONFIG") else None)
    values: dict[str, Any] = _read_file(path) if path else {}
    types = {each.name: each.type for each in fields(Settings)}
    unknown = values.keys() - types.keys() - REMOVED_SETTINGS.keys()
    wrong = [f"{name}: There is no such setting. {_advice(name, types)}" for name in sorted(unknown)]
    for variable, text in sorted(environment.items()):
        if not _is_for_settings(variable, text):
            continue
        name = variable.removeprefix("SUBLET_").lower()
        if name in types or name in REMOVED_SETTINGS:
            values[name] = text
        elif near := _find_near_miss(variable, types):
            wrong.append(f"{variable}: There is no such setting. Use {near}, or remove it.")
        else:
            warn(
                f"{variable}: this is no setting, so it has no effect. `sublet settings` lists all settings."
            )
    for name in values.keys() & REMOVED_SETTINGS.keys():
        del values[name]
        warn(f"{name}: this setting was removed and has no effect. Delete it. {REMOVED_SETTINGS[name]}")
    for name in sorted(values.keys() - unknown):
        try:
            values[name] = (
                _primaries(values[name]) if name == "primaries" else _convert(name, values[name], types[name])
            )
        except SettingsError as error:
            wrong.append(str(error))
    if wrong:
        raise SettingsError("\n".join(wrong))
    return Settings(**values)


def _is_for_settings(variable: str, text: str) -> bool:
    """True if an environment variable may be meant as a setting, also if it is misspelt. `text` is its value.

    Not meant are the variables of the clients, SUBLET_CONFIG, the keys of primaries, and those that
    Kubernetes and Docker set for a service whose name begins with `sublet`.
    """
    prefix, _, rest = variable.partition("_")
    if prefix != "SUBLET":
        # Such as SUBLT_DATABASE_URL. Variables of other programs may end like other settings.
        is_near = bool(difflib.get_close_matches(prefix.upper(), ["SUBLET"], cutoff=_NEAR))
        return is_near and rest.upper() == "DATABASE_URL"
    if (
        variable in CLIENT_VARIABLES
        or variable == "SUBLET_CONFIG"
        or variable.startswith(PRIMARY_KEY_VARIABLE)
    ):
        return False
    is_service_link = (
        variable.endswith(("_SERVICE_HOST", "_SERVICE_PORT"))
        or "_SERVICE_PORT_" in variable
        or _SERVICE_PORT.search(variable) is not None
        or (variable.endswith("_PORT") and _SERVICE_ADDRESS.fullmatch(text) is not None)
    )
    return not is_service_link


def _find_near_miss(variable: str, settings: Iterable[str]) -> str | None:
    """Return the variable that a misspelt variable is probably meant as, or None.

    Each name whose first word is like `database`, `db` or `config` counts as misspelt, because without the
    setting a command would use an empty registry.
    """
    name = variable.partition("_")[2].upper()
    known = [each.upper() for each in (*settings, "config")]
    close = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
    if close:
        return f"SUBLET_{close[0]}"
    first_word = name.partition("_")[0]
    if first_word == "DB" or difflib.get_close_matches(first_word, ["DATABASE"], cutoff=_NEAR):
        return "SUBLET_DATABASE_URL"
    if difflib.get_close_matches(first_word, ["CONFIG"], cutoff=_NEAR):
        return "SUBLET_CONFIG"
    if difflib.get_close_matches(name[: len("PRIMARY_KEY")], ["PRIMARY_KEY"], cutoff=_NEAR):
        return f"{PRIMARY_KEY_VARIABLE}NAME"
    return None


def _advice(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"Use {close[0]}, or remove it." if close else "Remove it. `sublet settings` lists all settings."


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors write a byte order mark
    except OSError as error:
        sentence = "Check --config or SUBLET_CONFIG, and the file's permissions."
        raise SettingsError(
            f"The settings file {path} can't be read: {error.strerror}. {sentence}"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"The settings file {path} is not a text in UTF-8. Save it in this encoding."
        ) from error
    except ValueError as error:  # not TOML, or a number of thousands of digits
        raise SettingsError(
            f"The settings file {path} is not TOML: {error}. Write strings in quotes, for example."
        ) from error


def _primaries(value: Any) -> tuple[PrimarySettings, ...]:
    if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
        raise SettingsError("primaries: Give tables [primaries.NAME] in the settings file.")
    return tuple(_primary(name, table) for name, table in value.items())


def _primary(name: str, table: Mapping[str, Any]) -> PrimarySettings:
    types = {each.name: each.type for each in fields(PrimarySettings) if each.name != "name"}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in types:
            place = (
                f"Write {key} above the first table of the file"
                if key in {each.name for each in fields(Settings)}
                else f"Use {', '.join(types)}"
            )
            raise SettingsError(f"primaries.{name}.{key}: There is no such setting. {place}.")
        values[key] = _convert(f"primaries.{name}.{key}", value, types[key])
    missing = [key for key in ("address", "key_name") if key not in values]
    if missing:
        raise SettingsError(f"primaries.{name}: Add {' and '.join(missing)}.")
    return PrimarySettings(name, **values)


def _convert(name: str, value: Any, kind: Any) -> Any:
    """Convert the value of a setting to its type, because values from the environment are texts."""
    if kind is bool:
        found = _BOOLEANS.get(value) if isinstance(value, str) else value
        if not isinstance(found, bool):
            raise SettingsError(f"{name}: {_quoted(value)} is not a boolean. Give true or false.")
        return found
    if kind is int:
        # Python converts no text of thousands of digits.
        found = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,20}", value) else value
        if not isinstance(found, int) or isinstance(found, bool):
            raise SettingsError(f"{name}: {_quoted(value)} is not an integer. Give a number such as 60.")
        return found
    if not isinstance(value, str):
        raise SettingsError(f"{name}: {_quoted(value)} is not a string. Put it into quotes.")
    if "\0" in value:  # no path can have it
        raise SettingsError(f"{name}: {_quoted(value)} has a NUL character. Remove it.")
    return value
