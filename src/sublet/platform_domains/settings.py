"""Check the settings of a platform domain (rules; no SQL). `model.py` defines the settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from sublet.accounts.fields import check_text
from sublet.dns.names import InvalidName, parse_host_name, shown
from sublet.dns.types import RECORD_TYPES, Secondary
from sublet.errors import FieldError, check_one_of
from sublet.platform_domains.model import AUTOMATIC_DS, DELEGATION_CHECKS, RECORDS, SETTINGS
from sublet.structs import replace

HOSTS_MAX = 13
"""The maximum number of apex nameservers, and of secondaries."""


def storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON stores them, with tuples and secondaries as lists."""
    return {name: _storable(value) for name, value in values.items()}


def _storable(value: Any) -> Any:
    if isinstance(value, Secondary):
        return [value.host, value.address, value.port]
    return [_storable(each) for each in value] if isinstance(value, tuple) else value


def check_settings(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """Return all settings with names and texts in canonical form, and the errors of all wrong settings."""
    checked = dict(values)
    checked["public_name"], errors = check_text("public_name", values["public_name"])
    if values["description"]:
        checked["description"], more = check_text("description", values["description"], length_max=2000)
        errors = [*errors, *more]
    for name, setting in SETTINGS.items():
        if setting.limits and not setting.limits[0] <= values[name] <= setting.limits[1]:
            sentence = f"Give {setting.limits[0]} to {setting.limits[1]}."
            errors.append(FieldError(name, "value_invalid", sentence))
    errors += check_one_of("delegation_check", values["delegation_check"], DELEGATION_CHECKS)
    errors += check_one_of("automatic_ds", values["automatic_ds"], AUTOMATIC_DS)
    errors += check_one_of("records", values["records"], RECORDS)
    checked["record_types"] = _check_record_types(values["record_types"], errors)
    if values["nameservers_min"] > values["nameservers_max"]:
        sentence = (
            "The minimum is above nameservers_max. Give a smaller nameservers_min, or a larger "
            "nameservers_max."
        )
        errors.append(FieldError("nameservers_min", "value_invalid", sentence))
    checked["apex_nameservers"] = _check_apex_nameservers(values["apex_nameservers"], errors)
    checked["soa_mname"] = _check_host("soa_mname", values["soa_mname"], errors)
    checked["soa_rname"] = _check_host("soa_rname", _mailbox_name(values["soa_rname"]), errors)
    checked["secondaries"] = _check_secondaries(values["secondaries"], errors)
    return checked, errors


def _check_record_types(texts: Sequence[str], errors: list[FieldError]) -> tuple[str, ...]:
    types = {text.upper() for text in texts}
    unknown = sorted(types.difference(RECORD_TYPES))
    if unknown or not types:
        wrong = f"`{shown(unknown[0])}` is not supported." if unknown else "No type is given."
        sentence = f"{wrong} Give some of {', '.join(RECORD_TYPES)}."
        errors.append(FieldError("record_types", "value_invalid", sentence))
    return tuple(each for each in RECORD_TYPES if each in types)


def _check_apex_nameservers(texts: Sequence[str], errors: list[FieldError]) -> tuple[str, ...]:
    if not 1 <= len(texts) <= HOSTS_MAX:
        errors.append(FieldError("apex_nameservers", "value_invalid", f"Give 1 to {HOSTS_MAX} nameservers."))
    hosts = tuple(
        _check_host(f"apex_nameservers[{index}]", text, errors)
        for index, text in enumerate(texts[:HOSTS_MAX])
    )
    if len(set(hosts)) < len(hosts):
        sentence = "A nameserver is given twice. Give each nameserver once."
        errors.append(FieldError("apex_nameservers", "nameserver_duplicate", sentence))
    return hosts


def _check_secondaries(secondaries: Sequence[Secondary], errors: list[FieldError]) -> tuple[Secondary, ...]:
    if len(secondaries) > HOSTS_MAX:
        errors.append(FieldError("secondaries", "value_invalid", f"Give at most {HOSTS_MAX} secondaries."))
    checked = tuple(
        replace(each, host=_check_host(f"secondaries[{index}]", each.host, errors))
        for index, each in enumerate(secondaries[:HOSTS_MAX])
    )
    if len({each.host for each in checked}) < len(checked):
        sentence = "A secondary is given twice. Give each secondary once."
        errors.append(FieldError("secondaries", "nameserver_duplicate", sentence))
    return checked


def _mailbox_name(text: str) -> str:
    """Return the name that stands for a mailbox in an SOA record (RFC 1035, section
    8): the @ becomes a dot.
    """
    local, at, domain = text.partition("@")
    # A dot in the local part needs an escape, which host names can't have. Keep the @, so that `_check_host`
    # refuses it.
    return f"{local}.{domain}" if at and "." not in local else text


def _check_host(field: str, text: str, errors: list[FieldError]) -> str:
    try:
        return parse_host_name(text)
    except InvalidName as error:
        errors.append(FieldError(field, "nameserver_invalid", shown(str(error))))
        return text
