"""`sublet init`, `migrate`, `copy` and `grants`: create, upgrade and move the registry's database, and its
PostgreSQL roles.
"""

from typing import TYPE_CHECKING, Annotated

from typer import Option

from sublet.cli.output import Answer, Column, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.config import check_database_url
from sublet.counted import counted
from sublet.db import Tx, utc_now
from sublet.errors import REFUSED, Unavailable
from sublet.schema_revision import open_engine, refuse_missing, why_unusable
from sublet.secret import without_secrets

if TYPE_CHECKING:
    from sublet.doctor.model import Violation
    from sublet.migrations import Plan

init_app = new_app()
migrate_app = new_app()
copy_app = new_app()
grants_app = new_app()


@audited_command(init_app, "init")
def init(session: Session) -> Answer:
    """Create the registry's database, or upgrade it. Idempotent."""
    from sublet.migrations import upgrade  # noqa: PLC0415 - Alembic is needed by few commands

    before, after = upgrade(session.settings.database_url)
    line = f"Created an empty registry (schema {after})." if before is None else _upgrade_line(before, after)
    found = _list_other_spellings(session)
    value = {"before": before, "after": after, "other_spellings": found}
    return Answer(value, (line, *map(str, found)))


def _list_other_spellings(session: Session) -> "list[Violation]":
    """Return the users whose addresses the upgrade couldn't store in canonical form, because another user has
    the same mailbox.
    """
    from sublet.doctor.accounts import check_addresses  # noqa: PLC0415 - every store is needed by few commands

    # Not `session.read`: like the upgrade, this works with a PostgreSQL that may lose writes, which `serve`
    # refuses.
    with open_engine(session.settings.database_url).connect() as connection:
        return list(check_addresses(Tx(connection, utc_now())))


def _upgrade_line(before: str, after: str) -> str:
    if before == after:
        return f"The registry is up to date (schema {after})."
    return f"Upgraded the registry from schema {before} to {after}."


@audited_command(migrate_app, "migrate")
def migrate(
    session: Session,
    check: Annotated[
        bool, Option("--check", help="Print the pending migrations, and change nothing.")
    ] = False,
    force: Annotated[
        bool,
        Option("--force", help="Upgrade even if running processes can't work with the new schema."),
    ] = False,
) -> Answer:
    """Upgrade the registry to the newest schema.

    Refused if running processes can't work with the new schema.
    """
    from sublet.migrations import plan_of, upgrade  # noqa: PLC0415 - Alembic is slow to import

    url = session.settings.database_url
    refuse_missing(url)
    plan = plan_of(url)
    if plan.before is None:
        raise Unavailable(why_unusable(None))
    if check:
        return _describe_plan(plan)
    _, after = upgrade(url, force=force)
    found = _list_other_spellings(session)
    value = {"before": plan.before, "after": after, "pending": [], "in_the_way": [], "other_spellings": found}
    return Answer(value, (_upgrade_line(plan.before, after), *map(str, found)))


def _describe_plan(plan: "Plan") -> Answer:
    value = {
        "before": plan.before,
        "after": plan.after,
        "pending": [each.revision for each in plan.migrations],
        "in_the_way": list(plan.in_the_way),
        "other_spellings": [],
    }
    if not plan.migrations:
        return Answer(value, (f"The registry is up to date (schema {plan.after}).",))
    older = plan.migrations[-1].compatible_with
    lines = (
        f"Pending: upgrade from schema {plan.before} to {plan.after}:",
        *(f"- {each.revision}: {each.what}" for each in plan.migrations),
        f"Code of {', '.join(older)} works with the new schema."
        if older
        else "No older code works with the new schema.",
        *(f"In the way: {each}" for each in plan.in_the_way),
    )
    return Answer(value, lines, exit_code=REFUSED if plan.in_the_way else 0)


@command(copy_app, "copy")
def copy(
    session: Session,
    source: Annotated[
        str,
        Option("--from", metavar="ADDRESS", help="The database with the registry, as in `database_url`."),
    ],
    target: Annotated[
        str,
        Option("--to", metavar="ADDRESS", help="An empty database, or a database with the same registry."),
    ],
    force: Annotated[bool, Option("--force", help="Copy a registry even if it breaks an invariant.")] = False,
) -> Answer:
    """Copy a registry from one database into another in one transaction, and check the copy. Idempotent."""
    from sublet.registry.copy import copy_registry  # noqa: PLC0415 - Alembic and every store are needed by few commands

    _ = session
    check_database_url("--from", source)
    check_database_url("--to", target)
    copied = copy_registry(source, target, force=force)
    shown_source, shown_target = without_secrets(source), without_secrets(target)
    value = {
        "from": shown_source,
        "to": shown_target,
        "already": copied.already,
        "tables": copied.tables,
        "violations": copied.violations,
    }
    rows = sum(each.rows for each in copied.tables)
    if copied.already:
        lines = [f"{shown_target} has the same registry already ({rows:,} rows). Nothing was changed."]
    else:
        lines = [
            f"Copied {counted(rows, 'row')} from {shown_source} to {shown_target}. The read-back was equal.",
            f"Broken invariants: {len(copied.violations) or 'none'}.",
            *(f"  {each}" for each in copied.violations),
            "Set `database_url` to the copy before you start the service, and never serve the source again.",
        ]
    columns: list[Column] = [
        "table",
        ("rows on both sides", lambda each: f"{each.rows:,}"),
        ("digest (SHA-256)", lambda each: each.digest[:16]),
    ]
    exit_code = REFUSED if copied.violations else 0
    return Answer(value, tuple(lines), table_of(copied.tables, columns), exit_code)


@command(grants_app, "grants")
def grants(session: Session) -> Answer:
    """Print the SQL that creates a PostgreSQL role with minimal privileges for each part of the service."""
    from sublet.registry.copy_store import list_copied, list_other, list_sequences  # noqa: PLC0415 - loads every store
    from sublet.registry.privileges import grant_statements  # noqa: PLC0415

    _ = session
    tables = [each.name for each in (*list_copied(), *list_other())]
    numbered = [each.name for each in list_sequences()]
    lines = grant_statements([*tables, "alembic_version"], numbered)
    return Answer({"statements": lines}, tuple(lines))
