"""What the operator may set of a platform domain, its defaults and its limits (rules; no SQL)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sublet.accounts.fields import check_text
from sublet.dns.names import InvalidName, parse_host_name, shown
from sublet.dns.types import Secondary
from sublet.errors import FieldError

SECONDARIES_MAX = 13
SECONDS_MAX = 2**31 - 1
"""The longest TTL (RFC 2181, section 8); the SOA's times stay within it too."""
APEX_FIELDS = (
    "apex_nameservers",
    "soa_mname",
    "soa_rname",
    "refresh_seconds",
    "retry_seconds",
    "expire_seconds",
    "negative_ttl_seconds",
    "apex_ttl_seconds",
)
"""What the apex records are made of: a change of these is a change of the zone, with a new serial."""


@dataclass(frozen=True, slots=True)
class PlatformDomainSettings:
    """What the operator says of a platform domain; None says nothing: the default on adding, as it is on editing.

    Days and counts are integers. `premium_length_max` is the longest label that is premium by its length alone, 0 for
    none. `soa_rname` is a name, or the mailbox that it stands for. `primary` is a name of the settings' primaries, empty for the
    built-in name server; `secondaries` are watched, never written to.
    """

    public_name: str | None = None
    description: str | None = None
    hidden: bool | None = None
    restricted: bool | None = None
    registration_open: bool | None = None
    idn: bool | None = None
    look_alike_check: bool | None = None
    dnssec_signed: bool | None = None
    nameservers_min: int | None = None
    nameservers_max: int | None = None
    label_length_min: int | None = None
    premium_length_max: int | None = None
    renewal_window_days: int | None = None
    grace_days: int | None = None
    trash_days: int | None = None
    cooling_off_days: int | None = None
    apex_nameservers: tuple[str, ...] | None = None
    soa_mname: str | None = None
    soa_rname: str | None = None
    serial: int | None = None
    refresh_seconds: int | None = None
    retry_seconds: int | None = None
    expire_seconds: int | None = None
    negative_ttl_seconds: int | None = None
    apex_ttl_seconds: int | None = None
    delegation_ttl_seconds: int | None = None
    primary: str | None = None
    secondaries: tuple[Secondary, ...] | None = None

    def given(self) -> dict[str, Any]:
        """Return what is said, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def default_settings(domain: str, apex_nameservers: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the settings of a new platform domain of this canonical name (docs/spec-choices.md, "Modes and prices", "Subdomain states")."""
    nameservers = tuple(apex_nameservers or (f"ns1.{domain}",))
    return {
        "public_name": domain,
        "description": "",
        "hidden": False,
        "restricted": False,
        "registration_open": True,
        "idn": True,
        "look_alike_check": True,
        "dnssec_signed": False,
        "nameservers_min": 1,
        "nameservers_max": 13,
        "label_length_min": 1,
        "premium_length_max": 0,
        "renewal_window_days": 60,
        "grace_days": 30,
        "trash_days": 30,
        "cooling_off_days": 7,
        "apex_nameservers": nameservers,
        "soa_mname": nameservers[0],
        "soa_rname": f"hostmaster.{domain}",
        "serial": 1,
        "refresh_seconds": 3600,
        "retry_seconds": 900,
        "expire_seconds": 1_209_600,
        "negative_ttl_seconds": 300,
        "apex_ttl_seconds": 3600,
        "delegation_ttl_seconds": 3600,
        "primary": "",
        "secondaries": (),
    }


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are stored and audited: lists instead of tuples, a secondary as its host, address and port."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Secondary):
        return [value.host, value.address, value.port]
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


_RANGES: dict[str, tuple[int, int]] = {
    "nameservers_min": (1, 13),
    "nameservers_max": (1, 13),
    "label_length_min": (1, 63),
    "premium_length_max": (0, 63),
    "renewal_window_days": (1, 3650),
    "grace_days": (0, 3650),
    "trash_days": (0, 3650),
    "cooling_off_days": (0, 3650),
    "serial": (1, 2**32 - 1),
    "refresh_seconds": (1, SECONDS_MAX),
    "retry_seconds": (1, SECONDS_MAX),
    "expire_seconds": (1, SECONDS_MAX),
    "negative_ttl_seconds": (0, SECONDS_MAX),
    "apex_ttl_seconds": (0, SECONDS_MAX),
    "delegation_ttl_seconds": (0, SECONDS_MAX),
}


def check_settings(values: dict[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Return whole settings in canonical form (names, texts), with all that is wrong with them."""
    checked = dict(values)
    checked["public_name"], errors = check_text("public_name", values["public_name"])
    if values["description"]:
        checked["description"], more = check_text("description", values["description"], length_max=2000)
        errors = [*errors, *more]
    for name, (least, most) in _RANGES.items():
        if not least <= values[name] <= most:
            errors.append(FieldError(name, "value_invalid", f"Give {least} to {most}."))
    if values["nameservers_min"] > values["nameservers_max"]:
        errors.append(
            FieldError(
                "nameservers_min",
                "value_invalid",
                "The least is above the most. Give a smaller nameservers_min, or a larger nameservers_max.",
            )
        )
    checked["apex_nameservers"] = _hosts(values["apex_nameservers"], errors)
    checked["soa_mname"] = _host("soa_mname", values["soa_mname"], errors)
    checked["soa_rname"] = _host("soa_rname", _mailbox_name(values["soa_rname"]), errors)
    checked["secondaries"] = _secondaries(values["secondaries"], errors)
    return checked, errors


def _secondaries(given: Sequence[Secondary], errors: list[FieldError]) -> tuple[Secondary, ...]:
    if len(given) > SECONDARIES_MAX:
        errors.append(
            FieldError("secondaries", "value_invalid", f"Give at most {SECONDARIES_MAX} secondaries.")
        )
    checked = tuple(
        replace(each, host=_host(f"secondaries[{index}]", each.host, errors))
        for index, each in enumerate(given[:SECONDARIES_MAX])
    )
    if len({each.host for each in checked}) < len(checked):
        errors.append(
            FieldError("secondaries", "nameserver_duplicate", "A secondary is there twice. Leave one out.")
        )
    return checked


def _mailbox_name(text: str) -> str:
    """Return the name that stands for a mailbox in an SOA record (RFC 1035, section 8): the @ becomes a dot."""
    local, at, domain = text.partition("@")
    # A dot before the @ would have to be escaped, and no name here has an escape; `_host` then refuses the @.
    return f"{local}.{domain}" if at and "." not in local else text


def _hosts(texts: Sequence[str], errors: list[FieldError]) -> tuple[str, ...]:
    if not 1 <= len(texts) <= 13:
        errors.append(FieldError("apex_nameservers", "value_invalid", "Give 1 to 13 nameservers."))
    hosts = tuple(_host(f"apex_nameservers[{index}]", text, errors) for index, text in enumerate(texts[:13]))
    if len(set(hosts)) < len(hosts):
        errors.append(
            FieldError(
                "apex_nameservers", "nameserver_duplicate", "A nameserver is there twice. Leave one out."
            )
        )
    return hosts


def _host(field: str, text: str, errors: list[FieldError]) -> str:
    try:
        return parse_host_name(text)
    except InvalidName as error:
        errors.append(FieldError(field, "nameserver_invalid", shown(str(error))))
        return text
