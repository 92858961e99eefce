"""The restrictions of a token, and the checks of their values (rules; no SQL).

Restrictions are enforced in these files: scopes and networks in `http/calls.py`; expiry in
`accounts/tokens/issue.py`; names and platform domains in `subdomains/find.py`, `subdomains/naming.py` and the
stores; owners of records in `subdomains/records/change.py` and `dyndns.py` there; daily credits in
`subdomains/charge.py`; all of them in `accounts/tokens/tokens.py` for requests about tokens.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import (
    IPv4Network,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)
from typing import Any, TypeVar

from msgspec import Struct

from sublet.dns.names import InvalidName, is_at_or_below, is_below, parse_domain_name, shown
from sublet.errors import FieldError
from sublet.structs import replace

T = TypeVar("T")
Network = IPv4Network | IPv6Network

SCOPES = (
    "account:read",
    "subdomains:read",
    "subdomains:write",
    "records:write",
    "credits:spend",
    "tickets:read",
    "tickets:write",
    "tokens:write",
    "organization:write",
)
"""All scopes (docs/spec-choices.md, "Tokens"). A token of the operator has all of them by default."""
ITEMS_MAX = 100
"""The maximum number of names, platform domains or networks of a token, because each request reads them."""
LIFE_MAX = timedelta(days=36_500)
"""The longest life of a token that the operator issues with an expiry."""
DAILY_CREDITS_MAX = 10**12
_WILDCARD = "*."
_ANY_END = ".*"
_RECORD_NAME = re.compile(r"@|(\*|[a-z0-9_-]{1,63})(\.[a-z0-9_-]{1,63})*(\.\*)?", re.ASCII)
_RECORD_NAME_CHARACTERS_MAX = 253


class Restrictions(Struct, frozen=True):
    """What a token may do. None means no restriction.

    `names` are names, or `*.domain` for all names below a domain. `domains` are platform domains, `networks`
    are in CIDR notation. `record_names` are owners of records relative to a name; `_acme-challenge.*` means
    all owners that begin with `_acme-challenge.`. `daily_credits` is the maximum that the token may spend
    within 24 hours.
    """

    scopes: tuple[str, ...] = SCOPES
    names: tuple[str, ...] | None = None
    domains: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    daily_credits: int | None = None
    expires_at: datetime | None = None
    record_names: tuple[str, ...] | None = None

    @property
    def allows_all_names(self) -> bool:
        """True if the token is restricted neither to names nor to platform domains."""
        return self.names is None and self.domains is None

    def allows_name(self, fqdn: str) -> bool:
        """True if the token may see and change this name."""
        domain = fqdn.partition(".")[2]
        return (self.domains is None or domain in self.domains) and _covers_name(self.names, fqdn)

    def allows_domain(self, domain: str) -> bool:
        """True if the token may see and change at least one name directly under this platform domain."""
        if self.domains is not None and domain not in self.domains:
            return False
        return self.names is None or any(_allows_child_of(pattern, domain) for pattern in self.names)

    def allows_record(self, name: str) -> bool:
        """True if the token may change the records at an owner that is relative to its name, such as `@` or
        `www`.
        """
        return _covers_record(self.record_names, name)

    def allows_address(self, address: str) -> bool:
        """True if a request may come from this address.

        A text that isn't an address is allowed only without `networks`.
        """
        if self.networks is None:
            return True
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(parsed in network for network in _parse_networks(self.networks))

    def exceeded_by(self, other: "Restrictions") -> list[str]:
        """Return the fields in which `other` allows more than these restrictions."""
        within = {
            "scopes": set(other.scopes) <= set(self.scopes),
            "names": _is_within(other.names, self.names, lambda each: _covers_name(self.names, each)),
            "domains": _is_within(other.domains, self.domains, lambda each: each in (self.domains or ())),
            "networks": _is_within(other.networks, self.networks, self._covers_network),
            "daily_credits": _is_at_most(other.daily_credits, self.daily_credits),
            "expires_at": _is_at_most(other.expires_at, self.expires_at),
            "record_names": _is_within(
                other.record_names, self.record_names, lambda each: _covers_record(self.record_names, each)
            ),
        }
        return [field for field, is_within in within.items() if not is_within]

    def _covers_network(self, text: str) -> bool:
        inner = ip_network(text)
        # Collapse adjacent networks, because two of them together may cover `inner`.
        outer = [each for each in _parse_networks(self.networks or ()) if each.version == inner.version]
        return any(inner.subnet_of(each) for each in collapse_addresses(outer))  # type: ignore[type-var, arg-type] # of one version


UNRESTRICTED = Restrictions()
"""The restrictions of the operator, the system, and a token with all scopes: none."""


def _covers_name(patterns: Sequence[str] | None, name: str) -> bool:
    """True if these patterns allow a name, or all names that match the pattern `name`."""
    if patterns is None or name in patterns:
        return True
    inner = name.removeprefix(_WILDCARD)
    return any(
        is_below(inner, each.removeprefix(_WILDCARD)) for each in patterns if each.startswith(_WILDCARD)
    )


def _covers_record(patterns: Sequence[str] | None, name: str) -> bool:
    """True if these patterns allow an owner of records, or all owners that match the pattern `name`."""
    if patterns is None or name in patterns:
        return True
    return any(each.endswith(_ANY_END) and name.startswith(each.removesuffix("*")) for each in patterns)


def _allows_child_of(pattern: str, domain: str) -> bool:
    """True if a pattern allows at least one name directly under a platform domain."""
    if pattern.startswith(_WILDCARD):
        return is_at_or_below(domain, pattern.removeprefix(_WILDCARD))
    return pattern.partition(".")[2] == domain


def _is_within(inner: Iterable[str] | None, outer: object, is_covered: Callable[[str], bool]) -> bool:
    return outer is None or (inner is not None and all(map(is_covered, inner)))


def _is_at_most(inner: Any, outer: Any) -> bool:
    return outer is None or (inner is not None and inner <= outer)


@lru_cache(1024)
def _parse_networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(each) for each in networks)


def check_restrictions(sent: Restrictions, now: datetime) -> tuple[Restrictions, list[FieldError]]:
    """Return restrictions in their stored form, and all their errors in the order of the fields.

    Names and platform domains become lower-case A-labels. Not checked: that they exist.
    """
    errors = _check_scopes(sent.scopes)
    names = _check_items("names", sent.names, _parse_pattern, errors)
    domains = _check_items("domains", sent.domains, parse_domain_name, errors)
    networks = _check_items("networks", sent.networks, _parse_network, errors)
    if sent.daily_credits is not None and not 0 <= sent.daily_credits <= DAILY_CREDITS_MAX:
        message = f"Give 0 to {DAILY_CREDITS_MAX:,} credits, or leave it out."
        errors.append(FieldError("daily_credits", "value_invalid", message))
    if sent.expires_at is not None and not now < sent.expires_at <= now + LIFE_MAX:
        # A user's token lives shorter (`life_errors`), so a past instant isn't answered with this maximum.
        farthest = "" if sent.expires_at <= now else f", at most {LIFE_MAX.days:,} days from now"
        message = f"Give an instant in the future{farthest}."
        errors.append(FieldError("expires_at", "value_invalid", message))
    record_names = _check_items("record_names", sent.record_names, _parse_record_name, errors)
    if record_names is not None and "subdomains:write" in sent.scopes:
        message = (
            "A token with the scope subdomains:write can move the whole name. Leave out this scope, or "
            "`record_names`."
        )
        errors.append(FieldError("record_names", "value_invalid", message))
    scopes = tuple(scope for scope in SCOPES if scope in sent.scopes)
    checked = replace(sent, scopes=scopes, names=names, domains=domains, networks=networks)
    return replace(checked, record_names=record_names), errors


def _check_scopes(scopes: Sequence[str]) -> list[FieldError]:
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if scopes and not unknown:
        return []
    what = f"`{shown(unknown[0])}` is not a scope." if unknown else "A token needs a scope."
    return [FieldError("scopes", "value_invalid", f"{what} Give one of {', '.join(SCOPES)}.")]


def _check_items(
    field: str, items: Sequence[str] | None, parse: Callable[[str], str], errors: list[FieldError]
) -> tuple[str, ...] | None:
    if items is None:
        return None
    if not items:
        errors.append(FieldError(field, "value_invalid", "The list is empty. Give an item, or null for all."))
    elif len(items) > ITEMS_MAX:
        errors.append(
            FieldError(field, "too_long", f"There are {len(items)} items. Give at most {ITEMS_MAX}.")
        )
        return ()
    found = []
    for index, item in enumerate(items):
        try:
            found.append(parse(item))
        except InvalidName as error:
            errors.append(FieldError(f"{field}[{index}]", "value_invalid", str(error)))
        except ValueError:
            message = (
                f"`{shown(item)}` is not a network. Give a network such as 192.0.2.0/24 or 2001:db8::/48."
            )
            errors.append(FieldError(f"{field}[{index}]", "value_invalid", message))
    return tuple(dict.fromkeys(found))


def _parse_pattern(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith(_WILDCARD):
        return _WILDCARD + parse_domain_name(stripped.removeprefix(_WILDCARD))
    return parse_domain_name(stripped)


def _parse_record_name(text: str) -> str:
    name = text.strip().lower()
    if len(name) > _RECORD_NAME_CHARACTERS_MAX or not _RECORD_NAME.fullmatch(name):
        raise InvalidName(
            f"`{shown(text)}` is no owner of records. Give @, a name such as _acme-challenge, or one that "
            "ends in .* for all that begin like it."
        )
    return name


def _parse_network(text: str) -> str:
    if "%" in text:
        raise ValueError("a zone id, which can be any text")
    return str(ip_network(text.strip()))
