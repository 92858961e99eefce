"""`sublet status` and `sublet settings`: the service's processes, and every setting with its value."""

from dataclasses import asdict, fields
from typing import Any

from sublet.cli.output import Answer, key_value_lines, select_members, table_of
from sublet.cli.session import Session, command, new_app
from sublet.config import DESCRIPTIONS, Settings
from sublet.db import Replication, Tx, find_replication
from sublet.processes import store
from sublet.processes.leases import is_over
from sublet.processes.processes import is_running
from sublet.secret import without_secrets

status_app = new_app()
settings_app = new_app()


@command(status_app, "status")
def status(session: Session) -> Answer:
    """Show the processes of the service, their leases, and on PostgreSQL the primary and its standbys."""
    processes, replication = session.read(lambda tx: (_list_processes(tx), find_replication(tx)))
    columns = ("role", "host", "pid", "version", "schema", "started_at", ("running", "there"), "leases")
    table = table_of(processes, columns, "No process of the service runs.")
    if replication is None:
        return Answer({"processes": processes}, table=table)
    value = {"processes": processes, "postgresql": replication.members()}
    return Answer(value, _replication_lines(replication), table)


def _replication_lines(found: Replication) -> tuple[str, ...]:
    standbys = f"unknown. {found.hint()}" if found.standbys is None else ", ".join(found.standbys) or "none"
    return key_value_lines(
        primary=found.primary, commits_wait_for_a_standby=found.commits_wait, synchronous_standbys=standbys
    )


def _list_processes(tx: Tx) -> list[dict[str, Any]]:
    now = store.find_clock(tx)
    held = [each for each in store.list_leases(tx) if not is_over(each, now)]
    return [
        {
            **select_members(each, ("id", "role", "host", "pid", "version", "started_at", "seen_at")),
            "schema": each.revision,
            "there": is_running(each, now),
            "leases": [lease.name for lease in held if lease.holder == each.id],
        }
        for each in store.list_processes(tx)
    ]


@command(settings_app, "settings")
def settings(session: Session) -> Answer:
    """Show every setting with its value, default, environment variable and meaning."""
    found = [
        {
            "name": field.name,
            "value": _without_secrets(value),
            "default": field.default,
            "variable": None if field.name == "primaries" else f"SUBLET_{field.name.upper()}",
            "description": DESCRIPTIONS[field.name],
        }
        for field in fields(Settings)
        for value in (getattr(session.settings, field.name),)
    ]
    value_column = ("value", lambda row: _names_of_primaries(row["value"]))
    columns = (("setting", "name"), value_column, "default", "variable", ("meaning", "description"))
    return Answer(found, table=table_of(found, columns))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, tuple):
        return [asdict(primary) for primary in value]
    return without_secrets(value) if isinstance(value, str) else value


def _names_of_primaries(value: Any) -> Any:
    return [primary["name"] for primary in value] if isinstance(value, list) else value
