"""Processes: how often they say that they are there, and who is taken for gone (rules)."""

from datetime import datetime, timedelta

from sublet.processes.model import Process

SEEN_EVERY_SECONDS = 10.0
GONE_AFTER = timedelta(seconds=35)
"""After three times that nothing was heard of it a process counts as gone."""
FORGOTTEN_AFTER = timedelta(hours=1)
"""Until then one that has gone without a word is shown."""
CLOCKS_APART_MAX = timedelta(minutes=1)
"""How far a host's clock may be from the database's before that is told."""


def is_there(process: Process, now: datetime) -> bool:
    """Tell whether a process was heard of lately. `seen_at` may be of the future: a clock was put right since."""
    return abs(now - process.seen_at) <= GONE_AFTER
