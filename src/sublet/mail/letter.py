"""The parts that the texts of mails to users share (rules)."""

from datetime import datetime

REMINDERS_FOOTER = (
    "You get this mail because reminders are on for your account; PUT /me/reminders turns them off."
)


def letter(user_name: str, *paragraphs: str) -> str:
    """Return the text of a mail: a greeting, then these paragraphs."""
    return "\n\n".join((f"Hello {user_name},", *paragraphs)) + "\n"


def day(at: datetime) -> str:
    """Return the day of an instant (UTC) as text."""
    return f"{at.day} {at:%B %Y}"


def moment(at: datetime) -> str:
    """Return an instant as text for mails and warnings."""
    return f"{day(at)}, {at:%H:%M} UTC"
