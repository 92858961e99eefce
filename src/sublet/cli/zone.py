"""`sublet zone …`: hold the zones against the registry, repair what is ours, and configure their name servers."""

from typing import Annotated, Any

import typer

from sublet.audit import Actor
from sublet.cli import zone_config
from sublet.cli.domain import Domain
from sublet.cli.output import Answer
from sublet.cli.session import REFUSED, Session, change, question
from sublet.db import Tx
from sublet.platform_domains.find import find_platform_domain
from sublet.subdomains.check_zone import ZoneCheck, check_zone, repair_zone

app = typer.Typer(
    help="Hold the zones against the registry; configure their name servers.", no_args_is_help=True
)


@question(app, "check")
def check(session: Session, domain: Domain) -> Answer:
    """Compare a zone with the registry; exits 1 when something of ours is wrong in it."""
    found = session.read(lambda tx: check_zone(tx, find_platform_domain(tx, domain)))
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
    """Have what is wrong of ours published anew; what we never wrote stays."""

    def run(tx: Tx, actor: Actor) -> ZoneCheck:
        return repair_zone(tx, actor, find_platform_domain(tx, domain), force=force)

    found = session.write(run)
    wrong = not found.differences.ours_is_right
    last = "It is published anew." if wrong else f"There is nothing to repair in {found.zone}."
    return Answer(_describe(found), (*_lines(found), last))


question(app, "config")(zone_config.config)


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
