"""`sublet init`: make or upgrade the registry's database."""

from sublet.cli.commands import new_app
from sublet.cli.output import Answer
from sublet.cli.session import Session, change

app = new_app()


@change(app, "init")
def init(session: Session) -> Answer:
    """Make the registry's database, or upgrade it; asks nothing and may be repeated."""
    from sublet.migrations import upgrade  # noqa: PLC0415 - Alembic is needed by few commands

    before, after = upgrade(session.settings.database_url)
    if before is None:
        line = f"Made an empty registry (schema {after})."
    elif before == after:
        line = f"The registry is up to date (schema {after})."
    else:
        line = f"Upgraded the registry from schema {before} to {after}."
    return Answer({"before": before, "after": after}, (line,))
