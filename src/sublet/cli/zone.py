"""`sublet zone …`: compare zones with the registry, repair their records, export them, and configure name
servers; the operator's own records in zones on the built-in name server.
"""

from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import dns.rdata
import typer

from sublet.cli import zone_config, zone_status
from sublet.cli.options import Domain
from sublet.cli.output import Answer, Column, as_object, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.cli.zone_advice import transfer_failed
from sublet.config import public_dns_addresses
from sublet.db import Database, Tx, utc_now
from sublet.dns.types import Record
from sublet.errors import REFUSED, Conflict
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries.check_process import TRANSFER_SECONDS, Outcome, check_on_primary
from sublet.primaries.check_zone import Repairs, ZoneCheck
from sublet.primaries.compare_zone import ZoneDifferences
from sublet.primaries.find_primary import find_primary
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.repair_zone import repair as repair_on_primary
from sublet.primaries.repair_zone import stop_reason
from sublet.primaries.transfer import transfer_zone
from sublet.primaries.update import fence_name
from sublet.subdomains.records.zone_file import portable_value
from sublet.subdomains.view_zone import export_zone
from sublet.subdomains.zone_records import (
    TTL_SECONDS_DEFAULT,
    list_zone_record_sets,
    remove_zone_record,
    set_zone_record,
)

app = new_app("Compare zones with the registry; export them; configure their name servers.")
record_app = new_app("The operator's own records in zones on the built-in name server.")

_SIGNER_TYPES = ("DNSKEY", "CDNSKEY", "CDS", "NSEC3PARAM", "ZONEMD")
"""Types that a signing server adds, and that don't belong into an unsigned zone file.
`ZoneTransfer.take_records` leaves out further types.
"""


@command(app, "check")
def check(session: Session, domain: Domain) -> Answer:
    """Compare a zone with the registry. Exits with 1 if records of the registry are wrong."""
    platform_domain = session.read(find_platform_domain, domain)
    if platform_domain.primary:
        found, _ = session.use(lambda db: _check_on_primary(session, db, platform_domain))
    else:
        found = session.read(_check_built_in, platform_domain)
    lines = _lines(found) or (f"{found.zone} matches the registry.",)
    return Answer(_describe(found), lines, exit_code=0 if found.differences.needs_no_repair else REFUSED)


@audited_command(app, "repair")
def repair(
    session: Session,
    domain: Domain,
    force: Annotated[
        bool, typer.Option("--force", help="Repair even if implausibly many names would lose their records.")
    ] = False,
) -> Answer:
    """Publish the registry's records again where the zone is wrong.

    Records that the registry did not write stay.
    """
    platform_domain = session.read(find_platform_domain, domain)
    if not platform_domain.primary:
        raise Conflict(
            f"{platform_domain.domain} is on the built-in name server, which always serves the stored "
            "records. No action needed."
        )

    async def run(db: Database) -> ZoneCheck:
        checked, outcome = await _check_on_primary(session, db, platform_domain)
        reason = None if force else stop_reason(checked.repairs)
        if reason is not None:
            raise Conflict(reason)
        primary = platform_domain.primary
        await repair_on_primary(db, session.actor, platform_domain.id, primary, outcome, force=force)
        return checked

    found = session.use(run)
    wrong = not found.differences.needs_no_repair
    last = (
        "The publisher now repairs these records."
        if wrong
        else f"There is nothing to repair in {found.zone}."
    )
    return Answer(_describe(found), (*_lines(found), last))


def _check_built_in(tx: Tx, platform_domain: PlatformDomain) -> ZoneCheck:
    """Return a check that has only the adopted records, because the built-in name server takes all others
    from the registry.
    """
    adopted = tuple(zone_store.list_zone_records(tx, platform_domain.id))
    nothing = Repairs(0, 0, 0, len(adopted), (), (), (), (), is_settled=True)
    return ZoneCheck(platform_domain.domain, ZoneDifferences((), (), (), adopted), (), nothing)


async def _check_on_primary(
    session: Session, db: Database, platform_domain: PlatformDomain
) -> tuple[ZoneCheck, Outcome]:
    try:
        primary = find_primary(session.settings.primaries, platform_domain.primary)
        return await check_on_primary(db, platform_domain.id, primary)
    except PrimaryFault as fault:
        raise transfer_failed(platform_domain.domain, fault) from fault


