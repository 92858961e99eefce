"""Instants as texts for people: in mails, warnings and notices."""

from datetime import datetime


def day(at: datetime) -> str:
    """Return the day of an instant in UTC, such as `24 November 2026`."""
    return f"{at.day} {at:%B %Y}"


def moment(at: datetime) -> str:
    """Return an instant in UTC to the minute, such as `24 November 2026, 10:05 UTC`."""
    return f"{day(at)}, {at:%H:%M} UTC"
