"""`sublet settings`: every setting with its value."""

import re
from dataclasses import fields

import typer

from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, question
from sublet.config import DESCRIPTIONS, Settings

app = typer.Typer()


@question(app, "settings")
def settings(session: Session) -> Answer:
    """Show every setting: its value, its default, the variable that sets it, and what it means."""
    found = [
        {
            "name": field.name,
            "value": _without_password(getattr(session.settings, field.name)),
            "default": field.default,
            "variable": f"SUBLET_{field.name.upper()}",
            "description": DESCRIPTIONS[field.name],
        }
        for field in fields(Settings)
    ]
    rows = tuple(tuple(each.values()) for each in found)
    return Answer(found, table=Table(("setting", "value", "default", "variable", "meaning"), rows))


def _without_password(value: object) -> object:
    if not isinstance(value, str):
        return value
    hidden = re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:…@", value)
    return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1…", hidden)
