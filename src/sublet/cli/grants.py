"""`sublet grants`: the SQL of PostgreSQL's roles that may do no more than each part of the service needs."""

from sublet.cli.commands import new_app
from sublet.cli.output import Answer
from sublet.cli.session import Session, question

app = new_app()


@question(app, "grants")
def grants(session: Session) -> Answer:
    """Print the SQL that makes a PostgreSQL role for each part of the service, which may do what that needs and no more."""
    from sublet.registry.copy_store import list_copied, list_numbered, list_other  # noqa: PLC0415 - loads every store
    from sublet.registry.privileges import grant_statements  # noqa: PLC0415

    _ = session
    tables = [each.name for each in (*list_copied(), *list_other())]
    numbered = [each.name for each in list_numbered()]
    lines = grant_statements([*tables, "alembic_version"], numbered)
    return Answer({"statements": lines}, tuple(lines))
