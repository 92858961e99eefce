"""The parts that the texts of mails to users share (rules)."""

REMINDERS_FOOTER = (
    "You get this mail because reminders are on for your account; PUT /me/reminders turns them off."
)


def letter(user_name: str, *paragraphs: str) -> str:
    """Return the text of a mail: a greeting, then these paragraphs."""
    return "\n\n".join((f"Hello {user_name},", *paragraphs)) + "\n"
