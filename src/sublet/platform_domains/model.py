"""The types of platform domains, and their settings: the name, type, default, limits and help of each. Which
organizations see hidden and restricted platform domains. The name servers of a platform domain's zone.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Any, get_type_hints

import msgspec

from sublet.config import PrimarySettings
from sublet.dns.names import is_at_or_below
from sublet.dns.parent_servers import ParentServer
from sublet.dns.types import RECORD_TYPES, Secondary

MODES = ("free", "plus", "premium", "special")
"""The registration modes of the API, in the order of the spec."""

ADMIN = "admin"
"""The mode of names that the operator registers and renews. No platform domain offers this mode, and the API
refuses it.
"""

DELEGATION_CHECKS = ("off", "warn", "require")
AUTOMATIC_DS = ("off", "rollover", "bootstrap", "all")
RECORDS = ("off", "on")
LABEL_CLASSES = ("standard", "premium", "special", "reserved", "blocked")
CREDITS_MAX = 10**12
"""The maximum price of an offer or a label, in credits."""
PATTERN_CHARACTERS_MAX = 100

_DAYS_MAX = 3650
_NAMESERVERS_MAX = 13
_LABEL_MAX = 63
"""The maximum length of a label, in characters (RFC 1035, section 2.3.4)."""
_SECONDS_MAX = 2**31 - 1
"""The maximum TTL (RFC 2181, section 8), and the maximum of the times in the SOA record."""


class Setting(msgspec.Struct, frozen=True):
    """A field of a platform domain that the operator sets.

    `default` is the value of a new platform domain; None if it follows from the domain (`default_settings`).
    `limits` are the minimum and maximum of a number. `option` is the name of the option of `sublet domain
    add` and `edit`, if it differs from the field's name. `in_apex` is True if the apex records contain the
    value, so that a change of the value needs a new serial.
    """

    help: str
    default: Any = None
    metavar: str | None = None
    limits: tuple[int, int] | None = None
    option: str | None = None
    in_apex: bool = False


def _number(help_text: str, default: int, least: int, most: int, *, in_apex: bool = False) -> Setting:
    return Setting(help_text, default, "N", (least, most), in_apex=in_apex)


class PlatformDomain(msgspec.Struct, frozen=True):
    """A platform domain. `domain` is a lower-case A-label name without the final dot.

    `names_until` is set while the platform domain closes: the time at which its names go to the trash.

    To add a setting, add an annotated field here and a migration with the column. The command line, the
    checks and the store get their settings from these annotations.
    """

    id: int
    domain: str
    public_name: Annotated[str, Setting("The name that people read; default: the domain.", metavar="NAME")]
    description: Annotated[str, Setting("A sentence for registrants.", "", "TEXT")]
    hidden: Annotated[
        bool,
        Setting(
            "Hide the platform domain from everyone, as if it did not exist.",
            default=False,
            option="hidden/shown",
        ),
    ]
    restricted: Annotated[
        bool,
        Setting(
            "Show the platform domain only to organizations with a grant.",
            default=False,
            option="restricted/unrestricted",
        ),
    ]
    registration_open: Annotated[
        bool, Setting("Accept new registrations.", default=True, option="open/closed")
    ]
    idn: Annotated[bool, Setting("Accept internationalized labels.", default=True, option="idn/no-idn")]
    look_alike_check: Annotated[
        bool,
        Setting(
            "Refuse an internationalized label that mixes scripts, or looks like a reserved one or like "
            "another user's.",
            default=True,
            option="look-alike-check/no-look-alike-check",
        ),
    ]
    dnssec_signed: Annotated[
        bool,
        Setting(
            "The zone is signed, by its primary or another server.",
            default=False,
            option="dnssec-signed/not-dnssec-signed",
        ),
    ]
    delegation_check: Annotated[
        str,
        Setting(
            "Check the nameservers before a name is registered or changed: off; warn of problems; require "
            "that they work.",
            "off",
            "off|warn|require",
        ),
    ]
    automatic_ds: Annotated[
        str,
        Setting(
            "Follow CDS and CDNSKEY records of names: off; rollover, to change DS records; bootstrap, to "
            "add the first ones (RFC 9615); all.",
            "off",
            "off|rollover|bootstrap|all",
        ),
    ]
    bootstrap_days: Annotated[
        int,
        _number(
            "After how many days first DS records are accepted that no signalling name confirms (RFC 8078, "
            "section 3.3); 0 for never.",
            0,
            0,
            _DAYS_MAX,
        ),
    ]
    csync: Annotated[
        bool,
        Setting(
            "Follow CSYNC records of names: change their nameservers and glue (RFC 7477).",
            default=False,
            option="csync/no-csync",
        ),
    ]
    records: Annotated[
        str,
        Setting(
            "Whether registrants may give their names records instead of nameservers. Names that have "
            "records keep them.",
            "off",
            "off|on",
        ),
    ]
    record_types: Annotated[
        tuple[str, ...],
        Setting(
            "A record type that names may have. May be given several times. Default: all that Sublet "
            "supports.",
            RECORD_TYPES,
            metavar="TYPE",
            option="record-type",
        ),
    ]
    record_sets_max: Annotated[int, _number("The maximum number of RRsets of a name.", 50, 1, 500)]
    record_octets_max: Annotated[
        int, _number("The maximum size of all records of a name, in octets of rdata.", 16_384, 512, 65_535)
    ]
    record_wildcards: Annotated[
        bool,
        Setting(
            "Accept wildcards (RFC 4592) in the records of names.",
            default=True,
            option="record-wildcards/no-record-wildcards",
        ),
    ]
    record_private_addresses: Annotated[
        bool,
        Setting(
            "Accept addresses in the records of names that are not public, such as 192.168.1.2.",
            default=False,
            option="record-private-addresses/no-record-private-addresses",
        ),
    ]
    broken_days: Annotated[
        int, _number("After how many days a broken name leaves the DNS; 0 for never.", 0, 0, _DAYS_MAX)
    ]
    nameservers_min: Annotated[
        int, _number("The minimum number of nameservers, unless a name has none.", 1, 1, _NAMESERVERS_MAX)
    ]
    nameservers_max: Annotated[int, _number("The maximum number of nameservers.", 13, 1, _NAMESERVERS_MAX)]
    label_length_min: Annotated[
        int, _number("The minimum length of a label, in characters.", 1, 1, _LABEL_MAX)
    ]
    premium_length_max: Annotated[
        int, _number("Labels up to this length are premium; 0 for none.", 0, 0, _LABEL_MAX)
    ]
    renewal_window_days: Annotated[
        int, _number("How many days before its expiry a name may be renewed.", 60, 1, _DAYS_MAX)
    ]
    grace_days: Annotated[
        int, _number("How long a name may still be renewed after its expiry.", 30, 0, _DAYS_MAX)
    ]
    trash_days: Annotated[int, _number("How long a name in the trash may be restored.", 30, 0, _DAYS_MAX)]
    cooling_off_days: Annotated[
        int, _number("How long a purged name stays unavailable to all.", 7, 0, _DAYS_MAX)
    ]
    apex_nameservers: Annotated[
        tuple[str, ...],
        Setting(
            "A nameserver of the zone itself. May be given several times, in order. Default: ns1. + the "
            "domain.",
            metavar="HOST",
            option="apex-nameserver",
            in_apex=True,
        ),
    ]
    soa_mname: Annotated[
        str,
        Setting(
            "The primary in the SOA record; default: the first apex nameserver.", metavar="HOST", in_apex=True
        ),
    ]
    soa_rname: Annotated[
        str,
        Setting(
            "The mailbox in the SOA record, or the name that stands for it; default: hostmaster. + the "
            "domain.",
            metavar="NAME",
            in_apex=True,
        ),
    ]
    serial: Annotated[int, _number("The zone's serial; a new one must be newer (RFC 1982).", 1, 1, 2**32 - 1)]
    refresh_seconds: Annotated[int, _number("SOA refresh.", 3600, 1, _SECONDS_MAX, in_apex=True)]
    retry_seconds: Annotated[int, _number("SOA retry.", 900, 1, _SECONDS_MAX, in_apex=True)]
    expire_seconds: Annotated[int, _number("SOA expire.", 1_209_600, 1, _SECONDS_MAX, in_apex=True)]
    negative_ttl_seconds: Annotated[
        int,
        _number(
            "How long resolvers may cache that a name does not exist.", 300, 0, _SECONDS_MAX, in_apex=True
        ),
    ]
    apex_ttl_seconds: Annotated[
        int, _number("TTL of the apex SOA and NS.", 3600, 0, _SECONDS_MAX, in_apex=True)
    ]
    delegation_ttl_seconds: Annotated[
        int, _number("TTL of NS, DS and glue of the registered names.", 3600, 0, _SECONDS_MAX)
    ]
    primary: Annotated[
        str,
        Setting(
            "The primary server of the zone, by its name in the settings; built-in: the built-in name "
            "server.",
            "",
            "NAME",
        ),
    ]
    secondaries: Annotated[
        tuple[Secondary, ...],
        Setting(
            "A secondary server to watch; none: watch no secondary. May be given several times.",
            (),
            "HOST=ADDRESS[:PORT]",
            option="secondary",
        ),
    ]
    created_at: datetime
    updated_at: datetime
    names_until: datetime | None = None

    @property
    def accepts_registrations(self) -> bool:
        """True if the platform domain accepts new registrations and isn't closing."""
        return self.registration_open and self.names_until is None

    @property
    def accepts_records(self) -> bool:
        """True if names may have records instead of nameservers."""
        return self.records == "on"


