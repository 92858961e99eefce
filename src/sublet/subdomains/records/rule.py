"""The rule of records: which RRsets a name may have, and their canonical form (no SQL, no network)."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import dns.rdatatype

from sublet.dns.names import NAME_OCTETS_MAX, InvalidName, is_at_or_below, shown
from sublet.dns.records import owner_of
from sublet.dns.types import RECORD_TYPES, RecordSet, RecordSetInput
from sublet.errors import FieldError
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains.records.values import InvalidValue, check_served, parse_labels, parse_value

TTL_SECONDS_MIN: Final = 60
TTL_SECONDS_MAX: Final = 86_400
TTL_SECONDS_DEFAULT: Final = 300
RECORDS_MAX: Final = 500
"""The maximum number of records of a name."""
VALUES_MAX: Final = 100
"""The maximum number of values of an RRset."""
RRSET_OCTETS_MAX: Final = 4096
"""The maximum size of the rdata of an RRset, so that no answer is much larger than the usual UDP payload."""
READ_CHARACTERS_MAX: Final = 16_384
"""The maximum number of characters in all values that dnspython parses (no A, AAAA, TXT), because its work
grows with them.
"""
IDN_CHARACTERS_MAX: Final = 2048
"""The maximum number of characters in all names that are not ASCII, because the work of
IDNA grows with them.
"""

_HOST_OWNERS: Final = frozenset({"A", "AAAA", "MX"})
"""The types whose owner must be a host name or a wildcard: BIND refuses other owners (its option
`check-names`).
"""
_HOST_LABEL: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_WITHOUT_DNSPYTHON: Final = frozenset({"A", "AAAA", "TXT"})
_GENERIC_TYPES: Final = {f"TYPE{int(dns.rdatatype.from_text(each))}": each for each in RECORD_TYPES}
"""The types by their names in RFC 3597, section 5."""

SIGNER_TYPES: Final = ("CDNSKEY", "CDS", "DNSKEY", "KEY", "NSEC", "NSEC3", "NSEC3PARAM", "RRSIG", "SIG")
"""The types of DNSSEC records: what servers add when they sign a zone, and what a signed zone says about its
keys.
"""

_DNSSEC = (
    "The servers of the platform domain sign its names, and add the records of DNSSEC. Remove this entry."
)
_REFUSED_TYPES: Final = {
    "NS": "NS records delegate the name to other nameservers. Set nameservers instead.",
    "DS": "DS records belong to nameservers. Set both instead.",
    "SOA": "Only a zone has an SOA record, and a name with records is part of the platform domain's zone. "
    "Remove this entry.",
    "DNAME": "Sublet doesn't serve DNAME records. Give a CNAME at each "
    "name below, or one at the wildcard `*`.",
    "SPF": "The type SPF is obsolete (RFC 7208). Use the type TXT.",
    "ALIAS": "ALIAS is no type of the DNS. Use CNAME: the name itself (`@`) may have one, if it has no other "
    "records.",
    "ANAME": "ANAME is no type of the DNS. Use CNAME: the name itself (`@`) may have one, if it has no other "
    "records.",
} | dict.fromkeys(SIGNER_TYPES, _DNSSEC)
"""Why types are refused that people may try."""


def check_records(
    fqdn: str,
    entries: Sequence[RecordSetInput],
    platform_domain: PlatformDomain,
    *,
    stored: Sequence[RecordSet] | None = None,
) -> tuple[tuple[RecordSet, ...], tuple[FieldError, ...]]:
    """Return the RRsets of the name `fqdn` in canonical form, sorted by owner and type, and all errors.

    Use the RRsets only if there are no errors, whose fields are such as `records[2].values[0]`.

    With `stored`, the entries change these RRsets, and the result has those that stay, too. An entry without
    values then removes the RRset of its owner and type. An RRset that stays may be older than the settings of
    the platform domain, so only the limits of the whole list and the errors between RRsets count it.

    If a limit of the whole list is exceeded, this is the only error (`too_many_records`). Otherwise the
    errors have the order of the entries: the owner (`record_invalid`), the type and the TTL
    (`value_invalid`), the values (`required`, `too_many_records`, `record_invalid`, `address_not_public`,
    `record_duplicate`), the RRset (`record_duplicate`). Then come the errors between RRsets
    (`cname_not_alone`, `too_many_records` for their octets).

    Not checked: `platform_domain.records`, the name's nameservers, and that the hosts in values exist.
    """
    too_many = _exceeded_limit(entries, platform_domain)
    is_change = stored is not None
    if too_many is not None:
        return (), (FieldError("records", "too_many_records", too_many),)
    errors: list[FieldError] = []
    index_by_key: dict[tuple[str, str], int] = {}
    sets: list[RecordSet] = []
    octets = 0
    for index, entry in enumerate(entries):
        found, octets_of_set = _check_set(
            fqdn, entry, platform_domain, f"records[{index}]", errors, may_remove=is_change
        )
        octets += octets_of_set
        if found is None:
            continue
        key = (found.name, found.type)
        if key in index_by_key:
            message = (
                f"{found.type} of {shown_owner(fqdn, found.name)} is given twice. Put all values into one "
                "entry."
            )
            errors.append(FieldError(f"records[{index}]", "record_duplicate", message))
            continue
        index_by_key[key] = index
        if found.values:
            sets.append(found)
    kept = [each for each in stored or () if (each.name, each.type) not in index_by_key]
    sets += kept
    octets += sum(_octets(each) for each in kept)
    if kept and len(sets) > platform_domain.record_sets_max:
        message = (
            f"The name would have {len(sets)} RRsets. The maximum is {platform_domain.record_sets_max}. "
            "Remove some."
        )
        errors.append(FieldError("records", "too_many_records", message))
    fields = {key: f"records[{index}]" for key, index in index_by_key.items()}
    errors += _check_aliases(
        fqdn, {(each.name, each.type): fields.get((each.name, each.type), "records") for each in sets}
    )
    if octets > platform_domain.record_octets_max:
        message = (
            f"The values have {octets} octets together. The maximum is "
            f"{platform_domain.record_octets_max}. Remove some."
        )
        errors.append(FieldError("records", "too_many_records", message))
    return tuple(sorted(sets, key=lambda each: (each.name, each.type))), tuple(errors)


def parse_owner(fqdn: str, text: str, domain: str | None = None) -> str:
    """Return an owner relative to the canonical name `fqdn`: `@`, or labels in lower case.

    A text with a final dot, and one that is or ends with `fqdn`, is a full name. All others are relative.
    `domain` is the platform domain: a full name in it without the final dot that is outside `fqdn` is
    refused, not taken as relative.

    Raises:
        InvalidName: empty, outside `fqdn`, `*` in another place than the first label, over 253 octets
            together with `fqdn`, or not labels of letters, digits, hyphens and underscores.
    """
    if text == "@":
        return text
    if not text:
        raise InvalidName("The owner is empty. Write `@` for the name itself.")
    if len(text) > NAME_OCTETS_MAX + 1:  # a U-label has fewer characters than its A-label
        raise InvalidName(f"`{shown(text)}` is too long. Give an owner of at most {NAME_OCTETS_MAX} octets.")
    wildcard, rest = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    if text == "*":
        return text
    if "*" in rest:
        raise InvalidName(
            f"`{shown(text)}` has `*` in a place where it is no wildcard. Write it as the first label, "
            "such as `*` or `*.dev`."
        )
    name = ".".join(parse_labels(rest.removesuffix(".")))
    if is_at_or_below(name, fqdn):
        owner = wildcard + name.removesuffix(fqdn)
        owner = owner.removesuffix(".") or "@"
    elif rest.endswith(".") or (domain is not None and is_at_or_below(name, domain)):
        raise InvalidName(
            f"`{shown(text)}` is outside `{fqdn}`. Give an owner such as `www`, or `@` for the name itself."
        )
    else:
        owner = wildcard + name
    if len(owner_of(owner, fqdn)) > NAME_OCTETS_MAX:
        raise InvalidName(
            f"`{shown(text)}` and `{fqdn}` have more than {NAME_OCTETS_MAX} octets together. Give a "
            "shorter owner."
        )
    return owner


def parse_type(text: str) -> str:
    """Return a type of `RECORD_TYPES` from its name in any case, or from its name by RFC 3597 (`TYPE257`).

    Raises:
        InvalidValue: not one of these types. The message says what to do instead.
    """
    name = canonical_type(text)
    if name in RECORD_TYPES:
        return name
    reason = _REFUSED_TYPES.get(name)
    if reason is None:
        reason = f"`{shown(text)}` is not a type that a name may have. Give one of {', '.join(RECORD_TYPES)}."
    raise InvalidValue(reason, "value_invalid")


def canonical_type(text: str) -> str:
    """Return a type as it is stored, from its name in any case or by RFC 3597.

    Not checked: that it is one of `RECORD_TYPES`.
    """
    upper = text.upper()
    return _GENERIC_TYPES.get(upper, upper)


def canonical_owner(fqdn: str, text: str) -> str:
    """Return an owner as it is stored.

    Return a malformed one unchanged: no stored RRset has it, and the rule refuses it.
    """
    try:
        return parse_owner(fqdn, text)
    except InvalidName:
        return text


def shown_owner(fqdn: str, owner: str) -> str:
    """Return an owner for messages: the relative one, or the name itself."""
    return fqdn if owner == "@" else owner


def _exceeded_limit(entries: Sequence[RecordSetInput], platform_domain: PlatformDomain) -> str | None:
    """Return a message about the first limit of the whole list that is exceeded.

    It is checked first, because it bounds the work.
    """
    if len(entries) > platform_domain.record_sets_max:
        return f"{len(entries)} RRsets are too many. Give at most {platform_domain.record_sets_max}."
    count = sum(len(entry.values) for entry in entries)
    if count > RECORDS_MAX:
        return f"{count} records are too many. Give at most {RECORDS_MAX}."
    read = [
        text for entry in entries if entry.type.upper() not in _WITHOUT_DNSPYTHON for text in entry.values
    ]
    read_characters = sum(map(len, read))
    if read_characters > READ_CHARACTERS_MAX:
        return (
            f"The values other than A, AAAA and TXT have {read_characters} characters together. Give at "
            f"most {READ_CHARACTERS_MAX}."
        )
    names = [*(entry.name for entry in entries), *read]
    idn_characters = sum(len(text) for text in names if not text.isascii())
    if idn_characters > IDN_CHARACTERS_MAX:
        return (
            f"The names that are not ASCII have {idn_characters} characters together. Give at most "
            f"{IDN_CHARACTERS_MAX}, or write them as A-labels (`xn--…`)."
        )
    return None


def _octets(stored: RecordSet) -> int:
    """Return the octets of the rdata of a stored RRset."""
    return sum(parse_value("", stored.type, value, accepts_private=True)[1] for value in stored.values)


def _check_set(
    fqdn: str,
    entry: RecordSetInput,
    platform_domain: PlatformDomain,
    field: str,
    errors: list[FieldError],
    *,
    may_remove: bool,
) -> tuple[RecordSet | None, int]:
    """Return an RRset in canonical form, and its octets. It is None if its owner or type is wrong.

    With `may_remove` an entry without values is an RRset without values. Only its owner and type have to
    exist.
    """
    is_removal = may_remove and not entry.values
    owner, type_name = _check_key(fqdn, entry, platform_domain, field, errors, is_removal=is_removal)
    if is_removal:
        return (None if owner is None or type_name is None else RecordSet(owner, type_name, 0, ())), 0
    ttl_seconds = TTL_SECONDS_DEFAULT if entry.ttl_seconds is None else entry.ttl_seconds
    if not TTL_SECONDS_MIN <= ttl_seconds <= TTL_SECONDS_MAX:
        message = (
            f"A TTL of {ttl_seconds} seconds is not allowed. Give {TTL_SECONDS_MIN} to {TTL_SECONDS_MAX}."
        )
        errors.append(FieldError(f"{field}.ttl", "value_invalid", message))
    if type_name is None:
        return None, 0
    values, octets = _check_values(fqdn, type_name, entry.values, platform_domain, field, errors)
    if owner is None:
        return None, octets
    _check_owner_of_type(fqdn, owner, type_name, values, field, errors)
    return RecordSet(owner, type_name, ttl_seconds, tuple(sorted(values))), octets


def _check_key(
    fqdn: str,
    entry: RecordSetInput,
    platform_domain: PlatformDomain,
    field: str,
    errors: list[FieldError],
    *,
    is_removal: bool,
) -> tuple[str | None, str | None]:
    """Return the owner and the type of an entry, or None for each that is wrong.

    An RRset that the platform domain doesn't accept any more can be removed.
    """
    owner = type_name = None
    try:
        owner = _check_owner(fqdn, entry.name, platform_domain, is_removal=is_removal)
    except InvalidName as error:
        errors.append(FieldError(f"{field}.name", "record_invalid", str(error)))
    try:
        type_name = _check_type(entry.type, platform_domain, is_removal=is_removal)
    except InvalidValue as error:
        errors.append(FieldError(f"{field}.type", error.code, str(error)))
    return owner, type_name


def _check_owner(fqdn: str, text: str, platform_domain: PlatformDomain, *, is_removal: bool) -> str:
    owner = parse_owner(fqdn, text, platform_domain.domain)
    if owner.startswith("*") and not platform_domain.record_wildcards and not is_removal:
        raise InvalidName(
            f"`{shown(text)}` is a wildcard, which {platform_domain.domain} does not accept. Give each name."
        )
    return owner


def _check_type(text: str, platform_domain: PlatformDomain, *, is_removal: bool) -> str:
    type_name = parse_type(text)
    if type_name not in platform_domain.record_types and not is_removal:
        message = (
            f"{platform_domain.domain} does not accept {type_name} records. Give one of "
            f"{', '.join(platform_domain.record_types)}."
        )
        raise InvalidValue(message, "value_invalid")
    return type_name


def _check_values(
    fqdn: str,
    type_name: str,
    texts: Sequence[str],
    platform_domain: PlatformDomain,
    field: str,
    errors: list[FieldError],
) -> tuple[list[str], int]:
    """Return the values in canonical form, and their octets."""
    field = f"{field}.values"
    values: dict[str, None] = {}
    octets = 0
    if not texts:
        errors.append(FieldError(field, "required", "The list of values is empty. Give at least one value."))
    if len(texts) > VALUES_MAX:
        message = f"{len(texts)} values are too many for an RRset. Give at most {VALUES_MAX}."
        errors.append(FieldError(field, "too_many_records", message))
    for index, text in enumerate(texts[:VALUES_MAX]):
        try:
            value, octets_of_value = parse_value(
                fqdn, type_name, text, accepts_private=platform_domain.record_private_addresses
            )
            check_served(type_name, value)
        except InvalidValue as error:
            errors.append(FieldError(f"{field}[{index}]", error.code, str(error)))
            continue
        if value in values:
            message = f"`{shown(value)}` is given twice. Remove one of the two."
            errors.append(FieldError(f"{field}[{index}]", "record_duplicate", message))
            continue
        values[value] = None
        octets += octets_of_value
    if octets > RRSET_OCTETS_MAX:
        message = (
            f"The values of the RRset have {octets} octets together. The maximum is {RRSET_OCTETS_MAX}. "
            "Remove some."
        )
        errors.append(FieldError(field, "too_many_records", message))
    return list(values), octets


def _check_owner_of_type(
    fqdn: str, owner: str, type_name: str, values: Sequence[str], field: str, errors: list[FieldError]
) -> None:
    """Check what the owner, the type and the values mean together."""
    labels = owner.removeprefix("*").removeprefix(".").split(".") if owner not in ("@", "*") else []
    if type_name in _HOST_OWNERS and not all(_HOST_LABEL.fullmatch(label) for label in labels):
        message = (
            f"`{owner}` is no host name, so it can't have {type_name} records. Use letters, digits and "
            "inner hyphens."
        )
        errors.append(FieldError(f"{field}.name", "record_invalid", message))
    if type_name == "CNAME" and len(values) > 1:
        message = "A CNAME has one value. Give one host, or the addresses of all hosts as A and AAAA records."
        errors.append(FieldError(f"{field}.values", "record_invalid", message))
    if type_name == "CNAME" and f"{owner_of(owner, fqdn)}." in values:
        message = "The CNAME points to itself. Give another host."
        errors.append(FieldError(f"{field}.values[0]", "record_invalid", message))
    if type_name == "MX" and len(values) > 1 and any(value.endswith(" .") for value in values):
        message = (
            "The mail host `.` says that the name takes no mail, and must be alone (RFC 7505). Remove it, "
            "or the others."
        )
        errors.append(FieldError(f"{field}.values", "record_invalid", message))


def _check_aliases(fqdn: str, fields: Mapping[tuple[str, str], str]) -> list[FieldError]:
    """Return the errors of CNAME records that are not alone (RFC 1034, section 3.6.2).

    `fields` has the name of each RRset in errors, by owner and type.
    """
    types_by_owner: dict[str, list[str]] = defaultdict(list)
    for owner, type_name in sorted(fields):
        types_by_owner[owner].append(type_name)
    errors = []
    for owner, types in types_by_owner.items():
        others = [each for each in types if each != "CNAME"]
        if len(others) < len(types) and others:
            listed = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} and {others[-1]}"
            message = (
                f"A CNAME must be alone at {shown_owner(fqdn, owner)}. Remove its {listed} records, or put "
                "the CNAME at another name."
            )
            errors.append(FieldError(fields[owner, "CNAME"], "cname_not_alone", message))
    return errors
