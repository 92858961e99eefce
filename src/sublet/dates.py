"""Instants as texts for people: in mails, warnings and notices. Instants that another clock has written."""

from datetime import datetime, timedelta

CLOCKS_APART = timedelta(minutes=1)
"""The maximum difference between the clocks of two hosts of a registry."""


def day(at: datetime) -> str:
    """Return the day of an instant in UTC, such as `24 November 2026`."""
    return f"{at.day} {at:%B %Y}"


def moment(at: datetime) -> str:
    """Return an instant in UTC to the minute, such as `24 November 2026, 10:05 UTC`."""
    return f"{day(at)}, {at:%H:%M} UTC"


def is_future(at: datetime, now: datetime) -> bool:
    """True if a stored instant is in the future, which means that the clock was set back."""
    return at > now + CLOCKS_APART