_HINTS = get_type_hints(PlatformDomain, include_extras=True)
SETTINGS: dict[str, Setting] = {
    name: hint.__metadata__[0] for name, hint in _HINTS.items() if hasattr(hint, "__metadata__")
}
"""All settings, by the names of their fields."""
SETTING_TYPES: dict[str, Any] = {name: _HINTS[name].__origin__ for name in SETTINGS}


def default_settings(domain: str, apex_nameservers: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the default settings of a platform domain (docs/spec-choices.md, "Modes and prices", "Subdomain
    states").
    """
    nameservers = tuple(apex_nameservers or (f"ns1.{domain}",))
    by_name = {
        "public_name": domain,
        "apex_nameservers": nameservers,
        "soa_mname": nameservers[0],
        "soa_rname": f"hostmaster.{domain}",
    }
    return {name: setting.default for name, setting in SETTINGS.items()} | by_name


class Offer(msgspec.Struct, frozen=True):
    """A registration mode that a platform domain offers, with the prices in credits and the term in days.

    A withdrawn offer accepts no new registrations. Names held in this mode can still be renewed at the
    renewal price.
    """

    platform_domain_id: int
    mode: str
    price_credits: int
    renewal_price_credits: int
    period_days: int
    withdrawn_at: datetime | None


class Label(msgspec.Struct, frozen=True):
    """A label that the operator listed: the class, the prices in credits, and the organizations that may
    register a special label.
    """

    platform_domain_id: int
    label: str
    label_class: str
    price_credits: int | None
    renewal_price_credits: int | None
    organization_ids: tuple[int, ...] = ()


class LabelRules(msgspec.Struct, frozen=True):
    """The operator's rules for a label: its entry in the list, the patterns of blocked labels, and all
    offers.

    The patterns are those of the platform domain and those for all. Withdrawn offers are included.
    """

    listed: Label | None
    patterns: tuple[str, ...]
    offers: tuple[Offer, ...]


class LabelPattern(msgspec.Struct, frozen=True):
    """A pattern of labels that are blocked under a platform domain, or under all if `platform_domain_id` is
    None.
    """

    id: int
    pattern: str
    platform_domain_id: int | None
    created_at: datetime


def is_visible(platform_domain: PlatformDomain, granted_ids: Collection[int]) -> bool:
    """True if an organization with these grants sees a platform domain in the list and may register under it
    (spec, part 1, rule 5).

    Names that the organization holds under it stay visible, changeable and renewable in any case.
    """
    return not platform_domain.hidden and (
        not platform_domain.restricted or platform_domain.id in granted_ids
    )


def has_zone_nameserver(platform_domain: PlatformDomain, fqdn: str) -> bool:
    """True if a nameserver of the zone is at or below a name.

    The name's holder could answer queries for the whole zone.
    """
    hosts = (*platform_domain.apex_nameservers, platform_domain.soa_mname)
    return any(is_at_or_below(host, fqdn) for host in hosts)


def name_servers(
    platform_domain: PlatformDomain, built_in: Sequence[tuple[str, int]], primaries: Sequence[PrimarySettings]
) -> tuple[ParentServer, ...]:
    """Return the servers of a platform domain's zone: its primary or the built-in name servers, then the
    secondaries.

    `built_in` has the addresses of the built-in name servers, `primaries` has the primaries in the settings.
    The name of the primary in the result is the zone's `soa_mname`, because the name in the settings is only
    for the operator. Its address is None if the settings don't have the primary.
    """
    if platform_domain.primary:
        found = next((each for each in primaries if each.name == platform_domain.primary), None)
        address = (found.address, found.port) if found is not None else None
        first = [ParentServer(platform_domain.soa_mname, "primary", address)]
    else:
        first = [ParentServer(platform_domain.soa_mname, "built_in", each) for each in built_in]
    return (
        *first,
        *(
            ParentServer(each.host, "secondary", (each.address, each.port))
            for each in platform_domain.secondaries
        ),
    )
