"""The types of platform domains: the domain with its rules, an offer of a mode, a label of its own class."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from sublet.dns.types import Secondary

MODES = ("free", "plus", "premium", "special")
"""The registration modes of the API, in the spec's order. `admin` exists in the spec only to be refused."""

LABEL_CLASSES = ("standard", "premium", "special", "reserved", "blocked")


class PlatformDomain(msgspec.Struct, frozen=True):
    """A platform domain; days and counts are integers, `domain` a lower-case A-label name without the final dot.

    `primary` is the name that the settings give the primary server of its zone; empty: the built-in name server. `serial` and the
    apex settings are the built-in one's. `look_alike_check` tells whether an IDN is refused that looks like another name here.
    No dataclass, as `Subdomain`: the built-in name server makes one for each query.
    """

    id: int
    domain: str
    public_name: str
    description: str
    hidden: bool
    restricted: bool
    registration_open: bool
    idn: bool
    dnssec_signed: bool
    nameservers_min: int
    nameservers_max: int
    label_length_min: int
    premium_length_max: int
    renewal_window_days: int
    grace_days: int
    trash_days: int
    cooling_off_days: int
    apex_nameservers: tuple[str, ...]
    soa_mname: str
    soa_rname: str
    serial: int
    refresh_seconds: int
    retry_seconds: int
    expire_seconds: int
    negative_ttl_seconds: int
    apex_ttl_seconds: int
    delegation_ttl_seconds: int
    primary: str
    secondaries: tuple[Secondary, ...]
    created_at: datetime
    updated_at: datetime
    look_alike_check: bool = True


@dataclass(frozen=True, slots=True)
class Offer:
    """A mode that a platform domain offers: prices in credits, the term in days.

    A withdrawn offer takes no new registration; names held in it are still renewed at its renewal price.
    """

    platform_domain_id: int
    mode: str
    price_credits: int
    renewal_price_credits: int
    period_days: int
    withdrawn_at: datetime | None


@dataclass(frozen=True, slots=True)
class Label:
    """A label that the operator listed: its class, perhaps its own prices, and who was granted it (special)."""

    platform_domain_id: int
    label: str
    label_class: str
    price_credits: int | None
    renewal_price_credits: int | None
    organization_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelPattern:
    """A pattern of labels that nobody may register under a platform domain; None: under any."""

    id: int
    pattern: str
    platform_domain_id: int | None
    created_at: datetime
