"""`sublet zone …`: hold the zones against the registry, repair what is ours, and configure their name servers."""

from typing import Annotated, Any

import typer

from sublet.audit import Actor
from sublet.cli import zone_config
from sublet.cli.domain import Domain
from sublet.cli.output import Answer, Table
from sublet.cli.session import REFUSED, Session, change, question
from sublet.db import Database, Tx
from sublet.dns.primary import CAUSES, PrimaryFault
from sublet.errors import Conflict, Unavailable
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.primaries import find_primary
from sublet.platform_domains.zone_state_store import ZoneState
from sublet.subdomains.check_zone import ZoneCheck, check_built_in_zone
from sublet.subdomains.repair_zone import repair_built_in_zone, stop_reason
from sublet.worker.zone_check import Outcome, check_on_primary
from sublet.worker.zone_repair import repair as repair_on_primary

app = typer.Typer(
    help="Hold the zones against the registry; configure their name servers.", no_args_is_help=True
)

WHAT_TO_DO = {
    "unreachable": "Does the server run, and are address and port in the settings right?",
    "no_answer": "Is the server overloaded or stopped, or does it not let this host transfer the zone?",
    "key": "Name and secret of the key have to be the same in the settings and on the server.",
    "clock": "Set both clocks right (NTP).",
    "refused": "The server has to let the key transfer the zone (AXFR), as docs/operating has it.",
    "zone": "The server has to be the zone's primary, and to have loaded it.",
    "failure": "Look at the server's log: a zone that was not loaded is answered so.",
    "settings": "Look at [primaries] in the settings, and at the key's file.",
}
"""What an operator can do where a zone can't be transferred, by cause."""


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
    """Have what is wrong of ours published anew; what we never wrote stays."""

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
    last = "It is published anew." if wrong else f"There is nothing to repair in {found.zone}."
    return Answer(_describe(found), (*_lines(found), last))


@question(app, "status")
def status(session: Session) -> Answer:
    """Show what is known of the zones on primaries: problems, the last check and what it found, a repair that waits for a word."""
    rows = session.read(_list_states)
    columns = ("zone", "primary", "checked", "missing", "different", "left over", "not ours", "problem")
    table = tuple(
        (
            domain,
            primary,
            state.checked_at,
            state.missing,
            state.different,
            state.orphaned,
            state.foreign_records,
            _problem(state),
        )
        for domain, primary, state in rows
    )
    value = [
        {
            "zone": domain,
            "primary": primary,
            **{name: getattr(state, name) for name in ZoneState.__slots__ if name not in _NOT_SHOWN},
        }
        for domain, primary, state in rows
    ]
    return Answer(value, table=Table(columns, table, "No zone stands on a primary."))


_NOT_SHOWN = ("platform_domain_id", "fence")
question(app, "config")(zone_config.config)


def _list_states(tx: Tx) -> list[tuple[str, str, ZoneState]]:
    states = zone_state_store.list_zone_states(tx)
    return [
        (each.domain, each.primary, states.get(each.id, ZoneState(each.id)))
        for each in platform_domain_store.list_platform_domains(tx)
        if each.primary
    ]


def _problem(state: ZoneState) -> str | None:
    if state.problem is not None:
        return f"{CAUSES.get(state.problem, state.problem)}: {state.problem_detail}"
    if state.watch_problem is not None:
        return f"{CAUSES.get(state.watch_problem, state.watch_problem)}: {state.watch_problem_detail}"
    return state.repair_stopped_reason


async def _transferred(
    session: Session, db: Database, platform_domain: PlatformDomain
) -> tuple[ZoneCheck, Outcome]:
    try:
        primary = find_primary(session.settings.primaries, platform_domain.primary)
        return await check_on_primary(db, platform_domain.id, primary)
    except PrimaryFault as fault:
        meaning = CAUSES.get(fault.cause, fault.cause)
        hint = WHAT_TO_DO.get(fault.cause, "Look at the server's log.")
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