def _describe(found: ZoneCheck) -> dict[str, Any]:
    differences = found.differences
    return {
        "zone": found.zone,
        "right": differences.needs_no_repair,
        "missing": differences.missing,
        "different": differences.different,
        "orphaned": differences.orphaned,
        "foreign": differences.foreign,
        "waiting": found.waiting,
    }


def _lines(found: ZoneCheck) -> tuple[str, ...]:
    differences = found.differences
    return (
        *(f"missing: {name}" for name in differences.missing),
        *(f"different: {each.name}" for each in differences.different),
        *(f"orphaned: {each.owner} {each.type} {each.rdata}" for each in differences.orphaned),
        *(f"foreign: {each.owner} {each.type} {each.rdata}" for each in differences.foreign),
        *(f"waiting: {name}" for name in found.waiting),
    )


@command(app, "export")
def export(session: Session, domain: Domain) -> Answer:
    """Print an unsigned zone file with the records that the zone's server serves now."""
    platform_domain = session.read(find_platform_domain, domain)
    # A temporary file, so that a transfer that fails prints nothing. A large zone may not fit into memory.
    spool = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - `_lines_of` and `_read_all` close it
    if platform_domain.primary:
        session.use(lambda _: _transfer(session, platform_domain, spool))
    else:
        session.read(_export, platform_domain, public_dns_addresses(session.settings), spool)
    return Answer(lambda: {"zone": platform_domain.domain, "zone_file": _read_all(spool)}, _lines_of(spool))


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
    type DSYNC, and the values that `portable_value` rewrites.
    """
    rdtype, rdata = record.type, portable_value(record.type, record.rdata)
    if rdtype == "DSYNC":
        rdtype, rdata = "TYPE66", dns.rdata.from_text("IN", rdtype, rdata).to_generic().to_text()
    return f"{record.owner}. {record.ttl_seconds} IN {rdtype} {rdata}\n"


def _lines_of(spool: IO[str]) -> Iterator[str]:
    with spool:
        for line in spool:
            yield line.removesuffix("\n")


def _read_all(spool: IO[str]) -> str:
    with spool:
        return spool.read()


command(app, "config")(zone_config.config)
command(app, "status")(zone_status.status)
app.add_typer(record_app, name="record")

Owner = Annotated[
    str,
    typer.Option(
        "--owner", metavar="NAME", help="Relative to the zone, or a full name; `@` for the zone itself."
    ),
]
Type = Annotated[str, typer.Option("--type", metavar="TYPE", help="The record type, such as CAA.")]


@audited_command(record_app, "set")
def set_(
    session: Session,
    domain: Domain,
    owner: Owner,
    type_name: Type,
    value: Annotated[list[str], typer.Option(metavar="TEXT", help="A value. May be given several times.")],
    ttl: Annotated[int, typer.Option(metavar="SECONDS", help="The TTL: 60 to 86400.")] = TTL_SECONDS_DEFAULT,
) -> Answer:
    """Set the records of an owner and type, in place of the ones that it has."""
    rrset = session.write(set_zone_record, domain, owner, type_name, value, ttl_seconds=ttl)
    return Answer(
        as_object(rrset),
        tuple(f"{rrset.name} {rrset.ttl_seconds} {rrset.type} {each}" for each in rrset.values),
    )


@audited_command(record_app, "remove")
def remove(session: Session, domain: Domain, owner: Owner, type_name: Type) -> Answer:
    """Remove the records of an owner and type, also adopted ones."""
    rrset = session.write(remove_zone_record, domain, owner, type_name)
    return Answer(as_object(rrset), (f"The {rrset.type} records of {rrset.name} are removed.",))


@command(record_app, "list")
def list_records(session: Session, domain: Domain) -> Answer:
    """List the records of a zone that no registration published: the ones that were set, and adopted ones."""
    found = session.read(list_zone_record_sets, domain)
    columns: list[Column] = [("owner", "name"), "type", ("ttl", "ttl_seconds"), "values"]
    return Answer(
        [as_object(each) for each in found], table=table_of(found, columns, "The zone has no such records.")
    )
