"""`sublet zone export`: a zone as a zone file."""

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import IO

import dns.rdata

from sublet.cli.options import Domain
from sublet.cli.output import Answer
from sublet.cli.session import Session
from sublet.cli.zone_advice import transfer_failed
from sublet.config import public_dns_addresses
from sublet.db import Tx, utc_now
from sublet.dns.types import Record
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries.check_process import TRANSFER_SECONDS
from sublet.primaries.find_primary import find_primary
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.transfer import transfer_zone
from sublet.primaries.update import fence_name
from sublet.subdomains.view_zone import export_zone

_SIGNER_TYPES = ("DNSKEY", "CDNSKEY", "CDS", "NSEC3PARAM", "ZONEMD")
"""Types that a signing server adds, and that don't belong into an unsigned zone file.
`ZoneTransfer.take_records` leaves out further types.
"""

_NEW_PARAMETERS = ("dohpath", "docpath", "ohttp")
"""The parameters of HTTPS and SVCB records that came after RFC 9460."""


def export(session: Session, domain: Domain) -> Answer:
    """Print an unsigned zone file with the records that the zone's server serves now."""
    platform_domain = session.read(find_platform_domain, domain)
    # A temporary file, so that a transfer that fails prints nothing. A large zone may not fit into memory.
    spool = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - `_lines` and `_read_all` close it
    if platform_domain.primary:
        session.use(lambda _: _transfer(session, platform_domain, spool))
    else:
        session.read(_export, platform_domain, public_dns_addresses(session.settings), spool)
    return Answer(lambda: {"zone": platform_domain.domain, "zone_file": _read_all(spool)}, _lines(spool))


def _export(tx: Tx, platform_domain: PlatformDomain, addresses: tuple[str, ...], spool: IO[str]) -> None:
    _write(spool, export_zone(tx, platform_domain, addresses))


async def _transfer(session: Session, platform_domain: PlatformDomain, spool: IO[str]) -> None:
    zone = platform_domain.domain
    try:
        primary = find_primary(session.settings.primaries, platform_domain.primary)
        transfer = await transfer_zone(primary, zone, utc_now, timeout_seconds=TRANSFER_SECONDS)
    except PrimaryFault as fault:
        raise transfer_failed(zone, fault) from fault
    fence = fence_name(zone)
    records = (each for each in transfer.take_records() if each.type not in _SIGNER_TYPES)
    _write(spool, (each for each in records if each.owner != fence))


def _write(spool: IO[str], records: Iterable[Record]) -> None:
    for each in records:
        spool.write(as_line(each))
    spool.seek(0)


def as_line(record: Record) -> str:
    """Return a record as a line of a zone file (RFC 1035, section 5).

    What Knot 3.2, BIND 9.18 or NSD 4.6 can't read has the form for unknown types (RFC 3597, section 5): the
    type DSYNC, and HTTPS and SVCB records with new parameters.
    """
    rdtype, rdata = record.type, record.rdata
    has_new_parameters = rdtype in ("HTTPS", "SVCB") and any(each in rdata for each in _NEW_PARAMETERS)
    if rdtype == "DSYNC" or has_new_parameters:
        rdata = dns.rdata.from_text("IN", rdtype, rdata).to_generic().to_text()
    if rdtype == "DSYNC":
        rdtype = "TYPE66"
    return f"{record.owner}. {record.ttl_seconds} IN {rdtype} {rdata}\n"


def _lines(spool: IO[str]) -> Iterator[str]:
    with spool:
        for line in spool:
            yield line.removesuffix("\n")


def _read_all(spool: IO[str]) -> str:
    with spool:
        return spool.read()
