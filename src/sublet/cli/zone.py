"""`sublet zone …`: compare zones with the registry, repair their records, export them, and configure name
servers.
"""

from typing import Annotated, Any

import typer

from sublet.cli import zone_config, zone_export, zone_record, zone_status
from sublet.cli.options import Domain
from sublet.cli.output import Answer
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.cli.zone_advice import transfer_failed
from sublet.db import Database, Tx
from sublet.errors import REFUSED, Conflict
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries.check_process import Outcome, check_on_primary
from sublet.primaries.check_zone import Repairs, ZoneCheck
from sublet.primaries.compare_zone import ZoneDifferences
from sublet.primaries.find_primary import find_primary
from sublet.primaries.primary import PrimaryFault
from sublet.primaries.repair_zone import repair as repair_on_primary
from sublet.primaries.repair_zone import stop_reason

app = new_app("Compare zones with the registry; export them; configure their name servers.")


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


command(app, "export")(zone_export.export)
command(app, "config")(zone_config.config)
command(app, "status")(zone_status.status)
app.add_typer(zone_record.app, name="record")


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
