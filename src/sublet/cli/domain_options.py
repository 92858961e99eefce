"""The options that `domain add` and `domain edit` share: one for each setting of a platform domain."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from sublet.platform_domains.settings import PlatformDomainSettings

PublicName = Annotated[
    str | None, typer.Option("--public-name", metavar="NAME", help="What people call it; else the domain.")
]
Description = Annotated[str | None, typer.Option("--description", metavar="TEXT")]
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
DnssecSigned = Annotated[
    bool | None, typer.Option("--dnssec-signed/--not-dnssec-signed", help="Whether its zone is signed.")
]
NameserversMin = Annotated[int | None, typer.Option("--nameservers-min", metavar="N")]
NameserversMax = Annotated[int | None, typer.Option("--nameservers-max", metavar="N")]
LabelLengthMin = Annotated[int | None, typer.Option("--label-length-min", metavar="N")]
PremiumLengthMax = Annotated[
    int | None,
    typer.Option("--premium-length-max", metavar="N", help="Labels up to this length are premium."),
]
RenewalWindowDays = Annotated[int | None, typer.Option("--renewal-window-days", metavar="N")]
GraceDays = Annotated[int | None, typer.Option("--grace-days", metavar="N")]
TrashDays = Annotated[int | None, typer.Option("--trash-days", metavar="N")]
CoolingOffDays = Annotated[int | None, typer.Option("--cooling-off-days", metavar="N")]
ApexNameserver = Annotated[
    list[str] | None,
    typer.Option("--apex-nameserver", metavar="HOST", help="Repeated: the zone's own nameservers, in order."),
]
SoaMname = Annotated[str | None, typer.Option("--soa-mname", metavar="HOST")]
SoaRname = Annotated[
    str | None, typer.Option("--soa-rname", metavar="NAME", help="Or the mailbox it stands for.")
]
Serial = Annotated[int | None, typer.Option("--serial", metavar="N")]
RefreshSeconds = Annotated[int | None, typer.Option("--refresh-seconds", metavar="N")]
RetrySeconds = Annotated[int | None, typer.Option("--retry-seconds", metavar="N")]
ExpireSeconds = Annotated[int | None, typer.Option("--expire-seconds", metavar="N")]
NegativeTtlSeconds = Annotated[int | None, typer.Option("--negative-ttl-seconds", metavar="N")]
ApexTtlSeconds = Annotated[int | None, typer.Option("--apex-ttl-seconds", metavar="N")]
DelegationTtlSeconds = Annotated[int | None, typer.Option("--delegation-ttl-seconds", metavar="N")]


def settings_from(arguments: Mapping[str, Any]) -> PlatformDomainSettings:
    """Return what the options of a command say, by their names."""
    said = {
        field.name: arguments[field.name]
        for field in fields(PlatformDomainSettings)
        if field.name in arguments
    }
    nameservers = arguments["apex_nameserver"]
    return PlatformDomainSettings(**said, apex_nameservers=tuple(nameservers) if nameservers else None)
