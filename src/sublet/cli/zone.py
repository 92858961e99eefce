"""`sublet zone …`: hold the zones against the registry, repair what is ours, and configure their name servers."""

from typing import Annotated, Any

import typer

from sublet.audit import Actor
from sublet.cli import zone_config, zone_status
from sublet.cli.options import Domain
from sublet.cli.output import Answer
from sublet.cli.session import Session, change, new_app, question
from sublet.cli.zone_advice import OF_CAUSE
from sublet.db import Database, Tx
from sublet.dns.primary import CAUSES, PrimaryFault
from sublet.errors import REFUSED, Conflict, Unavailable
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.primaries import find_primary
from sublet.subdomains.check_zone import ZoneCheck, check_built_in_zone
from sublet.subdomains.repair_zone import repair_built_in_zone, stop_reason
from sublet.worker.zone_check import Outcome, check_on_primary
from sublet.worker.zone_repair import repair as repair_on_primary

app = new_app("Hold the zones against the registry; configure their name servers.")


@question(app, "check")
def check(session: Session, domain: Domain) -> Answer:
    """Compare a zone with the registry; exits 1 when something of ours is wrong in it."""
    platform_domain = session.read(find_platform_domain, domain)
    if platform_domain.primary:
        found, _ = session.use(lambda db: _transferred(session, db, platform_domain))
    else:
        found = session.read(check_built_in_zone, platform_domain)
    lines = _lines(found) or (f"{found.zone} is as the registry says.",)
    return Answer(_describe(found), lines, exit_code=0 if found.differences.ours_is_right else REFUSED)


@change(app, "repair")
def repair(
    session: Session,
    domain: Domain,
    force: Annotated[
        bool, typer.Option("--force", help="Even where implausibly many names would lose their records.")
    ] = False,
) -> Answer:
    """Have what is wrong of ours published again; what we never wrote stays."""

    def run(tx: Tx, actor: Actor) -> ZoneCheck:
        return repair_built_in_zone(tx, actor, find_platform_domain(tx, domain), force=force)

    async def run_on_primary(db: Database) -> ZoneCheck:
        checked, outcome = await _transferred(session, db, platform_domain)
        reason = None if force else stop_reason(checked.repairs)
        if reason is not None:
            raise Conflict(reason)
        primary = platform_domain.primary
        await repair_on_primary(db, session.actor, platform_domain.id, primary, outcome, force=force)
        return checked

    platform_domain = session.read(find_platform_domain, domain)
    found = session.use(run_on_primary) if platform_domain.primary else session.write(run)
    wrong = not found.differences.ours_is_right
    last = "It is published again." if wrong else f"There is nothing to repair in {found.zone}."
    return Answer(_describe(found), (*_lines(found), last))


question(app, "config")(zone_config.config)
question(app, "status")(zone_status.status)


async def _transferred(
    session: Session, db: Database, platform_domain: PlatformDomain
) -> tuple[ZoneCheck, Outcome]:
    try:
        primary = find_primary(session.settings.primaries, platform_domain.primary)
        return await check_on_primary(db, platform_domain.id, primary)
    except PrimaryFault as fault:
        meaning = CAUSES.get(fault.cause, fault.cause)
        hint = OF_CAUSE.get(fault.cause, "")
        raise Unavailable(
            f"The zone {platform_domain.domain} can't be transferred: {meaning} ({fault}). {hint}"
        ) from fault


def _describe(found: ZoneCheck) -> dict[str, Any]:
    differences = found.differences
    return {
        "zone": found.zone,
        "right": differences.ours_is_right,
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
        *(f"left over: {each.owner} {each.type} {each.rdata}" for each in differences.orphaned),
        *(f"not ours: {each.owner} {each.type} {each.rdata}" for each in differences.foreign),
        *(f"under way: {name}" for name in found.waiting),
    )
