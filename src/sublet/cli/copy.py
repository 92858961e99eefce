"""`sublet copy`: move a whole registry from one database into another, checked before it counts."""

import re
from typing import Annotated

import typer

from sublet import audit
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, question
from sublet.counted import counted
from sublet.db import Tx
from sublet.doctor.model import Violation
from sublet.service.exit_codes import REFUSED

app = new_app()

From = Annotated[
    str,
    typer.Option("--from", metavar="ADDRESS", help="The database with the registry, as in `database_url`."),
]
To = Annotated[
    str,
    typer.Option("--to", metavar="ADDRESS", help="An empty database, or one that has this registry already."),
]
Force = Annotated[bool, typer.Option("--force", help="Also a registry that breaks an invariant.")]


@question(app, "copy")
def copy(session: Session, source: From, target: To, force: Force = False) -> Answer:
    """Copy a whole registry from one database into another and check it; all of it or nothing. It may be repeated."""
    from sublet.doctor.checks import check_all  # noqa: PLC0415 - Alembic and every store are needed by few commands
    from sublet.registry.copy import copy_registry  # noqa: PLC0415

    def check(tx: Tx) -> list[Violation]:
        # As of its newest change, as for a backup: nothing waited since.
        newest = audit.newest_at(tx)
        as_of = Tx(tx.connection, min(tx.now, newest or tx.now))
        return check_all(as_of, free_quota=session.settings.free_quota)

    copied = copy_registry(source, target, check, force=force)
    value = {
        "from": shown_address(source),
        "to": shown_address(target),
        "already": copied.already,
        "tables": copied.tables,
        "violations": copied.violations,
    }
    rows = sum(each.rows for each in copied.tables)
    if copied.already:
        first = (
            f"{shown_address(target)} has exactly this registry already ({rows:,} rows); nothing was changed."
        )
    else:
        first = f"Copied {counted(rows, 'row')} from {shown_address(source)} to {shown_address(target)}, and read them back: equal."
    broken = tuple(
        f"  {each.invariant}: {each.object_type} {each.object_id}: {each.message}"
        for each in copied.violations
    )
    asked = () if copied.already else (f"Broken invariants: {len(broken) or 'none'}.", *broken)
    shown = tuple((each.table, f"{each.rows:,}", each.digest[:16]) for each in copied.tables)
    return Answer(
        value,
        (first, *asked),
        Table(("table", "rows on both sides", "digest (SHA-256)"), shown),
        exit_code=REFUSED if copied.violations else 0,
    )


def shown_address(url: str) -> str:
    """Return an address without the password that it may have, before the host or among the options."""
    hidden = re.sub(r"^(\w+://[^:/?@]*):.*@", r"\1@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1…", hidden)
