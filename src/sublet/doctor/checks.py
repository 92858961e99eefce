"""Run all checks of the stored data, and of the running parts."""

from collections.abc import Callable, Iterable

import msgspec
from dns.exception import DNSException

from sublet import audit
from sublet.db import Tx
from sublet.doctor.accounts import check_accounts
from sublet.doctor.audit import check_audit
from sublet.doctor.credits import check_credits
from sublet.doctor.health import check_health
from sublet.doctor.model import Violation
from sublet.doctor.name_history import check_milestones, check_name_history
from sublet.doctor.names import check_names
from sublet.doctor.rows import check_belonging, check_rows
from sublet.doctor.running import check_mail, check_sweep, check_watch
from sublet.doctor.zones import check_zones

UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    DNSException,
    msgspec.MsgspecError,
)
"""The errors that a check raises when it reads a wrong value."""


def check_all(tx: Tx) -> list[Violation]:
    """Return the broken invariants of the stored data."""
    return [
        *_run(tx, "rows", check_rows),
        *_run(tx, "audit", check_audit),
        *_run(tx, "accounts", check_accounts),
        *_run(tx, "belonging", check_belonging),
        *_run(tx, "credits", check_credits),
        *_run(tx, "names", check_names),
        *_run(tx, "name_history", check_name_history),
        *_run(tx, "milestones", check_milestones),
        *_run(tx, "health", check_health),
        *_run(tx, "zones", check_zones),
    ]


def check_copy(tx: Tx) -> list[Violation]:
    """Return the broken invariants of a copy.

    Checks use the time of its newest change, so that nothing counts as late.
    """
    newest = audit.newest_at(tx)
    return check_all(Tx(tx.connection, min(tx.now, newest or tx.now)))


def check_running(tx: Tx) -> list[Violation]:
    """Return the parts that are late or stopped.

    Don't call this for a registry without a worker, for example a copy.
    """
    return [
        *_run(tx, "sweep", check_sweep),
        *_run(tx, "mail", check_mail),
        *_run(tx, "watch", check_watch),
    ]


def _run(tx: Tx, name: str, check: Callable[[Tx], Iterable[Violation]]) -> list[Violation]:
    """Run a check, and return its violations.

    A row that the check can't read ends the check, and is a violation too.
    """
    found: list[Violation] = []
    try:
        found.extend(check(tx))
    except UNREADABLE as error:
        found.append(unreadable_row(name, error))
    return found


def unreadable_row(check: str, error: Exception) -> Violation:
    """Return the violation of a row that a check can't read."""
    sentence = f"it ended at a row that it can't read ({type(error).__name__}: {error})"
    return Violation("rows_are_readable", "check", check, sentence)
