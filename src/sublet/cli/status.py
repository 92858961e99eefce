"""`sublet status`: the processes that share this registry, and what each of them does alone."""

from typing import Any

from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, question
from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import is_over
from sublet.processes.processes import is_there

app = new_app()


@question(app, "status")
def status(session: Session) -> Answer:
    """Show the processes of the service that share the registry, and which of them has which zone now."""
    found = session.read(_describe)
    columns = ("role", "host", "pid", "version", "schema", "started", "there", "leases")
    rows = tuple(
        (
            *(each[name] for name in ("role", "host", "pid", "version", "schema", "started_at", "there")),
            each["leases"],
        )
        for each in found["processes"]
    )
    return Answer(found, table=Table(columns, rows, empty="No process of the service runs."))


def _describe(tx: Tx) -> dict[str, Any]:
    now = store.find_clock(tx)
    held = [each for each in store.list_leases(tx) if not is_over(each, now)]
    return {
        "processes": [
            {
                "id": each.id,
                "role": each.role,
                "host": each.host,
                "pid": each.pid,
                "version": each.version,
                "schema": each.revision,
                "started_at": each.started_at,
                "seen_at": each.seen_at,
                "there": is_there(each, now),
                "leases": [lease.name for lease in held if lease.holder == each.id],
            }
            for each in store.list_processes(tx)
        ]
    }
