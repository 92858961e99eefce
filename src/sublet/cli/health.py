"""`sublet health …`: the health of the names' delegations."""

from typing import Annotated, Any

from typer import Option

from sublet.cli.options import Limit, OnlyDomain, SubdomainName
from sublet.cli.output import Answer, key_value_lines, select_members, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.db import Tx
from sublet.errors import check_one_of, validation_failed
from sublet.health import brake, store
from sublet.health.model import STATES, Health, HealthChange, worst_first
from sublet.health.schedule import new_health
from sublet.health.store import Brake, find_brake
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.model import Subdomain

app = new_app("Show the health of the names' delegations, and resume checks that the brake has stopped.")
_MEMBERS = ("state", "since", "checked_at", "due_at", "next_state", "failures")


@command(app, "list")
def list_(
    session: Session,
    state: Annotated[
        str | None, Option("--state", metavar="|".join(STATES), help="Only names in this state.")
    ] = None,
    domain: OnlyDomain = None,
    limit: Limit = 100,
) -> Answer:
    """List the checked names, longest in their state first."""
    if errors := check_one_of("state", state, STATES):
        raise validation_failed(errors)

    def query(tx: Tx) -> list[tuple[str, Health]]:
        domain_id = find_platform_domain(tx, domain).id if domain is not None else None
        return store.list_health(tx, state, limit, domain_id)

    found = session.read(query)
    rows = [
        {"fqdn": fqdn, **select_members(health, _MEMBERS), "findings": _codes(health)}
        for fqdn, health in found
    ]
    columns = ("fqdn", "state", "since", "checked_at", "findings")
    return Answer(rows, table=table_of(rows, columns, "There are no such names."))


@command(app, "show")
def show(session: Session, name: SubdomainName) -> Answer:
    """Show the findings of a name's last check, and the changes of its state."""

    def query(tx: Tx) -> tuple[Subdomain, Health, list[HealthChange]]:
        subdomain = find_for_operator(tx, name)
        health = store.find_health(tx, subdomain.id) or new_health(subdomain.id, subdomain.created_at, tx.now)
        return subdomain, health, store.list_changes(tx, subdomain.id)

    subdomain, health, changes = session.read(query)
    findings = [
        select_members(each, ("code", "level", "subject", "message", "hint"))
        for each in worst_first(health.findings)
    ]
    shown = {
        "fqdn": subdomain.fqdn,
        **select_members(health, _MEMBERS),
        "findings": findings,
        "history": [select_members(each, ("at", "state", "codes")) for each in changes],
    }
    lines = (
        f"{subdomain.fqdn} is {health.state} since {health.since:%Y-%m-%d %H:%M} UTC.",
        *(f"{each['level']}: {each['message']} {each['hint']}" for each in findings),
        *(f"{each.at:%Y-%m-%d %H:%M} {each.state} {', '.join(each.codes)}".rstrip() for each in changes),
    )
    return Answer(shown, lines)


@command(app, "status")
def status(session: Session) -> Answer:
    """Show whether the checks work, and whether the brake has stopped mails about breakages and removals from
    the DNS.
    """
    return _status(session)


@audited_command(app, "resume")
def resume(session: Session) -> Answer:
    """Resume mails about breakages and removals from the DNS.

    This confirms that the names are broken. The brake stays off for a day.
    """
    session.write(brake.resume)
    return _status(session, "The consequences of breakages are on again. The brake stays off for a day.")


def _status(session: Session, *lines: str) -> Answer:
    def query(tx: Tx) -> dict[str, Any]:
        counts = store.count_states(tx)
        states = {each: counts.get(each, 0) for each in STATES}
        return {**select_members(find_brake(tx), Brake.__struct_fields__), "states": states}

    found = session.read(query)
    checks = "working" if session.settings.health_checks else "off; the setting health_checks turns them on"
    if found["impaired_reason"] is not None:
        checks = "impaired; every checked name is unknown"
    consequences = "on" if found["stopped_at"] is None else "stopped; `sublet health resume` resumes them"
    shown = {name: value for name, value in found.items() if name != "states" and value is not None}
    shown_lines = key_value_lines(checks=checks, consequences=consequences, **shown, **found["states"])
    return Answer(found, lines or shown_lines)


def _codes(health: Health) -> list[str]:
    return list(dict.fromkeys(each.code for each in worst_first(health.findings)))
