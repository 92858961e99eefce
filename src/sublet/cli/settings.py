"""`sublet settings`: every setting with its value."""

from dataclasses import fields

from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, question
from sublet.config import DESCRIPTIONS, Settings
from sublet.secret import without_secrets

app = new_app()


@question(app, "settings")
def settings(session: Session) -> Answer:
    """Show every setting: its value, its default, the variable that sets it, and what it means."""
    found = [
        {
            "name": field.name,
            "value": without_secrets(value) if isinstance(value, str) else value,
            "default": field.default,
            "variable": f"SUBLET_{field.name.upper()}",
            "description": DESCRIPTIONS[field.name],
        }
        for field in fields(Settings)
        for value in (getattr(session.settings, field.name),)
    ]
    rows = tuple(tuple(each.values()) for each in found)
    return Answer(found, table=Table(("setting", "value", "default", "variable", "meaning"), rows))
