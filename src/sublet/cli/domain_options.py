"""The options that `domain add` and `domain edit` share: one for each setting of a platform domain."""

import re
from collections.abc import Mapping
from dataclasses import fields
from ipaddress import ip_address
from typing import Annotated, Any

import typer

from sublet.config import Settings
from sublet.dns.types import Secondary
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains.settings import PlatformDomainSettings

BUILT_IN = "built-in"
"""What `--primary` says for no primary of one's own."""

PublicName = Annotated[
    str | None, typer.Option("--public-name", metavar="NAME", help="What people call it; else the domain.")
]
Description = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="A sentence for registrants.")
]
Hidden = Annotated[
    bool | None, typer.Option("--hidden/--shown", help="As if it did not exist, for everyone.")
]
Restricted = Annotated[
    bool | None,
    typer.Option("--restricted/--unrestricted", help="Only for organizations that it is granted to."),
]
RegistrationOpen = Annotated[
    bool | None, typer.Option("--open/--closed", help="Whether it takes new registrations.")
]
Idn = Annotated[
    bool | None, typer.Option("--idn/--no-idn", help="Whether it takes internationalized labels.")
]
LookAlikeCheck = Annotated[
    bool | None,
    typer.Option(
        "--look-alike-check/--no-look-alike-check",
        help="Whether an internationalized label is refused that looks like another one here.",
    ),
]
DnssecSigned = Annotated[
    bool | None,
    typer.Option(
        "--dnssec-signed/--not-dnssec-signed",
        help="Whether its zone is signed, by this server or another one.",
    ),
]
NameserversMin = Annotated[
    int | None,
    typer.Option(
        "--nameservers-min",
        metavar="N",
        help="Least nameservers of a list that is not empty (1 to 13; default 1).",
    ),
]
NameserversMax = Annotated[
    int | None, typer.Option("--nameservers-max", metavar="N", help="Most nameservers (1 to 13; default 13).")
]
LabelLengthMin = Annotated[
    int | None,
    typer.Option(
        "--label-length-min", metavar="N", help="Shortest label in characters (1 to 63; default 1)."
    ),
]
PremiumLengthMax = Annotated[
    int | None,
    typer.Option(
        "--premium-length-max",
        metavar="N",
        help="Labels up to this length are premium (0 to 63; default 0, none).",
    ),
]
RenewalWindowDays = Annotated[
    int | None,
    typer.Option(
        "--renewal-window-days",
        metavar="N",
        help="From how many days before its expiry a name may be renewed (1 to 3650; default 60).",
    ),
]
GraceDays = Annotated[
    int | None,
    typer.Option(
        "--grace-days",
        metavar="N",
        help="How long a name may still be renewed after its expiry (0 to 3650; default 30).",
    ),
]
TrashDays = Annotated[
    int | None,
    typer.Option(
        "--trash-days",
        metavar="N",
        help="How long a name in the trash may be restored (0 to 3650; default 30).",
    ),
]
CoolingOffDays = Annotated[
    int | None,
    typer.Option(
        "--cooling-off-days",
        metavar="N",
        help="How long a purged name stays unavailable to all (0 to 3650; default 7).",
    ),
]
ApexNameserver = Annotated[
    list[str] | None,
    typer.Option(
        "--apex-nameserver",
        metavar="HOST",
        help="Repeated: the zone's own nameservers, in order (default ns1. + the domain).",
    ),
]
SoaMname = Annotated[
    str | None,
    typer.Option(
        "--soa-mname",
        metavar="HOST",
        help="The primary in the SOA record (default: the first apex nameserver).",
    ),
]
SoaRname = Annotated[
    str | None,
    typer.Option(
        "--soa-rname",
        metavar="NAME",
        help="The mailbox in the SOA record, or the name it stands for (default hostmaster. + the domain).",
    ),
]
Serial = Annotated[
    int | None, typer.Option("--serial", metavar="N", help="The zone's serial; must not go back (default 1).")
]
RefreshSeconds = Annotated[
    int | None, typer.Option("--refresh-seconds", metavar="N", help="SOA refresh (default 3600).")
]
RetrySeconds = Annotated[
    int | None, typer.Option("--retry-seconds", metavar="N", help="SOA retry (default 900).")
]
ExpireSeconds = Annotated[
    int | None, typer.Option("--expire-seconds", metavar="N", help="SOA expire (default 1209600).")
]
NegativeTtlSeconds = Annotated[
    int | None,
    typer.Option(
        "--negative-ttl-seconds",
        metavar="N",
        help="How long resolvers may cache that a name does not exist (default 300).",
    ),
]
ApexTtlSeconds = Annotated[
    int | None,
    typer.Option("--apex-ttl-seconds", metavar="N", help="TTL of the apex SOA and NS (default 3600)."),
]
DelegationTtlSeconds = Annotated[
    int | None,
    typer.Option(
        "--delegation-ttl-seconds",
        metavar="N",
        help="TTL of NS, DS and glue of the registered names (default 3600).",
    ),
]

Primary = Annotated[
    str | None,
    typer.Option(
        "--primary",
        metavar="NAME",
        help=f"The primary server of its zone, as the settings name it; {BUILT_IN}: the built-in name server.",
    ),
]
SecondaryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--secondary",
        metavar="HOST=ADDRESS[:PORT]",
        help="Repeated: the secondary servers to watch; none: no longer any.",
    ),
]


def settings_from(settings: Settings, arguments: Mapping[str, Any]) -> PlatformDomainSettings:
    """Return what the options of a command say, by their names.

    Raises:
        ValidationFailed: the primary is none of the settings', or a secondary is not HOST=ADDRESS[:PORT].
    """
    primary = arguments["primary"]
    known = [each.name for each in settings.primaries]
    if primary is not None and primary not in (BUILT_IN, *known):
        there_are = ", ".join(known) or "none"
        sentence = f"The settings have no primary {primary!r} (there are: {there_are}); see docs/settings.md."
        raise validation_failed([FieldError("primary", "value_invalid", sentence)])
    said = {
        field.name: arguments[field.name]
        for field in fields(PlatformDomainSettings)
        if field.name in arguments
    }
    nameservers = arguments["apex_nameserver"]
    return PlatformDomainSettings(
        **said | {"primary": "" if primary == BUILT_IN else primary},
        apex_nameservers=tuple(nameservers) if nameservers else None,
        secondaries=_secondaries(arguments["secondary"]),
    )


def _secondaries(texts: list[str] | None) -> tuple[Secondary, ...] | None:
    if not texts:
        return None
    return () if texts == ["none"] else tuple(parse_secondary(text) for text in texts)


def parse_secondary(text: str) -> Secondary:
    """Return the secondary server that `HOST=ADDRESS` or `HOST=ADDRESS:PORT` means, an IPv6 address with a port in brackets.

    Raises:
        ValidationFailed: it is neither.
    """
    host, equals, where = text.partition("=")
    bracketed = re.fullmatch(r"\[(?P<address>[^\]]+)\](:(?P<port>\d{1,5}))?", where)
    plain = re.fullmatch(r"(?P<address>[^:]+)(:(?P<port>\d{1,5}))?", where)
    found = bracketed or plain
    address, port = (found["address"], int(found["port"] or 53)) if found else (where, 53)
    try:
        ip_address(address)
    except ValueError:
        equals = ""
    if not (host and equals and 1 <= port <= 65535):
        sentence = f"{text!r} is no secondary. Give HOST=ADDRESS[:PORT], such as ns2.example.net=192.0.2.54."
        raise validation_failed([FieldError("secondary", "value_invalid", sentence)])
    return Secondary(host, str(ip_address(address)), port)
